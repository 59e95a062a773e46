"""Control records: the markers that end transactions, and the types that KRaft adds.

``kraft`` reads the values of the KRaft types. Kafka: ``ControlRecordType`` and
``EndTransactionMarker``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.layout import Layout, Wire, byte_view
from tidelog.errors import InvalidArgument, InvalidRecord
from tidelog.records.batch import (
    BATCH_HEADER,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    BatchFlags,
)
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import build_batch
from tidelog.records.decoding.to_damage import decode_to_damage
from tidelog.records.scan import batch_row, whole_batch_size

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer
    from tidelog.records.record import Record


class ControlType(IntEnum):
    """The type of a control record, by the number in its key. Source: Kafka ControlRecordType."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlKey(NamedTuple):
    """The key of a control record. Source: Kafka ControlRecordType."""

    version: Annotated[int, Wire("h", "Key format, written 0; a negative one is invalid.")]
    type: Annotated[int, Wire("h", "0 abort, 1 commit, 2 to 6 KRaft.")]


class MarkerValue(NamedTuple):
    """The value of an abort or commit marker. Source: Kafka EndTransactionMarker."""

    version: Annotated[int, Wire("h", "Value format, written 0; a negative one is invalid.")]
    coordinator_epoch: Annotated[int, Wire("i", "Epoch of the transaction coordinator.")]


CONTROL_KEY: Final = Layout(ControlKey)
MARKER_VALUE: Final = Layout(MarkerValue)
assert CONTROL_KEY.size == 4
assert MARKER_VALUE.size == 6

_BEFORE_KEY: Final = b"\x20\0\0\0\x08"
_BEFORE_VALUE: Final = b"\x0c"
_NO_HEADERS: Final = b"\0"
"""The record of a marker around its key and value: 16 bytes, no deltas, 4 bytes, 6 bytes."""
_KEY_AT: Final = len(_BEFORE_KEY)
_KEY_END: Final = _KEY_AT + CONTROL_KEY.size
_VALUE_AT: Final = _KEY_END + len(_BEFORE_VALUE)
_VALUE_END: Final = _VALUE_AT + MARKER_VALUE.size
_MARKER_BYTES: Final = BATCH_HEADER.size + _VALUE_END + len(_NO_HEADERS)
_MARKER_FORM: Final = (_MARKER_BYTES - LOG_OVERHEAD, MAGIC_V2, 1, 0)
"""Its batch: length, magic, one record, whose offset is the last one."""


class EndTxnMarker(NamedTuple):
    """The end of a transaction, as written to the partition by its coordinator."""

    is_commit: bool
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType:
    """Return the type in a control record's key; raise InvalidRecord if the key is malformed."""
    if key is None or len(key) < CONTROL_KEY.size:
        raise InvalidRecord("the key of a control record is cut short")
    parsed = CONTROL_KEY.unpack(key)
    if parsed.version < 0:
        raise InvalidRecord(f"the key of a control record has version {parsed.version}")
    known = parsed.type in ControlType._value2member_map_ and parsed.type >= 0
    return ControlType(parsed.type) if known else ControlType.UNKNOWN


def parse_marker(key: bytes | None, value: bytes | None) -> EndTxnMarker:
    """Read an abort or commit marker.

    Raises:
        InvalidRecord: key or value has a negative version, or the key is cut short.
        InvalidArgument: the record has another type, or its value is cut short. Kafka does not
            treat these as damage: a broker with such a log does not start.
    """
    kind = control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidArgument(f"a control record of type {kind.name} is not a transaction marker")
    if value is None or len(value) < MARKER_VALUE.size:
        raise InvalidArgument("the value of a transaction marker is cut short")
    parsed = MARKER_VALUE.unpack(value)
    if parsed.version < 0:
        raise InvalidRecord(f"the value of a transaction marker has version {parsed.version}")
    return EndTxnMarker(kind is ControlType.COMMIT, parsed.coordinator_epoch)


def first_record(data: Buffer, position: int) -> Record | None:
    """Return the first record of the batch at byte ``position`` of ``data``, None if it is empty.

    Raises InvalidRecord or CorruptMessage if the batch cannot be decoded up to there; as in Kafka,
    what follows is not read.
    """
    view = byte_view(data)
    size = whole_batch_size(view, position, len(view), in_memory=True)
    if not size:
        raise InvalidRecord("a batch is cut short", position)
    batch = BatchColumns.of_rows([batch_row(view, position, size)])
    groups = decode_to_damage(view, batch)
    return next((record for group in groups for record in group.records()), None)


def read_marker(data: Buffer, position: int) -> tuple[int, EndTxnMarker]:
    """Return timestamp (ms) and marker of the control batch at byte ``position`` of ``data``.

    Errors are those of ``parse_marker`` and ``first_record``; InvalidRecord for a batch without
    records.
    """
    view = byte_view(data)
    usual = _usual_marker(view, position)
    if usual is not None:
        return usual
    record = first_record(view, position)
    if record is None:
        raise InvalidRecord("a control batch has no record", position)
    return record.timestamp, parse_marker(record.key, record.value)


def _usual_marker(view: memoryview, position: int) -> tuple[int, EndTxnMarker] | None:
    """Return timestamp and marker of a batch of the bytes that coordinators write.

    None for all others. A recovery may meet 100,000 of them, and the arrays that read any batch
    take most of its time then.
    """
    record = bytes(view[position + BATCH_HEADER.size : position + _MARKER_BYTES])
    if len(record) < _MARKER_BYTES - BATCH_HEADER.size:
        return None
    key, value = record[_KEY_AT:_KEY_END], record[_VALUE_AT:_VALUE_END]
    if record != _BEFORE_KEY + key + _BEFORE_VALUE + value + _NO_HEADERS:
        return None
    header = BATCH_HEADER.unpack(view, position)
    form = header.length, header.magic, header.records_count, header.last_offset_delta
    odd = header.attributes & (BatchFlags.CODEC | BatchFlags.LOG_APPEND_TIME)
    if odd or form != _MARKER_FORM:
        return None
    return header.base_timestamp, parse_marker(key, value)


def build_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    is_commit: bool,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return the batch, 78 bytes, with which a coordinator ends a transaction.

    Source: Kafka MemoryRecords.withEndTransactionMarker.
    """
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    key = CONTROL_KEY.pack(ControlKey(0, kind))
    value = MARKER_VALUE.pack(MarkerValue(0, coordinator_epoch))
    return build_batch(
        [(timestamp, key, value, ())],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
