"""A log that is read on as it grows, by opening it again whenever it may have changed.

Any other process may write it, so there is nothing to wait for but the files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.datadir.offset_checkpoints import HIGH_WATERMARK_FILE
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.topic_id import PARTITION_METADATA_FILE, read_partition_metadata
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_log import ReadUpTo, open_read_only
from tidelog.segment.filenames import log_file, log_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.decoding.record_columns import RecordColumns

POLL_MS: Final = 200
"""Time between two looks that serves people well and costs little."""


class LogFollower:
    """Follows the log of one partition directory; used by one thread at a time.

    ``next_offset`` is where ``columns`` starts next; None: at the log start. It may be set.

    Args:
        path: the partition directory, as ``data/flights-0``.
        fs: the file system.
        next_offset: where to begin; None: at the log start.
        up_to: how far to read.
        committed: read committed records only, up to the last stable offset.
    """

    def __init__(
        self,
        path: str,
        *,
        fs: FileSystem,
        next_offset: int | None = None,
        up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK,
        committed: bool = False,
    ) -> None:
        self.path: Final = path
        self.next_offset = next_offset
        self._fs: Final = reading(fs)
        self._up_to = up_to
        self._committed = committed
        self._seen: tuple[int, ...] | None = None
        self._topic_id: UUID | None = None

    def moved_to(self, path: str) -> LogFollower:
        """Return what follows the same partition, from where this is, in another directory."""
        moved = LogFollower(
            path,
            fs=self._fs,
            next_offset=self.next_offset,
            up_to=self._up_to,
            committed=self._committed,
        )
        moved._topic_id = self._topic_id
        return moved

    def opened_if_changed(self) -> ReadOnlyLog | None:
        """Open the log if it may have changed since the last call; None if it has not.

        Raises KafkaStorageError where the directory was deleted meanwhile, also if it is there
        again, of another topic; and as ``open_read_only``.
        """
        state = self._state()
        if state is not None and state == self._seen:
            return None
        topic_id = self._id_or_none()
        if topic_id is not None and self._topic_id not in {None, topic_id}:
            text = "was deleted and created again while it was followed"
            raise KafkaStorageError(f"{self.path} {text}")
        log = open_read_only(self.path, fs=self._fs)
        self._topic_id = topic_id or self._topic_id
        self._seen = state
        return log

    def columns(self) -> Iterator[RecordColumns]:
        """Yield the records that have come since the last call; none if the log has not changed.

        What was yielded last when a loop over them is left comes again with the next call.

        Raises:
            OffsetOutOfRange: ``next_offset`` is below the log start or above the log end by now;
                set it to continue.
            CorruptMessage, KafkaStorageError: as ``ReadOnlyLog.columns``.
        """
        log = self.opened_if_changed()
        if log is None:
            return
        seen = self._seen
        self._seen = None  # until all is read: an error, or a break, leaves some for the next call
        with log:
            start = log.log_start_offset if self.next_offset is None else self.next_offset
            if not log.log_start_offset <= start <= log.log_end_offset:
                raise log.out_of_range(start)
            end = log.visible_end(self._up_to, committed=self._committed)
            for found in log.columns(start, max(start, end), committed=self._committed):
                yield found
                self.next_offset = int(found.offset[-1]) + 1
            self.next_offset = max(start, end)
        self._seen = seen

    def _id_or_none(self) -> UUID | None:
        """Return the topic's id; None where there is none, or none that can be read."""
        try:
            path = os.path.join(self.path, PARTITION_METADATA_FILE)
            return read_partition_metadata(self._fs, path)
        except (KafkaStorageError, InvalidArgument):
            return None  # verify reports what is wrong with the file

    def _state(self) -> tuple[int, ...] | None:
        """Return what changes whenever there may be more: sizes, and the age of the watermarks.

        None while a writer replaces or deletes the newest segment.
        """
        try:
            bases = sorted(log_offsets(self._fs.list(self.path)))
        except FileNotFoundError:
            if self._seen is None:
                return None
            raise KafkaStorageError(f"{self.path} was deleted while it was followed") from None
        above = os.path.dirname(self.path)
        try:
            size = self._fs.stat(log_file(self.path, bases[-1])).size_bytes if bases else 0
        except FileNotFoundError:
            return None
        try:
            written_ms = self._fs.stat(os.path.join(above, HIGH_WATERMARK_FILE)).mtime_ms
        except FileNotFoundError:
            written_ms = 0
        return len(bases), size, written_ms
