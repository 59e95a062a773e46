"""The three stages of a cleaning by many processes, each a function of one task.

``hash_file`` reads the keys of one segment; ``merge_bucket`` finds, for some of the keys of all
segments, the offsets that are superseded; ``rewrite_group`` copies segments without these. Kafka:
``Cleaner.buildOffsetMap`` and ``cleanSegments``.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.keys.key_table import KeyTable
from tidelog.cleaner.rewriting.batch_retention import actions_for_map
from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
from tidelog.cleaner.rewriting.decompressed_batches import decompress_batches
from tidelog.cleaner.rewriting.header_summary import HeaderSummary
from tidelog.cleaner.rewriting.segment_copy import CountedCopy, SegmentCopier
from tidelog.cleaner.spread.entries import (
    NO_ENTRIES,
    Entries,
    KeyHasher,
    LastOffsets,
    OffsetSet,
    joined_offsets,
    superseded_exactly,
)
from tidelog.cleaner.spread.plan import OpenSource
from tidelog.cleaner.stats import CleanerStats
from tidelog.cleaner.throttle import CleanerIo
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from random import Random

    from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
    from tidelog.cleaner.rewriting.record_filter import RetainedBatches
    from tidelog.cleaner.spread.plan import SourceFile, SpreadPlan
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.records.array_rows import Ints
    from tidelog.records.control import ControlType
    from tidelog.segment.txn_index import AbortedTxn

PIECE_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 1 << 23
"""Entries that one task holds before it passes them on: with a table, some 500 MB.

Keys sent with them count by their bytes.
"""


class BucketPart(NamedTuple):
    """Entries of one bucket, from one segment: of dirty records and of clean ones."""

    bucket: int
    dirty: Entries
    clean: Entries


class TransactionEvent(NamedTuple):
    """A batch or a marker of a transaction; ``kind`` is None for a batch."""

    producer_id: int
    last_offset: int
    kind: ControlType | None


class HashedFile(NamedTuple):
    """What else is known of a segment once its keys are read.

    ``superseded`` are offsets that later records of the segment supersede.
    """

    number: int
    superseded: OffsetSet
    events: tuple[TransactionEvent, ...]
    records: int
    size_bytes: int


class RewrittenGroup(NamedTuple):
    """A group as one attempt has written it, in files with this suffix."""

    group: int
    suffix: str
    size_bytes: int
    stats: CleanerStats


class RecordedTransactions(CleanedTransactions):
    """Keeps the events by which another process can follow the same transactions.

    Of the batches of one producer between two of its markers only the first one matters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: list[TransactionEvent] = []
        self._open: set[int] = set()

    def on_batch(self, producer_id: int, last_offset: int) -> bool:
        """Record a transactional batch; return whether its transaction was aborted."""
        if producer_id not in self._open:
            self._open.add(producer_id)
            self.events.append(TransactionEvent(producer_id, last_offset, None))
        return super().on_batch(producer_id, last_offset)

    def on_marker(
        self, producer_id: int, last_offset: int, kind: ControlType | None
    ) -> tuple[bool, AbortedTxn | None]:
        """Record a control batch; as ``CleanedTransactions``."""
        if kind is not None:
            self._open.discard(producer_id)
            self.events.append(TransactionEvent(producer_id, last_offset, kind))
        return super().on_marker(producer_id, last_offset, kind)


def replay(transactions: CleanedTransactions, events: Iterable[TransactionEvent]) -> None:
    """Let ``transactions`` follow the events of a segment."""
    for producer_id, last_offset, kind in events:
        if kind is None:
            transactions.on_batch(producer_id, last_offset)
        else:
            transactions.on_marker(producer_id, last_offset, kind)


class _Hashing:
    """The entries of one segment, gathered piece by piece."""

    def __init__(self, plan: SpreadPlan, number: int, max_entries: int) -> None:
        self._plan = plan
        self._group = plan.offsets_of(plan.group_of(number))
        self._max_entries = max_entries
        self._table = KeyTable(with_kernels=plan.with_kernels)
        self._hasher = KeyHasher(
            plan.hash_key, is_exact=plan.is_exact, with_kernels=plan.with_kernels
        )
        self._last = LastOffsets(with_kernels=plan.with_kernels)
        self._dirty: list[Entries] = []
        self._clean: list[Entries] = []
        self._held = 0
        self._superseded: list[Ints] = []
        self.records = 0

    @property
    def is_full(self) -> bool:
        """Whether the entries should be passed on before more are added."""
        return self._held + len(self._last) >= self._max_entries

    @property
    def superseded(self) -> OffsetSet:
        """The offsets that later records of the segment supersede, as far as that is known."""
        start, end = self._group
        found = joined_offsets(self._superseded)
        return OffsetSet.of(found[: found.searchsorted(end)], start, end)

    def add(self, decompressed: DecompressedBatches) -> None:
        """Add the records of some batches."""
        decompressed.walk(self._table, keyed_only=True)
        self.records += decompressed.records
        if not self._table.count:
            return
        entries = self._hasher.entries_of(decompressed.data, self._table)
        is_dirty = entries.words[2] >= self._plan.to_clean.first_dirty_offset
        if is_dirty.all():
            self._add_dirty(entries)
            return
        self._clean.append(entries.select(np.flatnonzero(~is_dirty)))
        self._held += self._clean[-1].weight
        if is_dirty.any():
            self._add_dirty(entries.select(np.flatnonzero(is_dirty)))

    def _add_dirty(self, entries: Entries) -> None:
        if self._plan.is_exact:
            self._dirty.append(entries)
            self._held += entries.weight
        else:
            self._superseded.append(self._last.merge(entries.words))

    def take(self) -> Iterator[BucketPart]:
        """Yield the entries, and forget them."""
        buckets = self._plan.buckets
        dirty = (
            Entries.joined(self._dirty).in_buckets(buckets)
            if self._plan.is_exact
            else self._last.take(buckets)
        )
        by_bucket = dict(Entries.joined(self._clean).in_buckets(buckets))
        self._dirty, self._clean, self._held = [], [], 0
        for bucket, entries in dirty:
            yield BucketPart(bucket, entries, by_bucket.pop(bucket, NO_ENTRIES))
        for bucket, entries in by_bucket.items():
            yield BucketPart(bucket, NO_ENTRIES, entries)


def hash_file(
    plan: SpreadPlan, number: int, fs: FileSystem, *, max_entries: int = MAX_ENTRIES
) -> Iterator[BucketPart | HashedFile]:
    """Yield the entries of a file of the plan, in parts; then what else is known of it.

    Of the dirty records of one part only the last one of each key is in it. Raises CorruptMessage,
    InvalidRecord, CleaningAborted if the file has changed, OSError.
    """
    source, hashing = plan.files[number], _Hashing(plan, number, max_entries)
    transactions = RecordedTransactions()
    transactions.add_aborted(source.aborted)
    with closing(source.open(fs)) as file:
        for decompressed in _batches_of(plan, OpenSource(source, file), transactions):
            hashing.add(decompressed)
            if hashing.is_full:
                yield from hashing.take()
    yield from hashing.take()
    events = tuple(transactions.events)
    yield HashedFile(number, hashing.superseded, events, hashing.records, source.size_bytes)


def _batches_of(
    plan: SpreadPlan, segment: OpenSource, transactions: CleanedTransactions
) -> Iterator[DecompressedBatches]:
    """Yield the batches whose keys count, decompressed."""
    bounds = OffsetBounds(segment.base_offset, segment.read_next_offset())
    records = segment.file_records(bounds=bounds)
    for piece in records.pieces(PIECE_BYTES, check_crc=True):
        batches = piece.batches_in_data
        summary = HeaderSummary.of(batches, with_kernels=plan.with_kernels)
        actions = actions_for_map(piece.data, batches, summary, transactions)
        yield from decompress_batches(
            piece.data, batches, actions, summary, with_kernels=plan.with_kernels
        )
    records.check_complete()


def merge_bucket(plan: SpreadPlan, parts: Iterable[BucketPart]) -> Iterator[tuple[int, OffsetSet]]:
    """Yield which offsets of each group are superseded, by the keys of one bucket.

    ``parts`` are all of this bucket, in any order. Raises KeyCollision in exact mode.
    """
    clean: list[Entries] = []
    dirty: list[Entries] = []
    superseded: list[Ints] = []
    last = LastOffsets(with_kernels=plan.with_kernels)
    for part in parts:
        clean.append(part.clean)
        if plan.is_exact:
            dirty.append(part.dirty)
        else:
            superseded.append(last.merge(part.dirty.words))
    if plan.is_exact:
        superseded.append(superseded_exactly(Entries.joined(dirty), Entries.joined(clean)))
    else:
        superseded += [last.find_superseded(entries.words) for entries in clean]
    found = joined_offsets(superseded)
    for group in range(len(plan.groups)):
        start, end = plan.offsets_of(group)
        of_group = found[found.searchsorted(start) : found.searchsorted(end)]
        if len(of_group):
            yield group, OffsetSet.of(of_group, start, end)


def rewrite_group(
    plan: SpreadPlan,
    group: int,
    superseded: Iterable[OffsetSet],
    transactions: CleanedTransactions,
    *,
    fs: FileSystem,
    clock: Clock,
    rng: Random,
) -> RewrittenGroup:
    """Copy what is retained of a group into files of one attempt's own, durably.

    Args:
        plan: of the cleaning.
        group: the number of the group.
        superseded: which of its offsets are.
        transactions: their state before the group; it is changed.
        fs: the file system.
        clock: of the new segment.
        rng: names the attempt.

    Raises:
        SegmentOffsetOverflow: a segment of the group has to be split.
        CorruptMessage, InvalidRecord, InvalidArgument, CleaningAborted, OSError: as ``Cleaner``.
    """
    offsets = plan.superseded_of(group)
    for part in superseded:
        part.add_to(offsets)
    stats = CleanerStats()
    io = CleanerIo(PIECE_BYTES, lambda: None)
    copier = SegmentCopier(plan.round_of(offsets), stats, io, transactions)
    start, end = plan.groups[group]
    suffix = plan.suffix_of(f"{rng.getrandbits(64):016x}")
    with ExitStack() as held:
        sources = [
            OpenSource(source, _opened(source, fs, held)) for source in plan.files[start:end]
        ]
        after = sources[-1].read_next_offset()
        following = [OpenSource(plan.files[end - 1]._replace(base_offset=after, aborted=()))]
        if not plan.writes:
            target = CountedCopy()
            copier.copy(sources, following, plan.producers, target)
            return RewrittenGroup(group, suffix, target.size_bytes, stats)
        written = _NewSegment(plan, sources[0].base_offset, suffix, fs=fs, clock=clock, rng=rng)
        held.callback(written.close)
        copier.copy(sources, following, plan.producers, written)
        written.finish(sources[-1].modified_ms)
    return RewrittenGroup(group, suffix, written.size_bytes, stats)


def _opened(source: SourceFile, fs: FileSystem, held: ExitStack) -> OpenFile:
    file = source.open(fs)
    held.callback(file.close)
    return file


class _NewSegment:
    """A ``CopyTarget`` of one attempt; its files are deleted unless it is finished."""

    def __init__(
        self,
        plan: SpreadPlan,
        base_offset: int,
        suffix: str,
        *,
        fs: FileSystem,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._segment = LogSegment.open(
            *(plan.directory, base_offset, plan.config),
            fs=fs,
            clock=clock,
            rng=rng,
            suffix=suffix,
            preallocate=plan.config.preallocate,
        )
        self._is_finished = False

    @property
    def size_bytes(self) -> int:
        """Bytes of records."""
        return self._segment.size_bytes

    def append(self, retained: RetainedBatches) -> None:
        """Append batches."""
        last_offset = int(retained.batches.last_offset[-1])
        self._segment.append(last_offset, retained.data, retained.batches)

    def update_txn_index(self, aborted: Sequence[AbortedTxn]) -> None:
        """Append index entries for aborted transactions."""
        if aborted:
            self._segment.update_txn_index(aborted)

    def finish(self, modified_ms: int) -> None:
        """Make it complete and durable."""
        self._segment.become_inactive()
        # Another process puts it in the place of the originals, and syncs nothing of it again.
        self._segment.flush()
        self._segment.set_modified_ms(modified_ms)
        self._is_finished = True

    def close(self) -> None:
        """Close it, or delete it if it is not complete."""
        if self._is_finished:
            self._segment.close_handlers()
        else:
            self._segment.delete()
