"""Truncation of logs that follow a leader, with the checkpoints that depend on it.

Kafka: ``LogManager.truncateTo`` and ``truncateFullyAndStartAt``.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import AbstractContextManager

    from tidelog.log.log import Log
    from tidelog.manager.cleaning import Cleaning
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.manager.offset_checkpointing import OffsetCheckpointing


class LogTruncation:
    """Truncates open logs; cleaning of them waits meanwhile."""

    def __init__(
        self,
        log_dirs: LogDirs,
        registry: LogRegistry,
        *,
        cleaning: Cleaning,
        checkpointing: OffsetCheckpointing,
    ) -> None:
        self._log_dirs: Final = log_dirs
        self._registry: Final = registry
        self._cleaning: Final = cleaning
        self._checkpointing: Final = checkpointing

    def truncate_to(self, offsets: Mapping[tuple[str, int], int], *, is_future: bool) -> None:
        """Truncate logs so that each ends at its offset; one that is not open is left out."""
        find = self._registry.future if is_future else self._registry.current
        changed: dict[str, LogDir] = {}
        for (topic, number), offset in offsets.items():
            key = TopicPartition(topic, number)
            log = find(key)
            if log is None:
                continue
            with self._cleaning_paused(key, log, offset, is_future=is_future):
                if log.truncate_to(offset):
                    log_dir = self._log_dirs.of(log)
                    changed[log_dir.path] = log_dir
        self._write_checkpoints(changed.values())

    def truncate_fully_and_start_at(
        self, key: TopicPartition, offset: int, *, is_future: bool
    ) -> None:
        """Empty a log and continue at ``offset``; nothing if it is not open."""
        log = self._registry.future(key) if is_future else self._registry.current(key)
        if log is None:
            return
        pauses = self._cleaning.paused_for_truncation(key, log, lambda: offset)
        with nullcontext() if is_future else pauses:
            log.truncate_fully_and_start_at(offset)
        self._write_checkpoints([self._log_dirs.of(log)])

    def _cleaning_paused(
        self, key: TopicPartition, log: Log, offset: int, *, is_future: bool
    ) -> AbstractContextManager[None]:
        """Return the context for truncating a log to ``offset``, which may stay in one segment."""
        if is_future or offset >= log.segments.active.base_offset:
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


class TruncationCalls:
    """The part of a log manager that truncates logs."""

    _truncation: LogTruncation

    def truncate_to(
        self, offsets: Mapping[tuple[str, int], int], *, is_future: bool = False
    ) -> None:
        """Truncate logs so that each ends at its offset; cleaning of them waits meanwhile."""
        self._truncation.truncate_to(offsets, is_future=is_future)

    def truncate_fully_and_start_at(
        self, topic: str, partition: int, offset: int, *, is_future: bool = False
    ) -> None:
        """Empty a log and continue at ``offset``; nothing if there is none."""
        key = TopicPartition(topic, partition)
        self._truncation.truncate_fully_and_start_at(key, offset, is_future=is_future)
