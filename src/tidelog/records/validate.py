"""What a leader accepts: batch rules, record rules, and the offsets it assigns.

Owns the choice between changing a batch in place and building it anew. Must not know logs, files or
producer state; ``analyze`` has checked lengths and CRCs before. Kafka: ``LogValidator``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.codec.compression import Codec
from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument, InvalidRecord
from tidelog.kernels import columns as rows
from tidelog.records import legacy
from tidelog.records.areas import areas_of, decode_areas
from tidelog.records.batch import NO_TIMESTAMP, BatchFlags, TimestampType
from tidelog.records.builder import BatchSpec
from tidelog.records.bulk import rebuild
from tidelog.records.columns import RecordColumns, decode
from tidelog.records.memory import BatchColumns, walk
from tidelog.records.record_rules import RecordRules, check_area, check_legacy, time_limits
from tidelog.records.rejection import Rejection, ignore_rejections
from tidelog.records.stamp import stamp_in_place, stamp_staged
from tidelog.records.table import as_bytes
from tidelog.records.unpacked import Unpacked

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from tidelog.codec.layout import Buffer
    from tidelog.config.log import LogConfig
    from tidelog.records.analyze import Analyzed
    from tidelog.records.table import Bytes, Ints


class AppendOrigin(Enum):
    """Who appends; it selects what is checked. Source: Kafka AppendOrigin.

    STAGED is tidelog's own: batches that were validated when they were staged. Several may come in
    one append, and their records are not looked at again.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"
    STAGED = "staged"


_MAX_LIMIT: Final = 2**63 - 1
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderPolicy:
    """What a topic's settings say about batches; ``codec`` None: as the producer sent them."""

    codec: Codec | None = None
    level: int | None = None
    is_compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = _MAX_LIMIT
    timestamp_after_max_ms: int = _HOUR_MS

    @classmethod
    def of(cls, config: LogConfig) -> Self:
        """Take the policy out of a topic's settings."""
        names = {"producer": None, "uncompressed": Codec.NONE}
        name = config.compression_type
        codec = names[name] if name in names else Codec.named(name)
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        is_appended = config.message_timestamp_type == "LogAppendTime"
        return cls(
            codec=codec,
            level=levels.get(codec) if codec is not None else None,
            is_compacted=config.is_compacted,
            timestamp_type=TimestampType(int(is_appended)),
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )


class ValidatedRecords(NamedTuple):
    """Batches as they go into the log, with offsets and leader epoch.

    Positions in ``batches`` are bytes in ``data``. ``next_offset`` is the offset after the last;
    ``max_timestamp`` is in ms, the append time with LogAppendTime. ``are_sizes_changed``: batches
    were built anew, so that a size limit must be checked again. Source: Kafka ValidationResult.
    """

    data: Buffer
    batches: BatchColumns
    next_offset: int
    records_count: int
    max_timestamp: int
    codec: Codec
    are_sizes_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the leader gives to an append: first offset, epoch, and the time it is now."""

    base_offset: int
    leader_epoch: int
    now_ms: int


def validate_for_leader(
    data: Buffer,
    analyzed: Analyzed,
    policy: LeaderPolicy,
    assignment: Assignment,
    *,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    on_rejected: Callable[[Rejection, int], None] = ignore_rejections,
) -> ValidatedRecords:
    """Check the batches and records of an append and give them offsets from the base offset on.

    ``data`` is what ``analyze`` was given and is never changed: batches are changed in place in
    one copy, or built anew where the codec differs, the format is old, or offsets have holes.

    Raises:
        InvalidRecord, InvalidTimestamp: batches or records break a rule; the latter are listed.
        CorruptMessage: compressed bytes, or an inner record of an old batch, are damaged.
        MessageTooLarge: a batch decompresses beyond every bound.
        InvalidArgument: the origin takes offsets as given, or a timestamp below -1 would have to
            be written anew.

    Unlike Kafka, an uncompressed client batch whose offset deltas are not 0, 1, 2 … is built anew
    too, as compressed ones are: a log never holds an offset twice.
    """
    batches = analyzed.batches
    if origin in (AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER) or not len(batches):
        raise InvalidArgument(f"no offsets to assign: {origin.value}, {len(batches)} batches")
    if origin is AppendOrigin.STAGED:
        return _staged(data, analyzed, policy, assignment)
    limits = policy.timestamp_before_max_ms, policy.timestamp_after_max_ms
    rules = RecordRules(
        policy.is_compacted,
        *time_limits(assignment.now_ms, *limits),
        policy.timestamp_type is TimestampType.LOG_APPEND_TIME,
        on_rejected,
    )
    append = _Append(data, analyzed, policy, assignment, origin, rules)
    first = batches.array[:, 0].tolist()
    if (first[rows.MAGIC] >= 2 or analyzed.source_codec) and len(batches) != 1:
        raise InvalidRecord(f"{len(batches)} batches in an append that may have one")
    return append.convert() if first[rows.MAGIC] < 2 else append.take(first)


class _Append(NamedTuple):
    """One append on its way through validation."""

    data: Buffer
    analyzed: Analyzed
    policy: LeaderPolicy
    assignment: Assignment
    origin: AppendOrigin
    rules: RecordRules

    @property
    def codec(self) -> Codec:
        """The codec to store with."""
        source = self.analyzed.source_codec
        return source if self.policy.codec is None else self.policy.codec

    def take(self, row: list[int]) -> ValidatedRecords:
        """Accept the one batch of magic 2, in place if that will do."""
        if self.origin is AppendOrigin.CLIENT:
            self._check_client_batch(row)
        plain, areas = _plain_area(as_bytes(self.data), self.analyzed.batches)
        summary = check_area(plain, areas, self.rules)
        source = self.analyzed.source_codec
        is_marker = source is Codec.NONE and bool(row[rows.ATTRIBUTES] & BatchFlags.CONTROL)
        needs_dense = source is not Codec.NONE or self.origin is AppendOrigin.CLIENT
        if is_marker or (source is self.codec and (summary.is_dense or not needs_dense)):
            return self._in_place(row, summary.max_timestamp)
        decoded = decode_areas(plain, areas, self.analyzed.batches.position)
        return self._built(RecordColumns(decoded, plain, self.analyzed.batches), row)

    def _check_client_batch(self, row: list[int]) -> None:
        attributes, count = row[rows.ATTRIBUTES], row[rows.RECORDS_COUNT]
        offsets = row[rows.LAST_OFFSET] - row[rows.BASE_OFFSET] + 1
        reason = ""
        if offsets <= 0 or count <= 0 or offsets != count:
            reason = f"a batch of {count} records spans {offsets} offsets"
        elif attributes & BatchFlags.CONTROL:
            reason = "a client may not write control records"
        elif row[rows.PRODUCER_ID] >= 0 and row[rows.BASE_SEQUENCE] < 0:
            reason = f"producer {row[rows.PRODUCER_ID]} sent no sequence"
        if reason:
            self.rules.on_rejected(Rejection.INVALID_OFFSET_OR_SEQUENCE, 1)
            raise InvalidRecord(reason, row[rows.POSITION])

    def _in_place(self, row: list[int], max_timestamp: int) -> ValidatedRecords:
        kind = self.policy.timestamp_type
        if kind is TimestampType.LOG_APPEND_TIME:
            max_timestamp = self.assignment.now_ms
        position, count = row[rows.POSITION], row[rows.RECORDS_COUNT]
        data = bytearray(byte_view(self.data)[position : position + row[rows.SIZE]])
        next_offset = self.assignment.base_offset + count
        row[rows.POSITION] = 0
        row[rows.BASE_OFFSET] += next_offset - 1 - row[rows.LAST_OFFSET]
        row[rows.LAST_OFFSET] = next_offset - 1
        row[rows.LEADER_EPOCH] = self.assignment.leader_epoch
        stamp_in_place(data, row, kind, max_timestamp)
        batches = BatchColumns.of_rows([row])
        codec = self.analyzed.source_codec
        return ValidatedRecords(data, batches, next_offset, count, max_timestamp, codec, False)

    def _built(self, columns: RecordColumns, first: list[int]) -> ValidatedRecords:
        assignment, kind = self.assignment, self.policy.timestamp_type
        is_appended = kind is TimestampType.LOG_APPEND_TIME
        attributes = first[rows.ATTRIBUTES] if first[rows.MAGIC] >= 2 else 0
        spec = BatchSpec(
            base_offset=assignment.base_offset,
            leader_epoch=assignment.leader_epoch,
            codec=self.codec,
            level=self.policy.level,
            timestamp_type=kind,
            max_timestamp=assignment.now_ms if is_appended else None,
            producer_id=first[rows.PRODUCER_ID],
            producer_epoch=first[rows.PRODUCER_EPOCH],
            base_sequence=first[rows.BASE_SEQUENCE],
            transactional=bool(attributes & BatchFlags.TRANSACTIONAL),
            control=bool(attributes & BatchFlags.CONTROL),
        )
        data = rebuild(columns, spec)
        batches = walk(data).batches
        count = len(columns)
        greatest = int(batches.max_timestamp.max(initial=NO_TIMESTAMP))
        next_offset = assignment.base_offset + count
        return ValidatedRecords(data, batches, next_offset, count, greatest, self.codec, True)

    def convert(self) -> ValidatedRecords:
        """Accept batches of magic 0 or 1 and build one of magic 2 from all their records."""
        view = byte_view(self.data)
        headers = self.analyzed.batches.array.T.tolist()
        magic = headers[0][rows.MAGIC]
        for row in headers:
            position, size = row[rows.POSITION], row[rows.SIZE]
            if row[rows.MAGIC] != magic:
                self.rules.on_rejected(Rejection.INVALID_MAGIC_NUMBER, 1)
                reason = f"a batch of magic {row[rows.MAGIC]} follows one of {magic}"
                raise InvalidRecord(reason, position)
            found = legacy.expand(view, position, size, check_inner=True)
            check_legacy(found, magic, self.rules)
        return self._built(decode(self.data, self.analyzed.batches), headers[0])


def _plain_area(data: Bytes, batches: BatchColumns) -> tuple[Bytes, Ints]:
    if batches.codec[0] == Codec.NONE:
        return data, areas_of(batches)
    return Unpacked(data, batches).areas()


def _staged(
    data: Buffer, analyzed: Analyzed, policy: LeaderPolicy, assignment: Assignment
) -> ValidatedRecords:
    """Give consecutive offsets to batches that were validated before."""
    stamped = bytearray(byte_view(data)[: analyzed.valid_bytes])
    batches = BatchColumns(np.ascontiguousarray(analyzed.batches.array).copy())
    is_appended = policy.timestamp_type is TimestampType.LOG_APPEND_TIME
    now_ms = assignment.now_ms
    offsets = assignment.base_offset, assignment.leader_epoch
    next_offset = stamp_staged(stamped, batches, *offsets, now_ms if is_appended else None)
    greatest = now_ms if is_appended else analyzed.max_timestamp
    count = next_offset - assignment.base_offset
    codec = analyzed.source_codec
    return ValidatedRecords(stamped, batches, next_offset, count, greatest, codec, False)
