"""Space on the disks of data directories: kept free for a reserve, and shared out by percent.

Both rules are tidelog's own and off by default. Kafka has neither: a full disk takes a directory
offline there, and retention counts the bytes of each partition.
"""

from __future__ import annotations

import heapq
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import DirectoryFull, KafkaStorageError, OffsetOutOfRange
from tidelog.log.directory_guard import PASSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.directories.log_dirs import LogDirs

    Key = tuple[str, int]

_log = logging.getLogger(__name__)

_SOME_BYTES: Final = 1 << 20


class DiskReserve:
    """Says which directories take no more appends, as of the last look.

    ``reserve_bytes`` is asked at each look. A directory comes back by itself when its disk has
    more than that free again.
    """

    def __init__(
        self,
        dirs: LogDirs,
        free_bytes: Callable[[str], int],
        reserve_bytes: Callable[[], int],
    ) -> None:
        self._dirs = dirs
        self._free_bytes = free_bytes
        self._reserve_bytes = reserve_bytes
        self.full: frozenset[str] = frozenset()
        self.out_of_space: frozenset[str] = frozenset()
        """Directories whose disk did not take an append, as long as it has next to no space."""

    def check(self, log: Log) -> None:
        """Raise DirectoryFull if the log's directory takes no appends now."""
        if self.full and (path := log.data_dir) in self.full:
            raise DirectoryFull(
                f"{path} takes no appends: its disk has less than tidelog.reserve.bytes,"
                f" {self._reserve_bytes():,}, free"
            )

    def note_full(self, log: Log) -> None:
        """Take note that the disk did not take an append; said once, till there is space again."""
        path = log.data_dir
        if path not in self.out_of_space:
            self.out_of_space |= {path}
            _log.warning("disk-full directory=%s", path)

    def _look_for_space(self) -> None:
        for path in self.out_of_space:
            home = self._dirs.get(path)
            try:
                if home is not None and self._free_bytes(path) < _SOME_BYTES:
                    continue
            except OSError as error:
                if error.errno in PASSING:
                    continue
                self._dirs.take_offline(path, error)
            self.out_of_space -= {path}
            _log.info("disk-has-space directory=%s", path)

    def look(self) -> None:
        """Look at all disks; a task does this each second where there is a reserve.

        What is known of a disk stays where its free space cannot be measured for lack of resources.
        """
        self._look_for_space()
        reserve = self._reserve_bytes()
        full = set()
        for home in self._dirs if reserve else ():
            try:
                if self._free_bytes(home.path) < reserve:
                    full.add(home.path)
            except OSError as error:
                self._dirs.note_error(home.path, error)
                if error.errno in PASSING and home.path in self.full:
                    full.add(home.path)
        for path in full - self.full:
            _log.warning("directory-full directory=%s reserve_bytes=%d", path, reserve)
        for path in self.full - full:
            _log.info("directory-has-room directory=%s reserve_bytes=%d", path, reserve)
        self.full = frozenset(full)


class _Oldest(NamedTuple):
    """The oldest segment of a log; sorts by age."""

    largest_timestamp: int
    key: Key
    log: Log
    end_offset: int


def retain_by_percent(
    home: LogDir,
    logs: Mapping[Key, Log],
    free_bytes: int,
    percent: int,
    now_ms: int,
    *,
    exclusive_if_free: Callable[[Key], AbstractContextManager[bool]],
) -> int:
    """Delete the oldest segments of a directory until its logs take at most their share.

    The share is ``percent`` of the space that the logs take and could still take. Only logs with
    the delete policy give segments, and never the active one, nor anything above the high
    watermark or of a transaction that is to be applied. Logs that are being cleaned or moved, or
    cannot be read, are left out; ``exclusive_if_free`` is as in ``Cleaning``. Returns how many
    segments were deleted.
    """
    total = sum(log.size_bytes for log in logs.values())
    excess = total - (total + free_bytes) * percent // 100
    heap: list[_Oldest] = []
    for key, log in logs.items() if excess > 0 else ():
        with exclusive_if_free(key) as is_free:
            if is_free and (oldest := _oldest_of(key, log)) is not None:
                heap.append(oldest)
    heapq.heapify(heap)
    deleted = 0
    while excess > 0 and heap:
        oldest = heapq.heappop(heap)
        log = oldest.log
        with exclusive_if_free(oldest.key) as is_free:
            before = log.size_bytes
            gone = _delete(oldest, now_ms) if is_free else 0
            excess -= before - log.size_bytes
            following = _oldest_of(oldest.key, log) if gone else None
        deleted += gone
        if following is not None:
            heapq.heappush(heap, following)
    if excess > 0:
        _log.warning("share-of-disk-exceeded directory=%s excess_bytes=%d", home.path, excess)
    return deleted


def _delete(oldest: _Oldest, now_ms: int) -> int:
    """Delete a segment, and what else has expired; return how many went."""
    try:
        if oldest.log.config.is_archived:  # it stays in the log
            return len(oldest.log.delete_archived(oldest.end_offset))
        oldest.log.maybe_increment_log_start_offset(oldest.end_offset)
        return oldest.log.delete_old_segments(now_ms)
    except (KafkaStorageError, OffsetOutOfRange) as error:  # the latter: held since, or truncated
        _log.error("retention-failed directory=%s reason=%s", oldest.log.directory, error)
        return 0


def _oldest_of(key: Key, log: Log) -> _Oldest | None:
    """Return the oldest segment of a log if it may go; None, too, if it cannot be read."""
    segments = log.segments.all
    if len(segments) < 2 or not log.config.is_deleted:
        return None
    oldest, after = segments[:2]
    if after.base_offset > log.retention_end:
        return None
    try:
        with log.watch("reading timestamps"):
            return _Oldest(oldest.largest_timestamp(), key, log, after.base_offset)
    except KafkaStorageError as error:
        # An error in one log must not stop the others.
        _log.error("retention-failed directory=%s reason=%s", log.directory, error)
        return None
