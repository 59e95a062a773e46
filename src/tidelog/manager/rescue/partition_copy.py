"""Copies what can be read of one broken partition into a new directory of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.errors import KafkaStorageError
from tidelog.log.topic_id import PARTITION_METADATA_FILE
from tidelog.manager.rescue.merged_batches import Reader, merged
from tidelog.manager.rescue.namesakes import why_apart
from tidelog.manager.rescue.readable_batches import ReadableBatches, records_of
from tidelog.manager.rescue.rescued_partition import LeftOut, OffsetGap, RescuedPartition
from tidelog.manager.rescue.source_files import Sources, find_sources
from tidelog.readonly.checkpoints import NO_LINES, Lines
from tidelog.records.batch import INT64_MAX, MAGIC_V2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.env.files import FileSystem
    from tidelog.manager.rescue.failing_files import FailingFiles
    from tidelog.manager.rescue.namesakes import Namesakes
    from tidelog.manager.rescue.new_log import NewLog
    from tidelog.readonly.missing.salvage import CutFile
    from tidelog.readonly.read_files import ReadFiles
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.filenames import TopicPartition

_MISSING: Final = "no directory that was named holds the partition"
_COMPACTED: Final = "compaction removed them"
_UNEXPLAINED: Final = "no batch has them, and no compaction explains that"
_DAMAGED: Final = "what was left out may have held them"
_AT_END: Final = "the log ended after them, as its high watermark or the name of a file shows"
_NO_SEGMENT: Final = "no segment is there, and the checkpoint says that the log starts at"
_OTHER_ID: Final = "it has another id than the catalogue, which lists the partition as the topic's"
_KEPT_END: Final = f"{_AT_END}; an empty batch keeps them"


class Explained(NamedTuple):
    """Gaps that end by ``offset`` were left by compaction; ``reason`` is said of others."""

    offset: int
    reason: str


class BrokenPartition(NamedTuple):
    """A partition of the source, and what a recovery has cut off it."""

    source: ReadOnlyDirectory
    disk: FailingFiles
    key: TopicPartition
    cuts: Sequence[CutFile]
    namesakes: Namesakes

    def sources(self, fs: FileSystem, leave_out: Callable[[LeftOut], None]) -> Sources:
        """Look for its files; report it if they cannot be listed."""
        path, names = os.path.join(self.source.paths[0], str(self.key)), []
        other = self.namesakes.apart.get(self.key)
        if other is not None:
            leave_out(LeftOut(other.path, None, 0, 0, None, None, why_apart(other), is_loss=True))
            return find_sources(fs, other.path, self.cuts, [])
        try:
            path = self.source.partition_path(*self.key)
            if self.key in self.namesakes.damaged:
                file = os.path.join(path, PARTITION_METADATA_FILE)
                leave_out(LeftOut(file, None, 0, 0, None, None, _OTHER_ID, is_loss=False))
            names = fs.list(path)
            reason = self.disk.unlisted.get(path, "")
        except FileNotFoundError:
            reason = _MISSING
        except KafkaStorageError as error:
            reason = str(error)
        if reason:
            leave_out(LeftOut(path, None, 0, 0, None, None, reason, is_loss=True))
        return find_sources(fs, path, self.cuts, names)

    def explained(self) -> Explained:
        """Return up to where compaction explains gaps."""
        if self.key in self.namesakes.apart:
            return Explained(0, _UNEXPLAINED)
        try:
            found = self.source.unexplained_holes_of(self.key, [(0, INT64_MAX)])
        except KafkaStorageError:  # the checkpoint of the cleaner, which explains nothing then
            return Explained(0, _UNEXPLAINED)
        if not found:
            return Explained(INT64_MAX, "")
        unless = ", unless the topic is compacted" if found[0].may_be_compacted else ""
        return Explained(found[0].start_offset, _UNEXPLAINED + unless)

    def lines(self, leave_out: Callable[[LeftOut], None]) -> Lines:
        """Return its lines in the checkpoints; none if one of them cannot be read."""
        if self.key in self.namesakes.apart:
            return NO_LINES
        try:
            return self.source.part_of(*self.key).checkpoints.lines_of(self.key)
        except KafkaStorageError as error:
            reason = f"where the log starts and ends is taken from its files: {error}"
            path = self.source.paths[0]
            leave_out(LeftOut(path, None, 0, 0, None, None, reason, is_loss=False))
            return NO_LINES


OnRead = Callable[[str, int, int], None]
"""Called with a partition, the bytes that were copied of it so far, and those of its files."""


class PartitionCopy:
    """Writes one partition to an empty directory; ``done`` counts what was done."""

    def __init__(
        self,
        broken: BrokenPartition,
        fs: ReadFiles,
        log: NewLog,
        on_read: OnRead,
    ) -> None:
        self._broken = broken
        self._fs = fs
        self._log = log
        self._on_read = on_read
        self._explained = broken.explained()
        self.done: Final = RescuedPartition(*broken.key)

    def run(self) -> None:
        """Copy all batches with sound offsets, durably except for the names of files.

        Raises KafkaStorageError or OSError if the new disk failed.
        """
        done, log = self.done, self._log
        sources = self._broken.sources(self._fs, done.leave_out)
        lines = self._broken.lines(done.leave_out)
        for what in sources.left_out:
            done.leave_out(what)
        try:
            self._copy(sources)
            if log.next_offset is None:
                start = max(sources.end_offset, lines.log_start_offset)
                done.log_start_offset = done.log_end_offset = start
                if not sources.has_segments and lines.log_start_offset > 0:
                    self._leave_out(f"{_NO_SEGMENT} {lines.log_start_offset:,}", is_loss=True)
            self._keep_end(max(sources.end_offset, lines.promised_end))
        finally:
            log.finish()
        if done.log_start_offset < lines.log_start_offset <= done.log_end_offset:
            done.log_start_offset = lines.log_start_offset
        elif lines.log_start_offset > done.log_end_offset:
            where = f"{lines.log_start_offset:,}"
            reason = f"the checkpoint says that the log starts at {where}, after all that was found"
            self._leave_out(reason, is_loss=False)
        done.segments = log.segments

    def _leave_out(self, reason: str, *, is_loss: bool) -> None:
        path = self._broken.source.paths[0]
        self.done.leave_out(LeftOut(path, None, 0, 0, None, None, reason, is_loss))

    def _copy(self, sources: Sources) -> None:
        done, log = self.done, self._log
        readable = ReadableBatches(done.leave_out)
        segments = {one.path for one in sources.layers[0]} if sources.has_segments else set()
        reader = Reader(self._fs, self._broken.disk, done.leave_out)
        current, total = "", self._size_bytes(sources)
        with closing(merged(sources.layers, reader)) as pieces:
            for piece in filter(lambda one: len(one.batches), map(readable.of, pieces)):
                is_segment = piece.path in segments
                if log.next_offset is None:
                    self._begin(sources, piece.batches)
                elif is_segment and piece.path != current:
                    # The copy has the segments of the source, so that they are deleted as there.
                    log.roll(log.next_offset)
                self._count_gaps(piece.batches)
                current = piece.path if is_segment else current
                log.append(piece, is_segment=is_segment)
                done.add(piece.batches, records_of(piece))
                self._on_read(str(self._broken.key), done.size_bytes, max(total, done.size_bytes))

    def _size_bytes(self, sources: Sources) -> int:
        total = 0
        for one in (source for layer in sources.layers for source in layer):
            with suppress(KafkaStorageError, FileNotFoundError):
                total += self._fs.stat(one.path).size_bytes
        return total

    def _begin(self, sources: Sources, batches: BatchColumns) -> None:
        """Let the copy begin where the source does, unless something lies before that."""
        if sources.has_segments and sources.base_offset <= batches.first_offset:
            self._log.roll(sources.base_offset)
            self.done.log_start_offset = self.done.log_end_offset = sources.base_offset
        else:
            self.done.log_start_offset = self.done.log_end_offset = batches.first_offset

    def _count_gaps(self, batches: BatchColumns) -> None:
        """Note the offsets that are missing before and between batches.

        The first offset of an old batch is known only when it is decoded.
        """
        ends = np.concatenate(([self.done.log_end_offset], batches.last_offset[:-1] + 1))
        is_gap = (batches.base_offset > ends) & (batches.magic >= MAGIC_V2)
        if is_gap.any():
            starts, stops = ends[is_gap], batches.base_offset[is_gap]
            self.done.skip(starts, stops, stops > self._explained.offset, self._named)

    def _named(self, start: int, end: int) -> OffsetGap:
        """Return a gap with what is known about it."""
        for what in self.done.left_out:
            if what.is_loss and what.may_hold(start, end):
                return OffsetGap(start, end, _DAMAGED, is_loss=True)
        if end <= self._explained.offset:
            return OffsetGap(start, end, _COMPACTED, is_loss=False)
        return OffsetGap(start, end, self._explained.reason, is_loss=True)

    def _keep_end(self, end_offset: int) -> None:
        """Let the log end where the source did, so that no offset gets another record."""
        done, log, start = self.done, self._log, self.done.log_end_offset
        reason = _AT_END
        if log.next_offset is None:
            done.log_start_offset = done.log_end_offset = max(start, end_offset)
            log.roll(done.log_end_offset)
        elif end_offset > start and log.extend_to(end_offset):
            done.log_end_offset = end_offset
            reason = _KEPT_END
        if end_offset > start:
            bounds = np.array([start]), np.array([end_offset])
            named = partial(OffsetGap, reason=reason, is_loss=True)
            done.skip(*bounds, is_loss=np.array([True]), named=named)
