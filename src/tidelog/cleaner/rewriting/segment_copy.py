"""Copies a group of segments into one, without what compaction drops.

Kafka: ``Cleaner.cleanSegments`` and ``cleanInto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.cleaner.rewriting.batch_retention import BatchRetentionRules, LastBatches
from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
from tidelog.cleaner.rewriting.header_summary import HeaderSummary
from tidelog.cleaner.rewriting.record_filter import RecordFilter
from tidelog.cleaner.source_log import AbortedSearch
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.records.damage.sound_offsets import OffsetBounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidelog.cleaner.keys.superseded import SupersededOffsets
    from tidelog.cleaner.rewriting.batch_retention import LastOfProducer
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.cleaner.rewriting.record_filter import RetainedBatches
    from tidelog.cleaner.source_log import SourceSegment
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.cleaner.throttle import CleanerIo
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.records.file_records import Piece
    from tidelog.segment.txn_index import AbortedTxn


class CopyTarget(Protocol):
    """Takes the retained batches: a new segment, or nothing at all for a plan."""

    def append(self, retained: RetainedBatches) -> None:
        """Take batches, in order.

        They stay valid until the next call returns: it must have finished with those before.
        """

    def update_txn_index(self, aborted: Sequence[AbortedTxn]) -> None:
        """Take aborted transactions that still have records."""


class CountedCopy:
    """A ``CopyTarget`` for a plan, which writes nothing."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def append(self, retained: RetainedBatches) -> None:
        """Count the bytes of the batches."""
        self.size_bytes += len(retained.data)

    def update_txn_index(self, aborted: Sequence[AbortedTxn]) -> None:
        """Ignore them."""


class CleaningRound(NamedTuple):
    """What all groups of one cleaning share. Times are in ms.

    ``offset_map`` covers the batches from ``start_offset`` to its ``latest_offset``; their CRCs
    were checked when it was built, and are not checked again. ``end_offset`` is the first
    uncleanable offset. Tombstones of magic 0 and 1 are retained in segments modified after
    ``legacy_delete_horizon_ms``. ``on_dropped``, if given, is called with the dropped records.
    """

    offset_map: SupersededOffsets
    start_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    legacy_delete_horizon_ms: int
    on_dropped: Callable[[DroppedRecords], None] | None = None


class SegmentCopier:
    """Copies the groups of one cleaning, in order; transactions may span several groups.

    ``transactions`` is their state before the first of these groups; None: before all of the log.
    """

    def __init__(
        self,
        cleaning_round: CleaningRound,
        stats: CleanerStats,
        io: CleanerIo,
        transactions: CleanedTransactions | None = None,
    ) -> None:
        self._round = cleaning_round
        self._io = io
        self._transactions = transactions or CleanedTransactions()
        self._filter = RecordFilter(
            cleaning_round.offset_map,
            now_ms=cleaning_round.now_ms,
            delete_retention_ms=cleaning_round.delete_retention_ms,
            stats=stats,
            on_dropped=cleaning_round.on_dropped,
        )

    def copy(
        self,
        group: Sequence[SourceSegment],
        following: Sequence[SourceSegment],
        producers: Mapping[int, ProducerStateEntry | LastOfProducer],
        target: CopyTarget,
    ) -> None:
        """Copy what is retained of ``group``.

        Args:
            group: adjacent segments.
            following: the segments of the log after them.
            producers: the active producers, as of now.
            target: takes the retained batches.

        Raises:
            CorruptMessage, InvalidRecord: a batch is damaged; with ``path`` and ``position``.
            InvalidArgument: a record cannot be rewritten, see ``RecordFilter.add``.
            SegmentOffsetOverflow: an offset does not fit the target.
        """
        rules = BatchRetentionRules(
            self._transactions,
            LastBatches(producers),
            self._round.end_offset,
            self._round.now_ms,
        )
        aborted = AbortedSearch((*group, *following))
        for segment, after in zip(group, (*group[1:], *following[:1], None), strict=False):
            end = segment.read_next_offset() if after is None else after.base_offset
            self._transactions.add_aborted(aborted.between(segment.base_offset, end))
            is_checked = segment.base_offset >= self._round.start_offset
            is_checked &= end <= self._round.offset_map.latest_offset + 1
            bounds = OffsetBounds(segment.base_offset, end)
            self._copy_segment(segment, rules, target, bounds, check_crc=not is_checked)
        self._write_retained(target)

    def _copy_segment(
        self,
        segment: SourceSegment,
        rules: BatchRetentionRules,
        target: CopyTarget,
        bounds: OffsetBounds,
        *,
        check_crc: bool,
    ) -> None:
        retain = segment.modified_ms > self._round.legacy_delete_horizon_ms
        records = segment.file_records(bounds=bounds)
        for piece in records.pieces(self._io.piece_bytes, check_crc=check_crc):
            self._io.on_read(len(piece.data))
            try:
                self._copy_piece(piece, rules, target, retain_legacy_deletes=retain)
            except (CorruptMessage, InvalidRecord) as error:
                position = error.position
                at = piece.data_position if position is None else piece.data_position + position
                raise type(error)(error.reason, at, segment.path) from error
        records.check_complete()

    def _copy_piece(
        self,
        piece: Piece,
        rules: BatchRetentionRules,
        target: CopyTarget,
        *,
        retain_legacy_deletes: bool,
    ) -> None:
        batches = piece.batches_in_data
        summary = HeaderSummary.of(batches, with_kernels=self._round.offset_map.with_kernels)
        actions, aborted = rules.actions_for(piece.data, batches, summary)
        self._filter.add(
            piece.data, batches, actions, summary, retain_legacy_deletes=retain_legacy_deletes
        )
        if self._filter.filled_bytes >= self._io.piece_bytes:
            self._write_retained(target)
        target.update_txn_index(aborted)

    def _write_retained(self, target: CopyTarget) -> None:
        """Pass the buffered batches to the target: few large writes cost less than many small."""
        retained = self._filter.take()
        if retained is not None:
            target.append(retained)
            self._io.on_write(len(retained.data))
