"""The files of a broken partition that hold batches, and which of them counts first.

The segments come first, in the order of their names. After them come complete replacements of
segments (``.swap``), which the next start would complete; then segments with the wrong
name; then what recoveries have cut off, the newest first. What comes later fills gaps only.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import KafkaStorageError
from tidelog.log.loading.lost_records import ReadableContent
from tidelog.manager.rescue.rescued_partition import LeftOut
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    is_foreign_segment_file,
    parse_segment_file,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.readonly.missing.salvage import CutFile
    from tidelog.records.file_records import Piece
    from tidelog.segment.filenames import SegmentFileName

_PIECE_BYTES: Final = 1 << 20
_NOT_DATA: Final = {
    CLEANED_SUFFIX: "a cleaning had not finished it: the segments that it was made of are there",
    DELETED_SUFFIX: "it was deleted, and only waited for its removal",
}
_LONE: Final = "a cleaning had not finished it, and the segment that it was made of is missing"


class SourceFile(NamedTuple):
    """A file with batches, and the offsets that they may have.

    ``cut``: it is what a recovery cut off. ``is_replacement``: its batches are those of segments,
    perhaps with fewer records.
    """

    path: str
    bounds: OffsetBounds
    cut: CutFile | None = None
    is_replacement: bool = False

    def batches(self, fs: FileSystem) -> Generator[Piece | BadBytes, None, None]:
        """Yield what the file holds, in order; the caller closes it. KafkaStorageError."""
        if self.cut is not None:
            yield from self.cut.batches(fs, bounds=self.bounds)
            return
        with closing(fs.open(self.path)) as file:
            yield from walk_past_damage(
                *(file, 0, file.size()), piece_bytes=_PIECE_BYTES, bounds=self.bounds
            )


class Sources(NamedTuple):
    """The files of one partition.

    ``layers`` are lists of files with rising offsets; a later one fills the gaps of those before.
    ``has_segments``: the first of them are the segments. ``base_offset`` and ``end_offset`` are the
    lowest and the greatest offset that a segment is named for, 0 without any. ``left_out`` are the
    other files that might be taken for data.
    """

    layers: Sequence[Sequence[SourceFile]]
    has_segments: bool
    base_offset: int
    end_offset: int
    left_out: Sequence[LeftOut]


def find_sources(
    fs: FileSystem, directory: str, cuts: Sequence[CutFile] = (), names: Sequence[str] = ()
) -> Sources:
    """Look which files of a partition hold batches.

    ``cuts`` are what was cut off it, and ``names`` what its directory holds. KafkaStorageError if a
    disk failed.
    """
    segments: dict[int, str] = {}
    swaps: dict[int, str] = {}
    left_out = []
    others: list[tuple[SegmentFileName, str]] = []
    for name in sorted(names):
        path = os.path.join(directory, name)
        found = parse_segment_file(name)
        if found is None:
            if name.endswith(LOG_SUFFIX) and is_foreign_segment_file(name):
                left_out.append(_foreign(fs, path))
        elif found.kind == LOG_SUFFIX and found.state in _NOT_DATA:
            others.append((found, path))
        elif found.kind == LOG_SUFFIX:
            (swaps if found.state == SWAP_SUFFIX else segments)[found.offset] = path
    for found, path in others:
        is_lone = found.state == CLEANED_SUFFIX and found.offset not in {*segments, *swaps}
        reason = _LONE if is_lone else _NOT_DATA[found.state]
        left_out.append(_without(fs, path, reason, is_loss=is_lone))
    chain, misnamed = _chain(fs, segments)
    replacements = [
        SourceFile(swaps[base], OffsetBounds(base), is_replacement=True) for base in sorted(swaps)
    ]
    layers = [chain, replacements, misnamed, *_layers_of(cuts)]
    known = [segment.bounds.lowest for segment in chain]
    ends = min(known, default=0), max(known, default=0)
    return Sources([layer for layer in layers if layer], bool(chain), *ends, left_out)


def _chain(fs: FileSystem, segments: dict[int, str]) -> tuple[list[SourceFile], list[SourceFile]]:
    """Return the segments, and the files whose names contradict all of their batches.

    Names are judged by the bounds that the others give: those of wrong names count no longer.
    """
    bases = sorted(segments)
    misnamed = []
    for base, end in zip(bases, [*bases[1:], INT64_MAX], strict=False):
        if not _holds_sound(fs, segments[base], OffsetBounds(base, end)):
            first = _first_of_chain(fs, segments[base])
            if first is not None:
                misnamed.append(SourceFile(segments.pop(base), OffsetBounds.of_segment(first)))
    bases = sorted(segments)
    chain = [
        SourceFile(segments[base], OffsetBounds(base, end))
        for base, end in zip(bases, [*bases[1:], INT64_MAX], strict=False)
    ]
    return chain, sorted(misnamed, key=lambda one: one.bounds)


def _holds_sound(fs: FileSystem, path: str, bounds: OffsetBounds) -> bool:
    try:
        with closing(SourceFile(path, bounds).batches(fs)) as found:
            return any(not isinstance(one, BadBytes) for one in found)
    except (KafkaStorageError, FileNotFoundError):
        return True  # it is reported when it is read


def _first_of_chain(fs: FileSystem, path: str) -> int | None:
    """Return the first offset of a file by its batches, None if they do not show it.

    Of one batch alone nobody knows whether its offset or the name is damaged; two agree.
    """
    bases: list[int] = []
    try:
        with closing(SourceFile(path, OffsetBounds()).batches(fs)) as pieces:
            for found in pieces:
                if not isinstance(found, BadBytes):
                    bases += found.batches.base_offset[:2].tolist()
                if len(bases) > 1:
                    return bases[0] if _are_near(bases[0], bases[1]) else None
    except (KafkaStorageError, FileNotFoundError):
        return None  # it is reported when it is read
    return None


def _are_near(first: int, following: int) -> bool:
    """Return whether two batches with these base offsets may follow each other in a segment."""
    return OffsetBounds.of_segment(first).hold(first, following)


def _layers_of(cuts: Sequence[CutFile]) -> list[list[SourceFile]]:
    """Return what each recovery cut off, the newest first; one cuts at rising offsets."""
    layers: list[list[SourceFile]] = []
    last = -1
    for cut in sorted(cuts, key=lambda one: (one.kept_at_ms, one.name.from_offset)):
        first = cut.name.from_offset
        if first <= last or not layers:
            layers.append([])
        layers[-1].append(SourceFile(cut.path, OffsetBounds(first), cut))
        last = first
    return layers[::-1]


def _foreign(fs: FileSystem, path: str) -> LeftOut:
    """Return what is in a file that no segment can be named as."""
    reason = "no segment has such a name: rename it to <first offset>.log, with 20 digits"
    try:
        with closing(fs.open(path)) as file:
            content = ReadableContent.of(walk_past_damage(file, 0, file.size()))
            size_bytes = file.size()
    except (KafkaStorageError, FileNotFoundError) as error:
        return LeftOut(path, None, 0, 0, None, None, f"{reason}; it cannot be read: {error}", True)
    end = None if content.last_offset is None else content.last_offset + 1
    found = content.batches, content.first_offset, end
    return LeftOut(path, None, size_bytes, *found, reason, is_loss=content.batches > 0)


def _without(fs: FileSystem, path: str, reason: str, *, is_loss: bool) -> LeftOut:
    try:
        size_bytes = fs.stat(path).size_bytes
    except (KafkaStorageError, FileNotFoundError):
        size_bytes = 0
    return LeftOut(path, None, size_bytes, 0, None, None, reason, is_loss)


def whole_file(fs: FileSystem, path: str, error: Exception) -> LeftOut:
    """Return that a file was left out since it cannot be opened or read."""
    return _without(fs, path, f"it cannot be read: {error}", is_loss=True)
