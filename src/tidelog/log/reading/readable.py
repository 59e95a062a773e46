"""The part of an open log that changes nothing: offsets, lookups, fetches.

Kafka: ``UnifiedLog``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.codec.one_line import Told, open_or_closed
from tidelog.codec.uuid_text import format_uuid
from tidelog.env.forks import OfOneProcess
from tidelog.errors import OffsetOutOfRange
from tidelog.log.leader_epoch import UNDEFINED_EPOCH_OFFSET, OffsetAndEpoch
from tidelog.log.offsets import LogOffsetSnapshot
from tidelog.log.reading.committed import AbortedTransaction, open_producers
from tidelog.log.reading.log_reads import FetchData, LogView, each_record, iterate, resolve
from tidelog.log.reading.offset_lookup import fetch_offset
from tidelog.log.retention.retention_pass import segment_facts
from tidelog.log.segments import segments_from
from tidelog.log.trace import is_traced, trace_read
from tidelog.records.isolation import Isolation
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.log.archived import ArchivedOffsets
    from tidelog.log.contradicted import OpenContradiction
    from tidelog.log.leader_epoch import LeaderEpochCache
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.log.reading.log_reads import OnHole
    from tidelog.log.reading.offset_lookup import TimestampedOffset
    from tidelog.log.reading.record_count import RecordCount
    from tidelog.log.retention.retention_rules import SegmentFacts
    from tidelog.log.segments import LogSegments
    from tidelog.log.state import LogState
    from tidelog.records.array_rows import Ints
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.record import Record
    from tidelog.segment.txn_index import AbortedTxn


class ReadableLog(OfOneProcess, Told):
    """The part of a log that changes nothing. Safe on any thread, beside a writer.

    Offsets are exclusive ends, except ``log_start_offset``.
    """

    def __init__(self, state: LogState) -> None:
        self._state = state

    def _told(self) -> str:
        state = self._state
        offsets = state.offsets
        life = "offline" if self.is_offline else open_or_closed(is_open=not state.is_closed)
        return (
            f"{self.directory!r}: log_start_offset={offsets.log_start_offset},"
            f" high_watermark={offsets.high_watermark},"
            f" last_stable_offset={offsets.last_stable_offset},"
            f" log_end_offset={offsets.log_end_offset}, segments={len(self.segments)}, {life}"
        )

    def __str__(self) -> str:
        """Describe the log as Kafka's log lines do. Source: Kafka UnifiedLog.toString."""
        context, offsets = self._state.context, self._state.offsets
        topic, _, partition = context.log_name.rpartition("-")
        topic_id = f" topicId={format_uuid(self.topic_id)}," if self.topic_id else ""
        return (
            f"Log(dir={context.directory},{topic_id} topic={topic}, partition={partition},"
            f" highWatermark={offsets.high_watermark},"
            f" lastStableOffset={offsets.last_stable_offset},"
            f" logStartOffset={offsets.log_start_offset}, logEndOffset={offsets.log_end_offset})"
        )

    # What it is

    @property
    def directory(self) -> str:
        """The directory of the log."""
        return self._state.context.directory

    @property
    def data_dir(self) -> str:
        """The data directory that it is in, which holds the directories of the logs."""
        return self._state.context.parent

    @property
    def is_offline(self) -> bool:
        """Whether the log must be opened again: its disk failed, or a change was not completed."""
        return self._state.context.guard.is_offline

    @property
    def needs_reopening(self) -> bool:
        """Whether a change was not completed, and the log's disk has not failed."""
        return self._state.context.guard.needs_reopening

    @property
    def cuts(self) -> int:
        """How often the log was truncated since it was opened."""
        return self._state.cuts

    @property
    def replaced_end(self) -> int:
        """The offset below which the cleaner may have dropped records since the log was opened."""
        return self._state.replaced_end

    @property
    def contradiction(self) -> OpenContradiction | None:
        """The damage that keeps the log from taking appends; None: there is none."""
        return self._state.contradiction

    def has_lost(self, seen: int) -> bool:
        """Return whether its opening emptied the log of records that lay below ``seen``."""
        emptied_from = self._state.emptied_from
        return emptied_from is not None and emptied_from < seen

    @property
    def config(self) -> LogConfig:
        """The current settings."""
        return self._state.context.config

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id, if the log has one."""
        return self._state.topic_id.topic_id

    @property
    def segments(self) -> LogSegments:
        """The segments now, oldest first; not to be changed by the caller."""
        return self._state.local.segments

    @property
    def epochs(self) -> LeaderEpochCache:
        """The leader epochs; for lookups."""
        return self._state.epochs

    @property
    def producers(self) -> ProducerStateManager:
        """The producers; for lookups."""
        return self._state.producers

    @property
    def size_bytes(self) -> int:
        """Bytes of records."""
        return self._state.local.segments.size_bytes

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch."""
        return self._state.epochs.latest_epoch

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of what its owner appends next, 0 for a new log.

        It is above the latest one where a process has ended without closing the log: that may have
        lost records at its end that readers saw.
        """
        return max(self._state.epochs.latest_epoch or 0, self._state.least_epoch)

    @property
    def begins_epoch(self) -> bool:
        """Whether ``leader_epoch`` is above the latest one, or the first."""
        latest = self._state.epochs.latest_epoch
        return latest is None or latest < self._state.least_epoch

    @property
    def log_start_offset(self) -> int:
        """First offset of the log; what lies below the local one is read from its archive."""
        return self._state.whole_start

    @property
    def local_log_start_offset(self) -> int:
        """First offset that may be read from the disk."""
        return self._state.offsets.log_start_offset

    @property
    def archived(self) -> ArchivedOffsets | None:
        """What an archive holds of the log, as far as its owner has said so."""
        return self._state.archived

    @property
    def archived_end(self) -> int:
        """The offset below which retention may delete here what the archive has."""
        return self._state.archived_end

    @property
    def deletable_end(self) -> int:
        """The offset up to which the log start can be raised."""
        return self._state.deletable_end

    @property
    def retention_end(self) -> int:
        """The offset from which on limits delete nothing here."""
        return self._state.retention_end(self.config)

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._state.offsets.log_end_offset

    @property
    def log_end(self) -> LogOffsetMetadata:
        """The log end offset with its place."""
        return self._state.offsets.log_end

    @property
    def high_watermark(self) -> int:
        """Readers see offsets below it."""
        return self._state.offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records see offsets below it."""
        return self._state.offsets.last_stable_offset

    @property
    def pinned_from(self) -> int | None:
        """Offset from which on a commit has still to write; None: none does."""
        return self._state.pinned_from

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the transactions that are not decided, or not replicated."""
        unstable = self._state.offsets.first_unstable
        return None if unstable is None else unstable.offset

    @property
    def recovery_point(self) -> int:
        """Offsets below it are flushed."""
        return self._state.offsets.recovery_point

    @property
    def last_flush_ms(self) -> int:
        """When the log was last flushed, in ms since the epoch; at first, when it was opened."""
        return self._state.last_flush_ms

    def retention_facts(self) -> list[SegmentFacts]:
        """Return what retention asks about each segment, oldest first."""
        return list(segment_facts(self._state))

    # Reading

    def read(
        self,
        start_offset: int,
        max_bytes: int = 1 << 20,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        min_one_batch: bool = True,
    ) -> FetchData:
        """Return a slice of a file with the batches from ``start_offset`` on; close it after use.

        Args:
            start_offset: first offset wanted; the first batch may begin below it.
            max_bytes: greatest size of the slice.
            isolation: how far the reader may see, also as a word such as ``"read_committed"``.
            min_one_batch: give the first batch whole, however large it is.

        Raises:
            OffsetOutOfRange: below the log start or above the log end.
            InvalidArgument: ``isolation`` is an unknown word.
        """
        level = Isolation.of(isolation)

        def find(view: LogView) -> FetchData:
            known = view.offsets.high_watermark_metadata
            if level is Isolation.READ_UNCOMMITTED and known.is_offset_only:
                place = self._state.resolve_high_watermark(view)
                view = LogView(view.segments, view.offsets.with_high_watermark(place))
            return view.read(start_offset, max_bytes, level, min_one_batch=min_one_batch)

        if is_traced():
            trace_read(self._state.context, start_offset, max_bytes, self.size_bytes)
        return self._state.look("reading", find)

    def records(
        self,
        start_offset: int | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> Iterator[Record]:
        """Yield the records from ``start_offset`` on, as of when read.

        None: from the local log start on.
        """
        return each_record(self.columns(start_offset, isolation=isolation))

    def columns(
        self,
        start_offset: int | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        on_hole: OnHole = lambda _: None,
    ) -> Iterator[RecordColumns]:
        """Yield what ``records`` yields, many records at a time.

        ``on_hole`` is called with offsets ``[start, end)`` that no segment holds, before what
        follows them.
        """
        start = self.local_log_start_offset if start_offset is None else start_offset
        level = Isolation.of(isolation)
        return iterate(lambda offset: self.read(offset, isolation=level), start, on_hole)

    def settled_records(self, start_offset: int) -> Iterator[Record]:
        """Yield the records from ``start_offset`` to the high watermark that no marker can undo.

        Those of committed transactions and of none, also after the first record of an open one,
        where a reader of committed records stops.
        """
        end = self.high_watermark
        for columns, owners in self.columns_by_transaction(
            start_offset, end, self.open_transactions()
        ):
            yield from columns.select(owners < 0).records()

    def columns_by_transaction(
        self, start_offset: int, end_offset: int, opened: Mapping[int, int]
    ) -> Iterator[tuple[RecordColumns, Ints]]:
        """Yield the records of ``[start, end)`` without aborted ones, and the producer of each.

        That is the one whose transaction the record belongs to if that is in ``opened``, else -1.
        ``opened`` is what ``open_transactions`` has returned after the end was known.
        """

        def read(offset: int) -> FetchData:
            # Without those whose marker lies before: it would not be met, and what their producers
            # have written since would be left out, too.
            aborted = [
                AbortedTransaction(txn.producer_id, txn.first_offset)
                for txn in self.collect_aborted_transactions(offset, end_offset)
                if txn.last_offset >= offset
            ]
            return replace(self.read(offset), aborted=tuple(aborted))

        for columns in iterate(read, start_offset):
            below = columns.select(columns.offset < end_offset)
            yield below, open_producers(below.batches, opened)[below.batch]
            if len(below) < len(columns):
                return

    def fetch_offset_by_timestamp(self, target: int) -> TimestampedOffset | None:
        """Return the offset for a time in ms, or for an ``OffsetTarget``; None if there is none."""
        epochs = self._state.epochs

        def find(view: LogView) -> TimestampedOffset | None:
            return fetch_offset(view.searched, lambda: epochs.entries, target)

        return self._state.look("looking up a time", find)

    def count_records(
        self, start_offset: int | None = None, end_offset: int | None = None
    ) -> RecordCount:
        """Count what the offsets ``[start, end)`` hold: records, aborted ones, markers, gaps.

        For example between the high watermark and the log end. Reads the batches' headers, and
        decodes those at the ends of the range; above the last stable offset open transactions
        count.

        Args:
            start_offset: inclusive; None: the log start offset.
            end_offset: exclusive; None: the high watermark.

        Raises OffsetOutOfRange unless the range lies between log start and log end.
        """
        return self._state.look(
            "counting records", lambda view: view.count_records(start_offset, end_offset)
        )

    # Offsets with their places

    def offset_snapshot(self) -> LogOffsetSnapshot:
        """Return log start, last stable offset, high watermark and log end, all of one moment.

        Needs no lock. Places that are not known are looked up; that of a log start inside a
        segment each time.
        """

        def take(view: LogView) -> LogOffsetSnapshot:
            offsets = view.offsets
            watermark = self._state.resolve_high_watermark(view)
            is_stable = offsets.last_stable_offset == offsets.high_watermark
            return LogOffsetSnapshot(
                log_start=_place_of_start(view),
                last_stable=watermark if is_stable else resolve(view, offsets.last_stable),
                high_watermark=watermark,
                log_end=offsets.log_end,
            )

        return self._state.look_uncut("looking up places", take)

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return an offset with its place: where the batch lies that holds it, or the next one.

        Raises OffsetOutOfRange below the log start or above the log end.
        Source: Kafka UnifiedLog.convertToOffsetMetadataOrThrow.
        """

        def find(view: LogView) -> LogOffsetMetadata:
            offsets = view.offsets
            if not offsets.log_start_offset <= offset <= offsets.log_end_offset:
                raise OffsetOutOfRange(offset, offsets.log_start_offset, offsets.log_end_offset)
            return resolve(view, LogOffsetMetadata(offset))

        return self._state.look_uncut("looking up a place", find)

    # Epochs, producers, transactions

    def end_offset_for_epoch(self, leader_epoch: int) -> OffsetAndEpoch | None:
        """Return the greatest known epoch up to ``leader_epoch``, with its end (exclusive).

        The latest epoch ends at the log end. An epoch below all known ones is returned itself, and
        ends where the first of those begins. None for an epoch above all known ones, or if none
        are known. Source: Kafka UnifiedLog.endOffsetForEpoch.
        """

        def find(view: LogView) -> OffsetAndEpoch | None:
            # Epochs are looked at after the log end: what a later one covers is above it.
            found = self._state.epochs.end_offset_for(leader_epoch, view.offsets.log_end_offset)
            if found.start_offset == UNDEFINED_EPOCH_OFFSET:
                return None
            return OffsetAndEpoch(found.start_offset, found.epoch)

        return self._state.look_uncut("looking up a leader epoch", find)

    def open_transactions(self) -> dict[int, int]:
        """Return the first offset of each open transaction, by producer.

        Needs no lock. Of a record below a high watermark that was asked for before, this, or after
        it ``collect_aborted_transactions``, says whether its transaction counts.
        """
        producers = self._state.producers
        return self._state.look_uncut("looking at transactions", lambda _: producers.ongoing)

    def active_producers(self) -> dict[int, ProducerStateEntry]:
        """Return what is known of each producer, by id; under the log's lock.

        Source: Kafka UnifiedLog.activeProducers.
        """
        with self._state.lock:
            return self._state.producers.producers

    @property
    def producer_id_count(self) -> int:
        """How many producers are active."""
        return self._state.producers.producer_count

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether a transaction has been open for longer than any may be."""
        return self._state.producers.has_late_transaction(now_ms)

    def collect_aborted_transactions(
        self, start_offset: int, upper_bound_offset: int
    ) -> list[AbortedTxn]:
        """Return the aborted transactions that readers of a range have to skip.

        Those whose marker is indexed in the segment of ``start_offset`` or a later one, and that
        reach from the log start on below ``upper_bound_offset`` (exclusive); oldest marker first.
        Source: Kafka UnifiedLog.collectAbortedTransactions.
        """

        def collect(view: LogView) -> list[AbortedTxn]:
            segments = segments_from(view.segments, start_offset)
            start = view.offsets.log_start_offset
            return view.aborted_txns(segments[0], start, upper_bound_offset) if segments else []

        return self._state.look("collecting aborted transactions", collect)


def _place_of_start(view: LogView) -> LogOffsetMetadata:
    """Return the log start with its place, which needs no lookup at the start of a segment."""
    start = view.offsets.log_start_offset
    first = next(iter(segments_from(view.segments, start)), None)
    if first is not None and first.base_offset == start:
        return LogOffsetMetadata(start, start, 0)
    return resolve(view, LogOffsetMetadata(start))
