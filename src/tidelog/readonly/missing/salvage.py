"""What recoveries cut off the logs of a data directory, read from the files that keep it."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.codec.layout import byte_view
from tidelog.env.files import FileStat
from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.log.loading.cut_files import CutContent, CutName, read_content, topic_part
from tidelog.readonly.held_files import MeasuredFile
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage
from tidelog.records.decoding.decoded import decoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import Buffer, FileSystem, OpenFile
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.records.damage.sound_offsets import OffsetBounds
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.file_records import Piece


@dataclass(frozen=True, slots=True)
class CutFile:
    """One file that keeps what was cut off a log.

    ``topic`` is None where neither a description nor a topic of the directory says which it is.
    ``size_bytes`` is how many bytes were cut, ``stored_bytes`` the size of the file. ``error`` is
    why the file cannot be used: a newer release wrote it, or it cannot be opened, say.
    """

    path: str
    name: CutName
    topic: str | None
    content: CutContent
    stored_bytes: int
    kept_at_ms: int
    error: KafkaStorageError | None

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.name.partition

    @property
    def size_bytes(self) -> int:
        """Bytes that were cut, zeros at their end included."""
        described = self.content.description
        return self.content.size_bytes if described is None else described.cut_bytes

    @property
    def reason(self) -> str:
        """Why they were cut."""
        described = self.content.description
        return "unknown: the recovery was interrupted" if described is None else described.reason

    @property
    def source(self) -> str:
        """Name of the ``.log`` file in which they lay, and the byte."""
        described = self.content.description
        if described is None:
            return "unknown"
        return f"{described.file}, byte {described.position:,}"

    def batches(
        self, fs: FileSystem, *, bounds: OffsetBounds | None = None
    ) -> Iterator[Piece | BadBytes]:
        """Yield what can be read, and between it what cannot, in order.

        ``bounds`` are as of ``walk_past_damage``. Raises KafkaStorageError.
        """
        if self.error is not None:
            raise self.error
        with closing(fs.open(self.path)) as file:
            whole = _ZeroExtendedFile(file, self.content.size_bytes, self.size_bytes)
            for found in walk_past_damage(whole, 0, self.size_bytes, bounds=bounds):
                # The zeros are there for the last batch, which may end in some.
                if not isinstance(found, BadBytes):
                    yield found
                elif found.position < self.content.size_bytes:
                    yield found._replace(end=min(found.end, self.content.size_bytes))

    def records(self, fs: FileSystem) -> Iterator[RecordColumns | BadBytes | CorruptMessage]:
        """Yield the records that can be read, in order, and what cannot.

        That may also be a batch with a valid CRC that does not decode. Records of aborted
        transactions are among those yielded. Raises KafkaStorageError.
        """
        for found in self.batches(fs):
            if isinstance(found, BadBytes):
                yield found
                continue
            for number in range(len(found.batches)):
                one = found._replace(batches=found.batches.slice(number, number + 1))
                try:
                    yield from decoded(one, 0, INT64_MAX, -INT64_MAX)
                except CorruptMessage as bad:
                    yield bad


def find_cut_files(directory: ReadOnlyDirectory) -> list[CutFile]:
    """Return the cut files of data directories, in order of topic, partition and offset.

    Raises KafkaStorageError if a directory cannot be read.
    """
    fs = directory.fs
    known = {}
    for topic in directory.topics.values():
        known[topic_part(topic.name, topic.topic_id)] = topic.name
        known[topic_part(topic.name, None)] = topic.name
    found = []
    for path in directory.paths:
        for name in fs.list(path):
            parsed = CutName.parse(name)
            if parsed is not None:
                with suppress(FileNotFoundError):  # deleted meanwhile, or a link to nothing
                    found.append(_look_at(fs, os.path.join(path, name), parsed, known))
    return sorted(found, key=lambda one: (one.topic or "", *one.name))


def _look_at(fs: FileSystem, path: str, name: CutName, known: dict[str, str]) -> CutFile:
    stat, content, error = FileStat(0, 0, is_directory=False), CutContent(0, None), None
    try:
        stat = fs.stat(path)
        content = CutContent(stat.size_bytes, None)
        with closing(fs.open(path)) as file:
            content = read_content(file)
    except KafkaStorageError as refused:
        error = refused
    described = content.description
    topic = known.get(name.topic) if described is None else described.topic
    kept_at_ms = stat.mtime_ms if described is None else described.cut_at_ms
    return CutFile(path, name, topic, content, stat.size_bytes, kept_at_ms, error)


class _ZeroExtendedFile(MeasuredFile):
    """The bytes of a cut file with the zeros that it leaves out."""

    def __init__(self, below: OpenFile, stored_bytes: int, size_bytes: int) -> None:
        super().__init__(lambda: below, below.path, stored_bytes)
        self._whole_bytes = size_bytes

    def size(self) -> int:
        """Return the size with the zeros."""
        return self._whole_bytes

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes from byte ``position`` on; fewer only at the end."""
        size = max(min(size, self._whole_bytes - position), 0)
        return super().pread(size, position).ljust(size, b"\0")

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position`` on; return the bytes read."""
        view = byte_view(buffer)
        size = max(min(len(view), self._whole_bytes - position), 0)
        view[:size] = self.pread(size, position)
        return size
