"""The segments of a partition directory as a reader without a lock finds them.

Owns the listing, which the writer may overtake at any moment, and the files and index hints of what
was listed. Must not know offsets to be read, nor checkpoints.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.readonly.read_only_segment import Hints, ReadOnlySegment
from tidelog.records.batch import INT64_MAX
from tidelog.segment.filenames import is_log_file, offset_from_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.env.files import FileSystem, OpenFile


class SegmentGone(Exception):
    """A listed segment is no longer there, under no name."""


class ReadOnlyFiles:
    """The segments of one directory, as they were listed; used by one thread at a time."""

    def __init__(self, directory: str, fs: FileSystem) -> None:
        """List the directory; FileNotFoundError if there is none."""
        self.directory = directory
        self.fs = fs
        self._hints: dict[int, Hints] = {}
        self.segments = self._list()

    def list_again(self) -> tuple[ReadOnlySegment, ...]:
        """Return what is there now, and forget the hints; ``segments`` stay as they are.

        Raises KafkaStorageError if the directory is gone.
        """
        self.forget()
        try:
            return self._list()
        except FileNotFoundError:
            raise KafkaStorageError(f"{self.directory} was deleted while it was read") from None

    def forget(self) -> None:
        """Drop what was read of the indexes."""
        self._hints.clear()

    def hints_of(self, segment: ReadOnlySegment) -> Hints:
        """Return the entries of a segment's offset index, read once."""
        if segment.base_offset not in self._hints:
            self._hints[segment.base_offset] = segment.hints(self.fs)
        return self._hints[segment.base_offset]

    @contextmanager
    def opened(self, segment: ReadOnlySegment) -> Iterator[OpenFile]:
        """Open a segment's records for the block; SegmentGone if they are not there any more."""
        try:
            file = segment.open(self.fs)
        except FileNotFoundError:
            raise SegmentGone from None
        try:
            yield file
        finally:
            file.close()

    def _list(self) -> tuple[ReadOnlySegment, ...]:
        segments = []
        for name in self.fs.list(self.directory):
            base_offset = _base_offset(name)
            if base_offset is None:
                continue
            try:
                size_bytes = self.fs.stat(os.path.join(self.directory, name)).size_bytes
            except FileNotFoundError:
                continue  # deleted since the listing, as retention does
            segments.append(ReadOnlySegment(self.directory, base_offset, size_bytes))
        return tuple(sorted(segments, key=lambda segment: segment.base_offset))


def overlapping(segments: Sequence[ReadOnlySegment], start: int, end: int) -> list[ReadOnlySegment]:
    """Return the segments that may hold offsets of ``[start, end)``."""
    ends = [segment.base_offset for segment in segments[1:]] + [INT64_MAX]
    return [
        segment
        for segment, segment_end in zip(segments, ends, strict=False)
        if segment.base_offset < end and segment_end > start
    ]


def _base_offset(name: str) -> int | None:
    """Return the base offset of a segment's ``.log`` file; None for any other file."""
    if not is_log_file(name):
        return None
    try:
        return offset_from_file_name(name)
    except InvalidArgument:
        return None
