"""Everything about a partition directory that can be checked, as findings.

Changes nothing, and may run beside a writer: what is being written counts as an unfinished end.
Kafka notices much of this only when a consumer stumbles over it.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, read_leader_epochs
from tidelog.codec.offset_text import offsets_text
from tidelog.datadir.metadata_files import CLEAN_SHUTDOWN_FILE
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES
from tidelog.env.files import is_gone
from tidelog.errors import (
    KafkaStorageError,
    TidelogError,
    UnknownTopicOrPartition,
)
from tidelog.explain.verify.archived_copies import with_archived_copies
from tidelog.explain.verify.checked import Checked
from tidelog.explain.verify.confirmed import confirmed
from tidelog.explain.verify.findings import (
    CUT,
    READABLE,
    REBUILD,
    REBUILT,
    RESCUE,
    Finding,
    Severity,
    attempt,
    damage,
    raise_unanswered,
    unusual,
)
from tidelog.explain.verify.verify_batches import BatchChecks, search_behind
from tidelog.explain.verify.verify_files import (
    CheckpointLines,
    LogFiles,
    Promises,
    check_metadata,
    check_names,
    check_promises,
    list_files,
    read_promises,
)
from tidelog.explain.verify.verify_indexes import IndexPlace, OffsetIndexCheck, TimeIndexCheck
from tidelog.explain.verify.verify_producers import EpochChecks, ProducerChecks, check_txn_index
from tidelog.readonly.log_snapshot import MAX_LOOKS, changing
from tidelog.readonly.read_files import reading
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.file_records import FileRecords
from tidelog.segment.filenames import (
    log_file,
    offset_index_file,
    parse_topic_partition,
    time_index_file,
    transaction_index_file,
)
from tidelog.segment.index_file import read_index_file
from tidelog.segment.unfinished_end import ends_here, only_zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileStat, FileSystem, OpenFile
    from tidelog.records.file_records import Piece


class PartitionCheck(NamedTuple):
    """What a check of a partition found, and how much it looked at."""

    findings: list[Finding]
    checked: Checked


_CUT_BY_HAND: Final = (
    "look at what follows the last batch; if that is not needed, truncate the file at this byte"
)
_READ_EPOCHS_AGAIN: Final = "delete the file and recover the log with --full"
_COMPACT_HINT: Final = "if the topic is compacted, say so with -o cleanup.policy=compact"


@dataclass(frozen=True, slots=True)
class _Segment:
    """What is known of a segment before it is read.

    ``end_offset`` is the next one's base, None for the last. ``is_rebuilt``: opening makes its
    indexes again, whatever they are now.
    """

    base_offset: int
    end_offset: int | None
    path: str
    is_rebuilt: bool

    @property
    def is_active(self) -> bool:
        return self.end_offset is None


class _SegmentChecks:
    """The checks of one segment that need its batches."""

    def __init__(
        self,
        segment: _Segment,
        indexes: tuple[IndexPlace, IndexPlace],
        producers: ProducerChecks,
        epochs: EpochChecks | None,
        checked: Checked,
    ) -> None:
        self.batches = BatchChecks(segment.path, segment.base_offset)
        self.offset_index = OffsetIndexCheck(indexes[0])
        self.time_index = TimeIndexCheck(indexes[1])
        self._path = segment.path
        self._producers = producers
        self._epochs = epochs
        self._checked = checked

    def feed(self, piece: Piece) -> Iterator[Finding]:
        """Give the next batches to all checks; yield what they find."""
        self._checked.batches += len(piece.batches)
        self._checked.bytes += int(piece.batches.size.sum())
        yield from self.batches.feed(piece)
        self.offset_index.feed(piece.batches)
        self.time_index.feed(piece.batches)
        yield from self._producers.feed(piece, self._path)
        if self._epochs is not None:
            yield from self._epochs.feed(piece.batches)


def verify_partition(
    fs: FileSystem,
    directory: str,
    *,
    clock: Clock,
    is_compacted: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
    checkpoints: CheckpointLines | None = None,
) -> PartitionCheck:
    """Return everything that is found in a partition directory; arguments as ``LogVerifier``.

    Beside a writer the check is repeated until it finds no damage, or the same again. What keeps
    the directory from being read is damage, too. Raises UnknownTopicOrPartition if there is none,
    StoreError where it is an archive whose store gives no answer.
    """
    files = reading(fs)
    lines = checkpoints or CheckpointLines(files)
    checked = Checked()

    def check() -> list[Finding]:
        nonlocal checked
        for _ in range(MAX_LOOKS):
            verifier = LogVerifier(
                files,
                directory,
                clock=clock,
                is_compacted=is_compacted,
                on_progress=on_progress,
                checkpoints=lines,
            )
            checked = verifier.checked
            try:
                return list(verifier.findings())
            except FileNotFoundError as gone:  # a writer has renamed or deleted a file
                reason = str(gone)
                if not files.exists(directory):  # another one may have its place in a moment
                    raise UnknownTopicOrPartition(f"{directory} was deleted") from gone
        raise changing(directory, reason)

    try:
        found = confirmed(
            check,
            lambda finding: finding.severity is Severity.DAMAGE,
            lambda: _state(files, directory),
        )
        found = with_archived_copies(files, directory, found)
    except UnknownTopicOrPartition:
        raise
    except (TidelogError, OSError) as error:
        raise_unanswered(error)
        if is_gone(fs, directory):
            raise UnknownTopicOrPartition(f"{directory} was deleted") from error
        return PartitionCheck([damage(directory, None, str(error), READABLE)], Checked())
    return PartitionCheck(found, checked)


def _state(fs: FileSystem, directory: str) -> dict[str, FileStat | None]:
    """Return size and time of each file that a check reads; None for one that is gone by now."""
    above = os.path.dirname(directory)
    paths = [os.path.join(above, name) for name in (*CHECKPOINT_FILES, CLEAN_SHUTDOWN_FILE)]
    with suppress(FileNotFoundError):
        paths += [os.path.join(directory, name) for name in fs.list(directory)]
    found: dict[str, FileStat | None] = dict.fromkeys(paths)
    for path in paths:
        with suppress(FileNotFoundError, KafkaStorageError):  # such as a link to nothing
            found[path] = fs.stat(path)
    return found


class LogVerifier:
    """Checks one partition directory, once, as it stands still.

    ``checked`` counts what was looked at. A file that cannot be read is a finding, and the
    check continues with the next one.

    Args:
        fs: the file system.
        directory: absolute path, named topic-partition.
        clock: for producer state, of which nothing expires here.
        is_compacted: whether offsets may be missing by right. By a line of the cleaner's checkpoint
            they may inside of all segments, and between those below it.
        on_progress: called with the bytes of records checked so far.
        checkpoints: the data directory's, parsed once for the checks of many partitions.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        *,
        clock: Clock,
        is_compacted: bool = False,
        on_progress: Callable[[int], None] = lambda _: None,
        checkpoints: CheckpointLines | None = None,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._data_dir = os.path.dirname(directory)
        self._clock = clock
        self._is_compacted = is_compacted
        self._on_progress = on_progress
        self._checkpoints = checkpoints or CheckpointLines(fs)
        self.checked: Final = Checked()
        self._next_offset = 0
        self._explained_end = 0
        self._is_damaged = False

    def findings(self) -> Iterator[Finding]:
        """Yield everything that was found, segment by segment.

        Raises InvalidTopic for a directory whose name is not one of a partition; OSError.
        """
        key = parse_topic_partition(os.path.basename(self._directory))
        promised = yield from read_promises(self._fs, self._data_dir, key, self._checkpoints)
        files = yield from list_files(self._fs, self._directory)
        self._explained_end = INT64_MAX if self._is_compacted else promised.cleaner_offset or 0
        self._is_compacted |= promised.cleaner_offset is not None
        yield from check_names(self._directory, files)
        start = max(promised.log_start_offset or 0, min(files.bases, default=0))
        epochs = None
        if files.is_bare:
            what = "there are only .log files, as of a log that was never opened"
            yield unusual(self._directory, None, what, REBUILT)
        else:
            yield from check_metadata(self._fs, self._directory)
            path = f"{self._directory}/{LEADER_EPOCH_FILE}"
            read = partial(read_leader_epochs, self._fs, path)
            lines = yield from attempt(read, path, _READ_EPOCHS_AGAIN, byte=0)
            epochs = EpochChecks(path, lines or [], start)
        # Compaction leaves the last batch of a producer, not the one a snapshot knows.
        cleaned_to = INT64_MAX if self._is_compacted else min(files.bases, default=0)
        if promised.cleaner_offset is not None:
            cleaned_to = promised.cleaner_offset
        producers = ProducerChecks(
            self._fs, self._directory, self._clock, files.snapshots, cleaned_to
        )
        for segment in self._segments(files, promised):
            yield from self._check_segment(segment, promised, producers, epochs)
        is_cut = files.is_truncated_to(self._next_offset)
        yield from producers.finish(self._next_offset, is_being_truncated=is_cut)
        if epochs is not None:
            yield from epochs.findings(self._next_offset)
        yield from check_promises(self._data_dir, promised, start, self._next_offset)

    def _segments(self, files: LogFiles, promised: Promises) -> Iterator[_Segment]:
        ends: list[int | None] = [*files.bases[1:], None]
        point = promised.recovery_point or 0
        for base_offset, end_offset in zip(files.bases, ends, strict=False):
            is_recovered = not promised.is_clean and (end_offset is None or end_offset > point)
            is_indexed = self._fs.exists(offset_index_file(self._directory, base_offset))
            path = log_file(self._directory, base_offset)
            yield _Segment(base_offset, end_offset, path, is_recovered or not is_indexed)

    def _check_segment(
        self,
        segment: _Segment,
        promised: Promises,
        producers: ProducerChecks,
        epochs: EpochChecks | None,
    ) -> Iterator[Finding]:
        yield from self._check_gap(segment)
        indexes = self._index(segment, offset_index_file), self._index(segment, time_index_file)
        checks = _SegmentChecks(segment, indexes, producers, epochs, self.checked)
        try:
            yield from self._check_batches(segment, promised, checks, producers)
        except TidelogError as error:
            self._is_damaged = True
            producers.is_sure = False
            yield damage(segment.path, None, str(error), READABLE)
        self.checked.segments += 1
        self.checked.records += checks.batches.records
        self.checked.index_entries += len(checks.offset_index) + len(checks.time_index)
        self._next_offset = checks.batches.next_offset
        if producers.is_sure:
            yield from check_txn_index(
                self._fs,
                transaction_index_file(self._directory, segment.base_offset),
                segment.base_offset,
                producers.transactions,
                self.checked,
                is_compacted=self._is_compacted,
                is_rebuilt=segment.is_rebuilt,
            )

    def _check_batches(
        self,
        segment: _Segment,
        promised: Promises,
        checks: _SegmentChecks,
        producers: ProducerChecks,
    ) -> Iterator[Finding]:
        is_damaged = False
        end_offset = INT64_MAX if segment.end_offset is None else segment.end_offset
        bounds = OffsetBounds(segment.base_offset, end_offset)
        with closing(self._fs.open(segment.path)) as file:
            records = FileRecords(file, bounds=bounds)
            for piece in records.pieces(check_crc=True):
                yield from checks.feed(piece)
                self._on_progress(self.checked.bytes)
            end = records.next_position, checks.batches.next_offset
            if records.end > INT32_MAX:
                size = f"{records.end:,} bytes, more than a segment can have"
                what = f"{size}: no log manager loads the log"
                yield damage(segment.path, end[0], what, _CUT_BY_HAND)
                is_damaged = self._is_damaged = True
                producers.is_sure = False
            elif records.trailing_bytes:
                found = self._check_end(segment, promised, file, records, end[1])
                is_damaged = yield from found
                if is_damaged:
                    self._is_damaged = True
                    producers.is_sure = False
                    yield from search_behind(file, records, bounds, checks.batches, checks.feed)
        yield from self._check_gaps_inside(segment, checks.batches)
        yield from self._check_indexes(segment, checks, *end, is_end=not is_damaged)

    def _check_end(
        self,
        segment: _Segment,
        promised: Promises,
        file: OpenFile,
        records: FileRecords,
        next_offset: int,
    ) -> Generator[Finding, None, bool]:
        """Distinguish an unfinished end of the log from damage; return whether it is damage."""
        position, size = records.next_position, records.trailing_bytes
        reason = "a batch is cut off" if records.error is None else records.error.reason
        if segment.is_active and only_zeros(file, position, records.end):
            what = f"{size:,} zero bytes after the last batch: preallocated, or left by a crash"
            yield unusual(segment.path, position, what, "none needed: recovery cuts them")
            return False
        is_whole = next_offset >= (promised.high_watermark or 0)
        is_torn = not _is_whole(file, position) and ends_here(file, position)
        if segment.is_active and not promised.is_clean and is_whole and is_torn:
            what = f"{reason}: {size:,} bytes that a crash left unfinished, or that are written now"
            yield unusual(segment.path, position, what, "`tidelog recover` cuts them")
            return False
        yield damage(segment.path, position, reason, CUT)
        return True

    def _check_gap(self, segment: _Segment) -> Iterator[Finding]:
        """Yield offsets before this segment that are in no segment."""
        start = max(self._next_offset, self._explained_end)
        if self._is_damaged or not self._next_offset or segment.base_offset <= start:
            return
        what = f"no segment holds {offsets_text(start, segment.base_offset)}"
        remedy = f"put the missing segment back, or {RESCUE}; {_COMPACT_HINT}"
        yield damage(segment.path, 0, what, remedy)

    def _check_gaps_inside(self, segment: _Segment, batches: BatchChecks) -> Iterator[Finding]:
        if batches.gaps and not self._is_compacted and not self._is_damaged:
            what = f"{batches.gaps:,} offsets are in no batch: compacted, or copied from such a log"
            yield unusual(segment.path, batches.first_gap, what)

    def _check_indexes(
        self,
        segment: _Segment,
        checks: _SegmentChecks,
        end_position: int,
        next_offset: int,
        *,
        is_end: bool,
    ) -> Iterator[Finding]:
        name = self._directory, segment.base_offset
        offset_path, time_path = offset_index_file(*name), time_index_file(*name)
        if not self._fs.exists(offset_path):
            yield unusual(offset_path, None, "the segment has no offset index", REBUILT)
        elif not self._fs.exists(time_path) and end_position:
            if segment.is_rebuilt:
                yield unusual(time_path, None, "the segment has no time index", REBUILT)
            else:
                what = "the segment has no time index: opening makes it again, but does not fill it"
                yield damage(time_path, None, what, REBUILD)
        else:
            yield from checks.offset_index.findings(end_position, next_offset, is_end=is_end)
            yield from checks.time_index.findings(next_offset, is_end=is_end)

    def _index(self, segment: _Segment, name: Callable[[str, int], str]) -> IndexPlace:
        path = name(self._directory, segment.base_offset)
        unreadable = ""
        data, size = b"", 0
        try:
            data, size = read_index_file(self._fs, path)
        except FileNotFoundError:
            pass
        except TidelogError as error:
            unreadable = str(error)
        place = path, data, size, segment.base_offset
        return IndexPlace(*place, segment.is_active, segment.is_rebuilt, unreadable)


def _is_whole(file: OpenFile, position: int) -> bool:
    """Return whether a batch at a byte is valid, whatever its offsets: no crash leaves that."""
    records = FileRecords(file, position)
    return next(records.pieces(1, check_crc=True), None) is not None
