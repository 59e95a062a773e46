"""A lock that another thread holds, as it looks to a test that has only one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.log.notifying_lock import NotifyingLock

if TYPE_CHECKING:
    from collections.abc import Callable


class HeldLock(NotifyingLock):
    """The first call that wants it waits until its holder is done, which still has to do ``rest``.

    It takes the place of a log's lock, in the middle of a change that the test has begun.
    """

    def __init__(self, rest: Callable[[], object]) -> None:
        super().__init__()
        self._rest: Callable[[], object] | None = rest

    def __enter__(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            rest()
        super().__enter__()
