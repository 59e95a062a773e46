"""Requests that change several topics: each part succeeds or fails by itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.client_request import refused
from tidelog.env.event_loop import in_thread
from tidelog.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


async def answer_each(
    asked: Iterable[dict[str, Any]],
    head: Callable[[dict[str, Any]], dict[str, Any]],
    work: Callable[[dict[str, Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Answer parts of a request, one after the other, on a thread.

    Each gets its ``head``, and what ``work`` returns, or the error that it raises.
    """
    answers = []
    for given in asked:
        answer = head(given)
        try:
            answer |= await in_thread(partial(work, given))
        except KafkaError as error:
            answer |= refused(error)
        answers.append(answer)
    return answers
