"""Opening logs again: those that a full disk, or a lack of descriptors, has stopped in a change.

Such a log is offline while its directory is not: opening it recovers it, as a start would. Kafka
takes the whole directory offline, until the broker is started again. A log that takes no appends,
since it is damaged, is opened again to be cut, once an operator asks for that.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.errors import TidelogError
from tidelog.log.loading.load_watch import SILENT
from tidelog.manager.lifecycle.retry_times import RetryTimes
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.manager.lifecycle.log_opener import LogOpener, RecoveryRules
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.partition import Partition

_log = logging.getLogger(__name__)


class LogReopener(ManagerPart):
    """Reopens logs that are offline in directories that are not.

    A log whose disk failed is not reopened, even in the instant before its directory is offline.
    ``cut_copy`` lets the copy of a log that is moved end no later than the log, durably.
    """

    def __init__(
        self,
        shared: Shared,
        opener: LogOpener,
        cut_copy: Callable[[TopicPartition, int], None],
    ) -> None:
        super().__init__(shared)
        self._opener: Final = opener
        self._cut_copy: Final = cut_copy
        self._times: Final = RetryTimes(self._machine.clock, wait_ns=0)

    def reopen_due(self) -> int:
        """As ``reopen_all``, of the logs whose turn it is: one that fails waits longer each time.

        Its next use tries it all the same.
        """
        return sum(self._try(key) for key in self._times.due(self._offline()))

    def reopen_all(self) -> int:
        """Reopen what can be; return how many logs. The others are tried by the next pass.

        Except those of partitions that have ended, which the next start serves.
        """
        return sum(map(self._try, self._offline()))

    def _offline(self) -> list[TopicPartition]:
        found = self._registry.partitions().items()
        return [key for key, one in found if not one.has_ended and one.log.needs_reopening]

    def _try(self, key: TopicPartition) -> bool:
        began_ns = self._machine.clock.monotonic_ns()
        found = self._registry.partition(key)
        try:
            return found is not None and self._reopen_if_offline(found)
        except TidelogError as error:
            _log.warning("log-not-reopened log=%s reason=%s", found, error)
            self._times.put_off(key, began_ns)
            return False

    def current(self, key: TopicPartition) -> Partition | None:
        """Return the partition in service, as ``online`` does; None if there is none."""
        found = self._registry.partition(key)
        return found if found is None or found.is_online else self.online(found)

    def online(self, partition: Partition) -> Partition:
        """Return ``partition`` with its log reopened if needed; raise KafkaStorageError."""
        self._reopen_if_offline(partition)
        return partition

    def recover(self, partition: Partition, rules: RecoveryRules, watcher: LoadWatcher) -> None:
        """Cut a log by ``rules`` that takes no appends; nothing if it is no such log.

        If that fails, as where there is no space to keep what is cut, the log is as before.
        """
        with self._registry.change_lock:
            log = partition.log
            kept = log.contradiction
            if kept is None:
                return
            log.require_reopening(f"it is recovered from byte {kept.found.position}")
            try:
                self._reopen_if_offline(partition, rules, watcher)
            except BaseException:
                with suppress(TidelogError):  # the next pass tries it again
                    self._reopen_if_offline(partition)
                raise

    def _reopen_if_offline(
        self,
        partition: Partition,
        rules: RecoveryRules | None = None,
        watcher: LoadWatcher = SILENT,
    ) -> bool:
        if not partition.log.needs_reopening:
            return False
        key = TopicPartition(partition.topic, partition.partition)
        with self._registry.change_lock, partition.listeners, partition.lock:
            log = partition.log
            is_current = self._registry.partition(key) is partition and not self._registry.is_closed
            is_alone = self._log_dirs.get(log.data_dir) is not None
            if not (is_current and is_alone and log.needs_reopening):
                return False
            log.close_handlers()
            reopened = self._opener.reopen(key, log, rules, watcher)
            with self._registry.copying:
                try:
                    self._cut_copy(key, reopened.log_end_offset)
                    self._cleaning.settle_line(reopened, key)
                    if partition.has_own_epochs and reopened.log_end_offset < log.high_watermark:
                        reopened.begin_epoch_after_loss()  # readers saw what was cut off
                except BaseException:
                    reopened.close_handlers()  # tried again by the next pass
                    raise
                partition.use(reopened)
        _log.info("log-reopened directory=%s", log.directory)
        return True
