"""Requests that change several topics: each part succeeds or fails by itself."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.client_request import Refusal, refused
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


async def answer_each(
    asked: Collection[dict[str, Any]],
    head: Callable[[dict[str, Any]], dict[str, Any]],
    work: Callable[[dict[str, Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Answer parts of a request, one after the other, on a thread.

    Each gets its ``head``, and what ``work`` returns, or the error that it raises. Parts with one
    head are refused: only one of them can be meant.
    """
    counts = Counter(tuple(head(given).values()) for given in asked)
    answers = []
    for given in asked:
        answer = head(given)
        try:
            if counts[tuple(answer.values())] > 1:
                name = list(answer.values())[-1]
                raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} is named more than once")
            answer |= await in_thread(partial(work, given))
        except KafkaError as error:
            answer |= refused(error)
        answers.append(answer)
    return answers
