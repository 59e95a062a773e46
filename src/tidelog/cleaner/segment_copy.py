"""Copying a group of segments into one, without what compaction drops.

Owns the reading, the order of things and what a cleaned segment needs besides batches. Must not
know how the new segment takes the place of the old ones. Kafka: ``Cleaner.cleanSegments``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.cleaner.batch_retention import LastBatches, MarkRules
from tidelog.cleaner.cleaned_transactions import CleanedTransactions, collect_aborted
from tidelog.cleaner.header_summary import glance_at
from tidelog.cleaner.record_filter import RecordFilter
from tidelog.errors import CorruptMessage, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidelog.cleaner.cleaning_result import Dropped
    from tidelog.cleaner.offset_map import OffsetMap
    from tidelog.cleaner.record_filter import Filtered
    from tidelog.cleaner.stats import Tally
    from tidelog.cleaner.throttle import Pace
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.records.file_records import Piece
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn


class Target(Protocol):
    """Where the batches that are left go: a new segment, or nowhere."""

    def append(self, filtered: Filtered) -> None:
        """Take batches, in order; those taken before are overwritten afterwards, but not these."""

    def name_aborted(self, aborted: Sequence[AbortedTxn]) -> None:
        """Take note of aborted transactions that still have records."""


class Round(NamedTuple):
    """What all groups of one cleaning share. Times in ms; ``end_offset`` is exclusive.

    The map was made of the batches from ``start_offset`` on, as far as it had room; their CRCs were
    checked then, and are not again.
    Tombstones of magic 0 and 1 stay in segments changed after ``old_tombstones_before_ms``.
    ``on_dropped`` is told of each record that goes, if that is wanted.
    """

    offset_map: OffsetMap
    start_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    old_tombstones_before_ms: int
    on_dropped: Callable[[Dropped], None] | None = None


class Copier:
    """Copies the groups of one round, in order; transactions reach from one to the next."""

    def __init__(self, of: Round, tally: Tally, pace: Pace) -> None:
        self._round = of
        self._pace = pace
        self._tally = tally
        self._transactions = CleanedTransactions()
        self._filter = RecordFilter(
            of.offset_map,
            now_ms=of.now_ms,
            delete_retention_ms=of.delete_retention_ms,
            tally=tally,
            on_dropped=of.on_dropped,
        )

    def copy(
        self,
        group: Sequence[LogSegment],
        following: Sequence[LogSegment],
        producers: Mapping[int, ProducerStateEntry],
        target: Target,
    ) -> None:
        """Copy what stays of ``group``.

        Args:
            group: neighbouring segments.
            following: the log's segments behind them.
            producers: the active producers, as of now.
            target: where it goes.

        Raises:
            CorruptMessage, InvalidRecord: a batch is damaged; ``path`` and ``position`` say where.
            InvalidArgument: a record cannot be written again, see ``RecordFilter.filter``.
            SegmentOffsetOverflow: an offset does not fit the target.
        """
        rules = MarkRules(
            self._transactions,
            LastBatches(producers),
            self._round.end_offset,
            self._round.now_ms,
        )
        for number, segment in enumerate(group):
            behind = (*group[number + 1 :], *following)
            end = behind[0].base_offset if behind else segment.read_next_offset()
            self._transactions.add_aborted(
                collect_aborted((segment, *behind), segment.base_offset, end)
            )
            is_checked = segment.base_offset >= self._round.start_offset
            is_checked &= end <= self._round.offset_map.latest_offset + 1
            self._copy_one(segment, rules, target, check_crc=not is_checked)
        self._hand_over(target)

    def _copy_one(
        self, segment: LogSegment, rules: MarkRules, target: Target, *, check_crc: bool
    ) -> None:
        keep_old = segment.modified_ms > self._round.old_tombstones_before_ms
        records = segment.file_records()
        for piece in records.pieces(self._pace.piece_bytes, check_crc=check_crc):
            self._pace.step(len(piece.data))
            try:
                self._copy_piece(piece, rules, target, keep_old_tombstones=keep_old)
            except (CorruptMessage, InvalidRecord) as error:
                position = error.position
                at = piece.data_position if position is None else piece.data_position + position
                raise type(error)(error.reason, at, segment.path) from error
        if records.error is not None:
            raise records.error

    def _copy_piece(
        self, piece: Piece, rules: MarkRules, target: Target, *, keep_old_tombstones: bool
    ) -> None:
        batches = piece.batches_in_data
        glance = glance_at(batches, with_kernels=self._round.offset_map.with_kernels)
        marks, aborted = rules.mark(piece.data, batches, glance)
        self._filter.add(
            piece.data, batches, marks, glance, keep_old_tombstones=keep_old_tombstones
        )
        if self._filter.filled_bytes >= self._pace.piece_bytes:
            self._hand_over(target)
        target.name_aborted(aborted)

    def _hand_over(self, target: Target) -> None:
        """Give the target what has gathered: few large writes cost less than many small ones."""
        filtered = self._filter.take()
        if filtered is not None:
            target.append(filtered)
            self._pace.took(len(filtered.data))
