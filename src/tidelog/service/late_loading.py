"""Taking logs into service for which a disk had no space at the start, or when they were created.

Kafka takes the whole directory offline, until the broker is started again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.env.clock import NS_PER_MS
from tidelog.errors import StartAborted, TidelogError
from tidelog.log.directory_guard import may_pass
from tidelog.log.loading.load_watch import LoadWatcher
from tidelog.manager.manager_part import ManagerPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.log.loading.load_watch import RecoveryProgress
    from tidelog.manager.lifecycle.first_use import FirstUseLoader
    from tidelog.manager.manager_part import Shared
    from tidelog.segment.filenames import TopicPartition
    from tidelog.service.mover import PartitionMover

_log = logging.getLogger(__name__)

_RETRY_NS: Final = 1_000 * NS_PER_MS
"""Time after which a log is tried for the first time."""
_MAX_RETRY_NS: Final = 60_000 * NS_PER_MS
_LONG_NS: Final = 1_000 * NS_PER_MS
"""Time after which a pass of tries that fail ends."""
_REST: Final = 5
"""A log that could not be loaded waits as many times as long as the try took."""


class _StopWatcher(LoadWatcher):
    """Ends a recovery, between two pieces of the log, once ``should_stop`` returns True."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop

    def progressed(self, progress: RecoveryProgress) -> None:  # noqa: ARG002 - an override
        """Check whether to continue."""
        self._check()

    def recovering(self, directory: str, segments_left: int) -> None:  # noqa: ARG002 - an override
        """Check whether to continue."""
        self._check()

    def _check(self) -> None:
        if self._should_stop():
            raise StartAborted("loading a log late was stopped")


class LateLoader(ManagerPart):
    """Loads or creates the partitions that have failed by an error that may pass.

    A log may have to be recovered, with the registry's ``change_lock`` held. So the time between
    the end of a try and the next one doubles, and is several times that of the try; a pass in which
    tries fail ends soon, and no log is tried for as long as they took. A log that fails for another
    reason is left to the next start.
    """

    def __init__(self, shared: Shared, *, first_use: FirstUseLoader, mover: PartitionMover) -> None:
        super().__init__(shared)
        self._first_use: Final = first_use
        self._mover: Final = mover
        self._next: dict[TopicPartition, tuple[int, int]] = {}
        """When each is tried again, and the delay after that, both in ns."""
        self._rests_until_ns = 0
        self._failing_ns = 0
        """How long the tries of this pass took that failed."""

    def due(self) -> Iterator[TopicPartition]:
        """Yield the partitions whose turn it is now; one that is new to this has still to wait."""
        waiting = {key for key, error in self._registry.failed().items() if may_pass(error)}
        self._failing_ns = 0
        first = _after(self._machine.clock.monotonic_ns(), _RETRY_NS)
        self._next = {key: self._next.get(key, first) for key in waiting}
        for key in sorted(waiting, key=lambda key: (self._next[key], key)):
            due_ns, _ = self._next[key]
            if self._machine.clock.monotonic_ns() >= max(due_ns, self._rests_until_ns):
                yield key

    def load(self, key: TopicPartition, should_stop: Callable[[], bool]) -> bool:
        """Try to take a partition into service; return whether it is.

        ``should_stop`` is called between pieces of the log: what is recovered then stays so.
        """
        with self._registry.change_lock:
            if self._registry.is_closed or self._registry.life(key).error is None:
                return False
            if not self._topics.has(key):
                self._registry.forget_failure(key)
                return False
            began_ns = self._machine.clock.monotonic_ns()
            try:
                return self._try(key, _StopWatcher(should_stop))
            finally:
                if self._registry.life(key).error is not None:
                    self._put_off(key, self._machine.clock.monotonic_ns() - began_ns)

    def _try(self, key: TopicPartition, watcher: LoadWatcher) -> bool:
        try:
            log = self._first_use.load(*key, watcher).log
        except StartAborted:
            return False
        except TidelogError as error:
            if not may_pass(error):
                _log.error("log-not-loaded-late log=%s reason=%s", key, error)
            self._registry.fail(key, error)
            return False
        _log.info("log-loaded-late directory=%s", log.directory)
        self._registry.bell.ring()
        self._mover.resume_late(key)
        return True

    def _put_off(self, key: TopicPartition, spent_ns: int) -> None:
        """Let a log wait after a try that failed, and all of them after a long time of such."""
        now_ns = self._machine.clock.monotonic_ns()
        _, delay_ns = self._next.get(key, (now_ns, _RETRY_NS))
        due_ns, next_delay_ns = _after(now_ns, delay_ns)
        self._next[key] = max(due_ns, now_ns + _REST * spent_ns), next_delay_ns
        self._failing_ns += spent_ns
        if self._failing_ns >= _LONG_NS:
            self._rests_until_ns = now_ns + self._failing_ns


def _after(now_ns: int, delay_ns: int) -> tuple[int, int]:
    """Return when ``delay_ns`` is over, and the delay after that."""
    return now_ns + delay_ns, min(2 * delay_ns, _MAX_RETRY_NS)
