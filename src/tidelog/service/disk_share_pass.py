"""Keeping the logs of each directory within their share of its disk: see ``disk_share``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaStorageError, OffsetOutOfRange
from tidelog.log.retention.disk_share import shrink_to_share

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.manager.cleaning import Cleaning
    from tidelog.manager.manager_part import Shared

_log = logging.getLogger(__name__)


def retain_by_percent(shared: Shared, *, percent: int, now_ms: int) -> int:
    """Delete the oldest segments of each directory above its share; return how many went.

    Only logs with the delete policy give segments, and never the active one, nor anything above the
    high watermark or of a transaction that is to be applied. Logs that are being cleaned or moved,
    or cannot be read, are left out.
    """
    deleted, log_dirs, cleaning = 0, shared.log_dirs, shared.cleaning
    for log_dir in log_dirs:
        try:
            free_bytes = shared.machine.fs.free_bytes(log_dir.path)
        except OSError as error:
            _log.error("retention-failed directory=%s reason=%s", log_dir.path, error)
            log_dirs.note_error(log_dir.path, error)
            continue
        logs = sorted(shared.registry.in_directory(log_dir.path).items())
        members = [_OpenLog(key, log, cleaning, now_ms) for key, log in logs]
        excess = shrink_to_share(members, free_bytes, percent)
        deleted += sum(member.deleted for member in members)
        if excess:
            path = log_dir.path
            _log.warning("share-of-disk-exceeded directory=%s excess_bytes=%d", path, excess)
    return deleted


class _OpenLog:
    """A log of the directory; an error in one does not stop the others."""

    def __init__(self, key: tuple[str, int], log: Log, cleaning: Cleaning, now_ms: int) -> None:
        self._key: Final = key
        self._log: Final = log
        self._cleaning: Final = cleaning
        self._now_ms: Final = now_ms
        self._end_offset = 0
        self.deleted = 0
        """How many segments it has given."""

    @property
    def size_bytes(self) -> int:
        """The bytes of its files."""
        return self._log.size_bytes

    def oldest_ms(self) -> int | None:
        """Return the largest timestamp of the oldest segment if that may go."""
        log = self._log
        with self._cleaning.exclusive_if_free(self._key) as is_free:
            segments = log.segments.all
            if not is_free or len(segments) < 2 or not log.config.is_deleted:
                return None
            self._end_offset = segments[1].base_offset
            if self._end_offset > log.retention_end:
                return None
            try:
                with log.watch("reading timestamps"):
                    return segments[0].largest_timestamp()
            except KafkaStorageError as error:
                _log.error("retention-failed directory=%s reason=%s", log.directory, error)
                return None

    def give(self) -> int:
        """Delete that segment, and what else has expired."""
        with self._cleaning.exclusive_if_free(self._key) as is_free:
            gone = self._delete() if is_free else 0
        self.deleted += gone
        return gone

    def _delete(self) -> int:
        log = self._log
        try:
            if log.config.is_archived:  # it stays in the log
                return len(log.delete_archived(self._end_offset))
            log.maybe_increment_log_start_offset(self._end_offset)
            return log.delete_old_segments(self._now_ms)
        except (
            KafkaStorageError,
            OffsetOutOfRange,
        ) as error:  # the latter: held since, or truncated
            _log.error("retention-failed directory=%s reason=%s", log.directory, error)
            return 0
