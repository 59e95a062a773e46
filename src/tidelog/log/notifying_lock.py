"""A reentrant lock that runs calls, notifications mostly, once it has been released.

A listener that ran under the lock would hold up every writer, and could deadlock with one.
"""

from __future__ import annotations

from collections import deque
from threading import Lock, RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class NotifyingLock:
    """A reentrant lock; calls deferred with ``after_release`` run when no hold of it is left.

    The calls run in the order in which they were deferred, one at a time, on the thread that ends
    its outermost hold. That thread also runs what others defer meanwhile, so that a thread never
    waits for another's calls. A call may take the lock itself, and defer more.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._depth = 0
        self._calls: deque[Callable[[], None]] = deque()
        self._delivery = Lock()

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock; return whether it was taken."""
        is_taken = self._lock.acquire(blocking)
        if is_taken:
            self._depth += 1
        return is_taken

    def release(self) -> None:
        """End one hold; after the outermost one run the deferred calls."""
        self._depth -= 1
        is_outermost = self._depth == 0
        self._lock.release()
        if is_outermost and self._calls:
            self._run_calls()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self.release()

    def after_release(self, call: Callable[[], None]) -> None:
        """Run ``call`` once the lock is free of this thread, at once if nobody holds it.

        If another thread holds the lock, that thread runs it.
        """
        self._calls.append(call)
        if self.acquire(blocking=False):
            self.release()

    def _run_calls(self) -> None:
        # A call deferred between the last look and the release is seen by the outer loop.
        while self._calls and self._delivery.acquire(blocking=False):
            try:
                while self._calls:
                    self._calls.popleft()()
            finally:
                self._delivery.release()
