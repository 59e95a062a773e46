"""A lock that another thread holds, as it looks to a test that has only one thread."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class HeldLock:
    """The first call that wants it waits until its holder is done, which still has to do ``rest``.

    It takes the place of a log's lock, in the middle of a change that the test has begun.
    """

    def __init__(self, rest: Callable[[], object]) -> None:
        self._lock = RLock()
        self._rest: Callable[[], object] | None = rest

    @classmethod
    def until(cls, rest: Callable[[], object]) -> Any:  # noqa: ANN401 - it stands for an RLock
        """Return one, for an attribute that is declared as an RLock."""
        return cls(rest)

    def __enter__(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            rest()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
