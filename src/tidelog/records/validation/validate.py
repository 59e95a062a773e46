"""What a leader accepts: rules for batches and records, and the offsets it assigns.

A batch is changed in place if possible, and rebuilt otherwise; ``analyze`` has checked lengths and
CRCs before. Kafka: ``LogValidator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.compression import Codec
from tidelog.codec.layout import byte_view
from tidelog.errors import CorruptMessage, InvalidArgument, InvalidRecord
from tidelog.kernels import rows
from tidelog.records import legacy
from tidelog.records.array_rows import as_bytes
from tidelog.records.batch import NO_TIMESTAMP, BatchFlags, TimestampType
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import BatchSpec
from tidelog.records.bulk_builder import rebuild
from tidelog.records.decoding.record_areas import area_of, decode_areas
from tidelog.records.decoding.record_columns import RecordColumns, decode
from tidelog.records.decoding.unpacked import Unpacked
from tidelog.records.memory import walk
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.records.validation.record_rules import (
    RecordRules,
    check_area,
    check_legacy,
)
from tidelog.records.validation.rejection import Rejection, ignore_rejections
from tidelog.records.validation.stamp import stamp_append_time, stamp_in_place, stamp_offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.codec.layout import Buffer
    from tidelog.config.log_config import LogConfig
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.validation.analyze import Analyzed


class ValidatedRecords(NamedTuple):
    """Batches as they are appended to the log, with offsets and leader epoch.

    Positions in ``batches`` are bytes in ``data``. ``next_offset`` is the offset after the last;
    ``max_timestamp`` is in ms; ``log_append_time`` is -1 unless records get it.
    ``are_sizes_changed`` means that batches were rebuilt, so that size limits must be checked
    again. Source: Kafka ValidationResult.
    """

    data: Buffer
    batches: BatchColumns
    next_offset: int
    max_timestamp: int
    log_append_time: int
    are_sizes_changed: bool


def validate_for_leader(
    data: Buffer,
    analyzed: Analyzed,
    *,
    config: LogConfig | LeaderPolicy,
    first_offset: int,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    on_rejected: Callable[[Rejection, int], None] = ignore_rejections,
) -> ValidatedRecords:
    """Check the batches and records of an append and assign offsets from ``first_offset`` on.

    Args:
        data: the bytes given to ``analyze``. They are never changed, except a bytearray of staged
            batches: other batches are changed in one copy, or rebuilt if the codec differs, the
            format is old, or offsets have gaps.
        analyzed: the result of ``analyze``.
        config: the topic's settings, or the policy derived from them.
        first_offset: offset of the first record.
        leader_epoch: written into each batch.
        now_ms: the time of the append in ms: it bounds timestamps, and with LogAppendTime is the
            timestamp.
        origin: who appends; not one that brings its own offsets.
        on_rejected: called with the metric and the number to add to it, before the error is raised.

    Raises:
        InvalidRecord, InvalidTimestamp: batches or records break a rule, and records are listed;
            or compressed bytes are damaged.
        CorruptMessage: an inner record of an old format, or its compressed bytes, are damaged.
        MessageTooLarge: a batch decompresses beyond the limit.
        InvalidArgument: the origin brings its own offsets, or a timestamp below -1 would have to be
            written again.

    Unlike in Kafka, an uncompressed client batch whose offset deltas are not 0, 1, 2 … is rebuilt,
    as compressed batches are: a log never holds an offset twice.
    """
    if origin.brings_offsets or not len(analyzed.batches):
        count = len(analyzed.batches)
        raise InvalidArgument(f"{count} batches of origin {origin.value} need no offsets")
    policy = config if isinstance(config, LeaderPolicy) else LeaderPolicy.of(config)
    append = _Append(data, analyzed, policy, first_offset, leader_epoch, now_ms, origin)
    if origin is AppendOrigin.STAGED:
        return append.accept_staged()
    first = analyzed.batches.row(0)
    if (first[rows.MAGIC] >= 2 or analyzed.source_codec) and len(analyzed.batches) != 1:
        raise InvalidRecord(f"the append has {len(analyzed.batches)} batches; only 1 is allowed")
    if first[rows.MAGIC] < 2:
        return append.convert(on_rejected)
    return append.accept(first, on_rejected)


class _Append(NamedTuple):
    """One append during validation."""

    data: Buffer
    analyzed: Analyzed
    policy: LeaderPolicy
    first_offset: int
    leader_epoch: int
    now_ms: int
    origin: AppendOrigin

    @property
    def codec(self) -> Codec:
        """The codec in which the batches are stored."""
        source = self.analyzed.source_codec
        return source if self.policy.codec is None else self.policy.codec

    @property
    def append_time_ms(self) -> int:
        """The time of the append if records get it, else -1."""
        is_appended = self.policy.timestamp_type is TimestampType.LOG_APPEND_TIME
        return self.now_ms if is_appended else NO_TIMESTAMP

    def rules(self, on_rejected: Callable[[Rejection, int], None]) -> RecordRules:
        """Return the topic's rules for records at the time of the append."""
        return RecordRules.of(self.policy, self.now_ms, on_rejected)

    def accept(
        self, row: list[int], on_rejected: Callable[[Rejection, int], None]
    ) -> ValidatedRecords:
        """Accept the one batch of magic 2, changed in place if possible."""
        if self.origin is AppendOrigin.CLIENT:
            _check_client_batch(row, on_rejected)
        source = self.analyzed.source_codec
        data = as_bytes(self.data)
        if source is Codec.NONE:
            areas = area_of(row)
        else:
            data, areas = _unpacked(data, self.analyzed.batches)
        summary = check_area(data, areas, self.rules(on_rejected))
        is_marker = source is Codec.NONE and row[rows.ATTRIBUTES] & BatchFlags.CONTROL
        needs_dense = source is not Codec.NONE or self.origin is AppendOrigin.CLIENT
        if is_marker or (source is self.codec and (summary.is_dense or not needs_dense)):
            return self._in_place(row, summary.max_timestamp)
        decoded = decode_areas(data, areas, self.analyzed.batches.position)
        return self._built(RecordColumns(decoded, data, self.analyzed.batches), row)

    def _in_place(self, row: list[int], max_timestamp: int) -> ValidatedRecords:
        if self.append_time_ms != NO_TIMESTAMP:
            max_timestamp = self.append_time_ms
        count = row[rows.RECORDS_COUNT]
        data = bytearray(byte_view(self.data)[: row[rows.SIZE]])
        next_offset = self.first_offset + count
        row[rows.BASE_OFFSET] += next_offset - 1 - row[rows.LAST_OFFSET]
        row[rows.LAST_OFFSET] = next_offset - 1
        row[rows.LEADER_EPOCH] = self.leader_epoch
        stamp_in_place(data, row, self.policy.timestamp_type, max_timestamp)
        return self._done(data, BatchColumns.of_rows([row]), count, max_timestamp)

    def _built(self, columns: RecordColumns, first: list[int]) -> ValidatedRecords:
        """Build one batch of all records, with the producer fields of the ``first`` batch."""
        attributes = first[rows.ATTRIBUTES] if first[rows.MAGIC] >= 2 else 0
        spec = BatchSpec(
            base_offset=self.first_offset,
            leader_epoch=self.leader_epoch,
            codec=self.codec,
            level=self.policy.level,
            timestamp_type=self.policy.timestamp_type,
            max_timestamp=None if self.append_time_ms == NO_TIMESTAMP else self.append_time_ms,
            producer_id=first[rows.PRODUCER_ID],
            producer_epoch=first[rows.PRODUCER_EPOCH],
            base_sequence=first[rows.BASE_SEQUENCE],
            transactional=bool(attributes & BatchFlags.TRANSACTIONAL),
            control=bool(attributes & BatchFlags.CONTROL),
        )
        data = rebuild(columns, spec)
        batches = walk(data).batches
        greatest = int(batches.max_timestamp.max(initial=NO_TIMESTAMP))
        done = self._done(data, batches, len(columns), greatest)
        return done._replace(are_sizes_changed=True)

    def convert(self, on_rejected: Callable[[Rejection, int], None]) -> ValidatedRecords:
        """Accept batches of magic 0 or 1 and build one of magic 2 from all their records."""
        view, rules = byte_view(self.data), self.rules(on_rejected)
        headers = self.analyzed.batches.array.T.tolist()
        magic = headers[0][rows.MAGIC]
        for row in headers:
            position, size = row[rows.POSITION], row[rows.SIZE]
            if row[rows.MAGIC] != magic:
                on_rejected(Rejection.INVALID_MAGIC_NUMBER, 1)
                reason = f"a batch of magic {row[rows.MAGIC]} follows one of magic {magic}"
                raise InvalidRecord(reason, position)
            check_legacy(legacy.expand(view, position, size, check_inner=True), magic, rules)
        return self._built(decode(self.data, self.analyzed.batches), headers[0])

    def accept_staged(self) -> ValidatedRecords:
        """Assign consecutive offsets to batches that were validated before."""
        data = self.data
        if not isinstance(data, bytearray) or len(data) != self.analyzed.valid_bytes:
            data = bytearray(byte_view(data)[: self.analyzed.valid_bytes])
        batches = BatchColumns(self.analyzed.batches.array.copy())
        next_offset = stamp_offsets(data, batches, self.first_offset, self.leader_epoch)
        greatest = self.analyzed.max_timestamp
        if self.append_time_ms != NO_TIMESTAMP:
            greatest = self.append_time_ms
            stamp_append_time(data, batches, greatest)
        return self._done(data, batches, next_offset - self.first_offset, greatest)

    def _done(
        self, data: Buffer, batches: BatchColumns, offsets: int, max_timestamp: int
    ) -> ValidatedRecords:
        return ValidatedRecords(
            data,
            batches,
            self.first_offset + offsets,
            max_timestamp,
            self.append_time_ms,
            are_sizes_changed=False,
        )


def _unpacked(data: Bytes, batches: BatchColumns) -> tuple[Bytes, Ints]:
    """Decompress a batch whose CRC is right: its producer has sent these bytes.

    So it would only send them again, which clients do by themselves after CorruptMessage.
    """
    try:
        return Unpacked(data, batches).areas()
    except CorruptMessage as error:
        raise InvalidRecord(error.reason, error.position) from error


def _check_client_batch(row: list[int], on_rejected: Callable[[Rejection, int], None]) -> None:
    """Raise InvalidRecord for a batch of magic 2 that a client may not send."""
    attributes, count = row[rows.ATTRIBUTES], row[rows.RECORDS_COUNT]
    offsets = row[rows.LAST_OFFSET] - row[rows.BASE_OFFSET] + 1
    if count <= 0 or offsets != count:
        reason = f"a batch of {count} records spans {offsets} offsets"
    elif attributes & BatchFlags.CONTROL:
        reason = "clients may not write control records"
    elif row[rows.PRODUCER_ID] >= 0 and row[rows.BASE_SEQUENCE] < 0:
        reason = f"producer {row[rows.PRODUCER_ID]} sent base sequence {row[rows.BASE_SEQUENCE]}"
    else:
        return
    on_rejected(Rejection.INVALID_OFFSET_OR_SEQUENCE, 1)
    raise InvalidRecord(reason, row[rows.POSITION])
