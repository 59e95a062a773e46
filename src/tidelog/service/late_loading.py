"""Taking logs into service for which a disk had no space at the start, or when they were created.

Kafka takes the whole directory offline, until the broker is started again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.errors import StartAborted, TidelogError
from tidelog.log.directory_guard import may_pass
from tidelog.log.loading.load_watch import LoadWatcher
from tidelog.manager.lifecycle.retry_times import FIRST_NS, RetryTimes
from tidelog.manager.manager_part import ManagerPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.log.loading.load_watch import RecoveryProgress
    from tidelog.manager.lifecycle.first_use import FirstUseLoader
    from tidelog.manager.manager_part import Shared
    from tidelog.segment.filenames import TopicPartition
    from tidelog.service.mover import PartitionMover

_log = logging.getLogger(__name__)


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

    At growing intervals; see ``RetryTimes``. A log that fails for another reason is left to the
    next start.
    """

    def __init__(self, shared: Shared, *, first_use: FirstUseLoader, mover: PartitionMover) -> None:
        super().__init__(shared)
        self._first_use: Final = first_use
        self._mover: Final = mover
        self._times: Final = RetryTimes(self._machine.clock, wait_ns=FIRST_NS)

    def due(self) -> Iterator[TopicPartition]:
        """Yield the partitions whose turn it is now; one that is new to this has still to wait."""
        failed = self._registry.failed().items()
        return self._times.due({key for key, error in failed if may_pass(error)})

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
                    self._times.put_off(key, began_ns)

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
