"""How many cases the long tests try: ``SCALE=10`` in the environment makes it ten times as many."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "SCALE"
QUICK: Final = "QUICK"


def scaled(count: int, environment: Mapping[str, str] = os.environ) -> int:
    """Return ``count`` times the integer ``SCALE``, which is 1 if it is not set.

    InvalidArgument if ``SCALE`` is not an integer of at least 1.
    """
    text = environment.get(VARIABLE, "1")
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InvalidArgument(f"{VARIABLE}={text!r} is not an integer of at least 1")
    return count * int(text)


def stride(environment: Mapping[str, str] = os.environ) -> int:
    """Return how far apart the operations are that a sweep ends or fails at.

    All are tried, but only each third in ``make test``, which sets ``QUICK``.
    """
    return 3 if environment.get(QUICK) else 1


def examples(count: int, environment: Mapping[str, str] = os.environ) -> int:
    """Return how many examples hypothesis tries: a third in ``make test``, which sets ``QUICK``."""
    return scaled(count, environment) // stride(environment)
