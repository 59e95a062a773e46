"""Several questions to a store at once: most of the time of one is spent on waiting."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tidelog.env.scheduler import run_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
U = TypeVar("U")


def ask_each(ask: Callable[[T], U], of: Sequence[T], at_once: int) -> list[U]:
    """Return the answer about each, in order, asked on at most ``at_once`` threads.

    The first error ends it, once the questions that have been sent are answered.
    """
    if len(of) < 2:
        return [ask(one) for one in of]
    tasks = (partial(ask, one) for one in of)
    with closing(run_ahead("tidelog-store", tasks, at_once)) as answers:
        return list(answers)
