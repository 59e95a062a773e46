"""The .log files of a partition directory at one moment: listed, opened and measured once.

A writer beside the reader may roll, delete, truncate or replace segments at any time. What was
opened stays readable whatever becomes of its name, and bytes beyond the measured size do not count,
so all answers of one snapshot fit together. Where the files change while the snapshot is taken, or
one of them is cut afterwards, ``SnapshotOutdated`` is raised and the caller takes another one.
Kafka has no such reader; its tools walk single files.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.env.read_only_file import ReadOnlyFile
from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.readonly.read_only_segment import ReadOnlySegment
from tidelog.records.batch import INT64_MAX
from tidelog.records.sound_offsets import OffsetBounds
from tidelog.segment.filenames import (
    LOG_SUFFIX,
    SWAP_SUFFIX,
    parse_segment_file,
)

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable, Iterator  # type: ignore[attr-defined]  # Buffer: 3.12+

    from tidelog.env.files import NativeReads, OpenFile
    from tidelog.readonly.read_files import ReadFiles

T = TypeVar("T")

MAX_LOOKS: Final = 8
"""Snapshots taken in a row before a log counts as changing faster than it can be read."""
MAX_HELD_FILES: Final = 64
"""Files that one snapshot keeps open; those read longest ago are closed and opened again."""


class SnapshotOutdated(Exception):
    """The files of a snapshot have changed; never leaves this package."""


class LogSnapshot:
    """The segments of one partition directory; used by one thread at a time.

    ``close`` releases the files. A segment read after that is opened again, which raises
    SnapshotOutdated if it is no longer there.
    """

    def __init__(
        self,
        directory: str,
        fs: ReadFiles,
        segments: tuple[ReadOnlySegment, ...],
        held: dict[int, OpenFile],
    ) -> None:
        self.directory: Final = directory
        self.fs: Final = fs
        self.segments: Final = segments
        self._held: Final = held

    @classmethod
    def take(cls, directory: str, fs: ReadFiles) -> LogSnapshot:
        """List, open and measure the segments.

        Raises:
            FileNotFoundError: there is no such directory.
            KafkaStorageError: the files changed during every one of ``MAX_LOOKS`` attempts.
        """
        reason = ""
        for _ in range(MAX_LOOKS):
            held: dict[int, OpenFile] = {}
            try:
                segments = _look(directory, fs, held)
            except SnapshotOutdated as outdated:
                reason = str(outdated)
                _close_all(held)
            except BaseException:
                _close_all(held)
                raise
            else:
                return cls(directory, fs, segments, held)
        raise changing(directory, reason)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the files that are held."""
        _close_all(self._held)

    @contextmanager
    def opened(self, segment: ReadOnlySegment) -> Iterator[OpenFile]:
        """Yield a segment's records as they were measured.

        Raises SnapshotOutdated, here or from a read, where they are no longer there.
        """
        file = self._held.pop(segment.base_offset, None) or self._open_again(segment)
        self._held[segment.base_offset] = file  # now the last one to be closed
        _close_all(self._held, but=MAX_HELD_FILES)
        file.hold()
        try:
            yield MeasuredFile(file, segment.path, segment.size_bytes)
        finally:
            file.close()

    def bounds_of(self, segment: ReadOnlySegment, before: int = -1) -> OffsetBounds:
        """Return the offsets that a segment's batches may have after offset ``before``.

        A replacement that is being put in the place of others may reach beyond the next of them.
        """
        later = (one.base_offset for one in self.segments if one.base_offset > segment.base_offset)
        end = INT64_MAX if segment.suffix == SWAP_SUFFIX else next(later, INT64_MAX)
        return OffsetBounds(max(segment.base_offset, before + 1), end)

    def _open_again(self, segment: ReadOnlySegment) -> OpenFile:
        try:
            file = segment.open(self.fs)
        except FileNotFoundError:
            raise SnapshotOutdated(f"{segment.path} was deleted") from None
        if file.size() < segment.size_bytes:
            file.close()
            raise SnapshotOutdated(f"{segment.path} was cut or replaced")
        return file


def changing(directory: str, reason: str) -> KafkaStorageError:
    """Return the error of a log that is changed faster than it can be read."""
    return KafkaStorageError(
        f"{directory} changed during each of {MAX_LOOKS} attempts to read it: {reason}"
    )


def answer(look: Callable[[int], T], directory: Callable[[], str]) -> T:
    """Return what a look finds; where the files change under it, or it shows damage, another one.

    ``look`` gets the number of the attempt, from 0; ``directory`` returns the log's, for errors.

    Raises:
        CorruptMessage: two attempts in a row show the same damage.
        KafkaStorageError: the files changed during every one of ``MAX_LOOKS`` attempts.
    """
    damage: CorruptMessage | None = None
    reason = ""
    for number in range(MAX_LOOKS):
        try:
            return look(number)
        except SnapshotOutdated as outdated:
            damage, reason = None, str(outdated)
        except CorruptMessage as bad:
            if damage is not None and damage.args == bad.args:
                raise
            damage, reason = bad, str(bad)
    raise changing(directory(), reason)


def _look(directory: str, fs: ReadFiles, held: dict[int, OpenFile]) -> tuple[ReadOnlySegment, ...]:
    """List, open and measure once; ``held`` gets the files."""
    found = _list(directory, fs)
    segments = []
    for base_offset in sorted(found):
        segment = ReadOnlySegment(directory, base_offset, 0, found[base_offset])
        try:
            file = held[base_offset] = fs.open(segment.path)
        except FileNotFoundError:
            raise SnapshotOutdated(f"{segment.path} was deleted or renamed") from None
        size_bytes = file.size()
        segments.append(ReadOnlySegment(directory, base_offset, size_bytes, segment.suffix))
        _close_all(held, but=MAX_HELD_FILES)
    _check_unchanged(directory, fs, found)
    return tuple(segments)


def _check_unchanged(directory: str, fs: ReadFiles, found: dict[int, str]) -> None:
    """Raise SnapshotOutdated unless only new segments at the end have come since the listing.

    A listing is not one step on any file system: a file that is renamed meanwhile may be missed.
    """
    last = max(found, default=-1)
    now = _list(directory, fs)
    if {base: suffix for base, suffix in now.items() if base <= last} != found:
        raise SnapshotOutdated(f"segments of {directory} were deleted or replaced")


def _list(directory: str, fs: ReadFiles) -> dict[int, str]:
    """Return the suffix of each segment's .log file by base offset.

    A complete replacement that is being put in the place of others (``.swap``) stands for the .log
    file of its base offset where that is not there.
    """
    found: dict[int, str] = {}
    for name in fs.list(directory):
        parts = parse_segment_file(name)
        if parts is None or parts.kind != LOG_SUFFIX or parts.state not in {"", SWAP_SUFFIX}:
            continue
        if found.get(parts.offset, SWAP_SUFFIX) == SWAP_SUFFIX:
            found[parts.offset] = parts.state
    return found


def _close_all(held: dict[int, OpenFile], *, but: int = 0) -> None:
    """Close files, those opened or read first, until only ``but`` are left."""
    while len(held) > but:
        base_offset = next(iter(held))
        held.pop(base_offset).close()


class MeasuredFile(ReadOnlyFile):
    """Bytes ``[0, size_bytes)`` of an open file, as ``OpenFile``; borrows the file.

    What a writer appends later is not there. A read that finds less than was measured raises
    SnapshotOutdated: the file has been truncated.
    """

    def __init__(self, below: OpenFile, path: str, size_bytes: int) -> None:
        self._below: Final = below
        self.path: Final = path
        self._size_bytes: Final = size_bytes

    @property
    def holders(self) -> int:
        """Number of references."""
        return self._below.holders

    def hold(self) -> MeasuredFile:
        """Add a reference and return the file to use and close."""
        held = self._below.hold()
        if held is self._below:
            return self
        return MeasuredFile(held, self.path, self._size_bytes)

    def close(self) -> None:
        """Take one holder away."""
        self._below.close()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._below.fileno()

    def native_reads(self) -> NativeReads | None:
        """Return None: compiled code would read beyond what was measured."""

    def size(self) -> int:
        """Return the measured size in bytes."""
        return self._size_bytes

    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` bytes from byte ``position`` on; fewer only at the measured end."""
        wanted = max(min(size, self._size_bytes - position), 0)
        data = self._below.pread(wanted, position) if wanted else b""
        self._check(len(data), wanted, position)
        return data

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from byte ``position`` on; return the bytes read."""
        view = memoryview(buffer).cast("B")
        wanted = max(min(len(view), self._size_bytes - position), 0)
        count = self._below.pread_into(view[:wanted], position) if wanted else 0
        self._check(count, wanted, position)
        return count

    def map(self) -> memoryview:
        """Return the measured bytes; not a map, since a writer may cut the file."""
        return memoryview(self.pread(self._size_bytes, 0))

    def _check(self, count: int, wanted: int, position: int) -> None:
        if count < wanted:
            raise SnapshotOutdated(f"{self.path} was cut to {position + count} bytes")
