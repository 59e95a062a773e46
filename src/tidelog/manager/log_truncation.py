"""Truncation of logs that follow a leader, or are damaged, with the checkpoints that depend on it.

Kafka: ``LogManager.truncateTo`` and ``truncateFullyAndStartAt``.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.partition import Partition


class LogTruncation(ManagerPart):
    """Truncates open logs; cleaning of them waits meanwhile.

    ``current`` returns a partition, its log reopened if need be; None if there is none.
    """

    def __init__(
        self, shared: Shared, current: Callable[[TopicPartition], Partition | None]
    ) -> None:
        super().__init__(shared)
        self._current: Final = current

    def truncate_to(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Truncate logs so that each ends at its offset; one that is not open is left out."""
        changed: dict[str, LogDir] = {}
        for (topic, number), offset in offsets.items():
            log = self._truncate_to(TopicPartition(topic, number), offset)
            if log is not None:
                log_dir = self._log_dirs.of(log)
                changed[log_dir.path] = log_dir
        self._write_checkpoints(changed.values())

    def recover(self, partition: Partition, cut: Callable[[], None]) -> None:
        """Have ``cut`` cut a log that takes no appends; nothing if it is no such log."""
        log = partition.log
        kept = log.contradiction
        if kept is None:
            return
        key = TopicPartition(partition.topic, partition.partition)
        with self._cleaning.paused_for_truncation(key, log, lambda: kept.base_offset):
            cut()
        self._write_checkpoints([self._log_dirs.of(partition.log)])

    def truncate_fully_and_start_at(self, key: TopicPartition, offset: int) -> None:
        """Empty a log and continue at ``offset``; nothing if it is not open."""

        def truncate(log: Log) -> bool:
            self._lower_lines(key, log, offset)
            log.truncate_fully_and_start_at(offset)
            return True

        def pausing(log: Log) -> AbstractContextManager[None]:
            return self._cleaning.paused_for_truncation(key, log, lambda: offset)

        log = self._truncate(key, truncate, pausing)
        if log is not None:
            self._write_checkpoints([self._log_dirs.of(log)])

    def _truncate_to(self, key: TopicPartition, offset: int) -> Log | None:
        """Truncate a log to ``offset``; return it if that dropped a record."""

        def truncate(log: Log) -> bool:
            self._lower_lines(key, log, max(offset, 0))
            return log.truncate_to(offset)

        return self._truncate(key, truncate, lambda log: self._cleaning_paused(key, log, offset))

    def _truncate(
        self,
        key: TopicPartition,
        truncate: Callable[[Log], bool],
        pausing: Callable[[Log], AbstractContextManager[None]],
    ) -> Log | None:
        """Truncate the copy that a move makes, then the log; return the log if it changed.

        The copy goes first, durably, and takes nothing meanwhile: wherever this stops, it has no
        record that the log has dropped. Kafka: ``Partition.truncateTo`` and
        ``ReplicaAlterLogDirsManager.markPartitionsForTruncation``.
        """
        while (partition := self._current(key)) is not None:
            log = partition.log
            with pausing(log), partition.listeners, partition.lock:
                if partition.log is not log:  # moved, or opened again, meanwhile
                    continue
                with self._registry.copying:
                    copy = self._registry.future(key)
                    if copy is not None:
                        truncate(copy)
                        self._checkpointing.write_if_ahead(key, copy)
                    seen = log.high_watermark
                    if not truncate(log):
                        return None
                    if partition.has_own_epochs and log.log_end_offset < seen:
                        log.begin_epoch_after_loss()
                    return log
        return None

    def _lower_lines(self, key: TopicPartition, log: Log, offset: int) -> None:
        """Lower the lines of a log's checkpoints before it is truncated to ``offset``.

        Kafka writes them after: where that fails, the log grows into a line that is above its end,
        and a start that finds the end below the line of the log's start deletes all of it. Other
        processes would report what is cut as lost where the file's high watermark is above it.
        """
        checkpoints = self._log_dirs.of(log).checkpoints
        with log.watch("lowering its checkpoints"):
            checkpoints.lower_high_watermark(key, offset)
            checkpoints.lower(key, offset)

    def _cleaning_paused(
        self, key: TopicPartition, log: Log, offset: int
    ) -> AbstractContextManager[None]:
        """Return the context for truncating a log to ``offset``, which may stay in one segment."""
        if offset >= log.segments.active.base_offset:
            return nullcontext()
        return self._cleaning.paused_for_truncation(key, log, lambda: _base_at(log, offset))

    def _write_checkpoints(self, log_dirs: Collection[LogDir]) -> None:
        for log_dir in log_dirs:
            self._checkpointing.write(log_dir)
        if log_dirs:
            self._registry.bell.ring()


def _base_at(log: Log, offset: int) -> int:
    """Return where the active segment of a log begins once it ends at ``offset``."""
    segment = log.segments.floor(offset)
    return offset if segment is None else segment.base_offset
