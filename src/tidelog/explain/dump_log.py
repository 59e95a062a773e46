"""Decodes a ``.log`` file: each batch header and, on request, each record.

Kafka: ``DumpLogSegments``, which has the same field names.
"""

from __future__ import annotations

import json
import os
from codecs import iterdecode
from contextlib import closing, suppress
from itertools import chain, compress, repeat
from json.encoder import encode_basestring
from operator import or_
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.compression import Codec
from tidelog.codec.json_value import embedded, json_text
from tidelog.codec.layout import byte_view
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    InvalidRecord,
    MessageTooLarge,
    TidelogError,
)
from tidelog.explain.internal_records import InternalTopic, decode_record
from tidelog.readonly.read_only_segment import HintedOffsets, read_hints
from tidelog.records.batch import INT64_MAX, BatchFlags, TimestampType
from tidelog.records.control import CONTROL_KEY, ControlType, control_type, parse_marker
from tidelog.records.decoding.bounded_decode import LARGE_BYTES, decode_bounded
from tidelog.records.decoding.record_columns import decode
from tidelog.records.file_records import FileRecords
from tidelog.records.json.json_record import Encoding, headers_as_text, parts_as_text
from tidelog.records.kraft import parse_kraft
from tidelog.records.legacy import expand
from tidelog.records.record import Record
from tidelog.records.scan import crc_matches
from tidelog.segment.filenames import is_log_file, offset_from_file_name, offset_index_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.env.files import FileSystem
    from tidelog.records.array_rows import Bools, Bytes
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.decoding.record_columns import RecordColumns

    Row = dict[str, Any]
    Text = str | Iterator[str]
    """JSON, in pieces where it is large: an escape is up to six times as long as what it means."""


_PIECE_BYTES: Final = 1 << 20
"""A larger value is printed in pieces of this size."""


class _Form(NamedTuple):
    """How keys and values are shown, of the records with offsets in ``[start, end)``."""

    encoding: Encoding
    topic: InternalTopic | None
    start_offset: int
    end_offset: int
    is_text: bool
    """Whether records of plain text are yielded as JSON."""


def dump_log(
    fs: FileSystem,
    path: str,
    *,
    records: bool = False,
    start_offset: int = 0,
    end_offset: int | None = None,
    encoding: Encoding = Encoding.UTF8,
    topic: InternalTopic | None = None,
    as_text: bool = False,
) -> Iterator[Row | Text]:
    """Yield a row per batch with offsets in ``[start, end)``, each followed by its records there.

    The offset index, if there is one, is used to skip what is before the range.

    Args:
        fs: contains the file.
        path: of the file.
        records: whether to yield records, not only batches.
        start_offset: inclusive.
        end_offset: exclusive; None for the end of the file.
        encoding: of keys and values of records, base64 where they are not in this one; a row says
            which, unless it is text. With ``JSON`` a record whose value is JSON is yielded as JSON.
        topic: whose records keys and values are, to be shown as objects; None: as text.
        as_text: whether the row of a record may be yielded as JSON, which is faster, in pieces if
            its value is large; one that has an error never is.

    Raises:
        CorruptMessage: bytes that are not a valid batch, with path and position; raised after the
            rows before them.
    """
    end = INT64_MAX if end_offset is None else end_offset
    is_text = as_text and topic is None and encoding is Encoding.UTF8
    form = _Form(encoding, topic, start_offset, end, is_text) if records else None
    with FileRecords.open(fs, path) as file:
        for piece in file.pieces(start=_position_for(fs, path, start_offset)):
            in_data = piece.batches_in_data
            for index, position in enumerate(piece.batches.position.tolist()):
                batch = in_data.slice(index, index + 1)
                if batch.first_offset >= end:
                    return
                if int(batch.last_offset[0]) >= start_offset:
                    yield from _rows(piece.data, batch, position, form)
        if file.error is not None:
            raise file.error
        if file.trailing_bytes:
            reason = f"the last {file.trailing_bytes} bytes are not a complete batch"
            raise CorruptMessage(reason, file.next_position, path)


def _position_for(fs: FileSystem, path: str, start_offset: int) -> int:
    """Return the position to begin at, by the offset index of the same segment; 0 without one."""
    name = os.path.basename(path)
    if start_offset <= 0 or not is_log_file(name):
        return 0
    try:
        base_offset = offset_from_file_name(name)
    except InvalidArgument:
        return 0
    hints = read_hints(fs, offset_index_file(os.path.dirname(path), base_offset), base_offset)
    with closing(fs.open(path)) as file:
        return HintedOffsets(file, base_offset, hints).lookup(start_offset).position


def _rows(
    data: Bytes, batch: BatchColumns, position: int, form: _Form | None
) -> Iterator[Row | Text]:
    """Yield the batch's row and, with a form, its records' rows."""
    row = _batch_row(data, batch, position)
    whole: RecordColumns | None = None
    parts: Iterable[RecordColumns] = ()
    if row["valid"]:
        try:
            # Headers of magic 0 and 1 have no record count, and those of control batches no type.
            if row["magic"] < 2 or row["control"]:
                parts = [whole := decode(data, batch)]
            elif form is not None:
                parts = _parts(data, batch)
        except TidelogError as error:
            row["error"] = str(error)
    if whole is not None and row["magic"] < 2 and len(whole):
        row["baseOffset"], row["count"] = int(whole.offset[0]), len(whole)
    if whole is not None and row["control"] and len(whole):
        *_, last = whole.records()
        row["controlType"] = _control_number(last)
    yield row
    if form is not None:
        for columns in parts:
            yield from _record_rows(columns, data, batch, form, is_control=row["control"])


def _parts(data: Bytes, batch: BatchColumns) -> Iterable[RecordColumns]:
    """Return the records of a batch, in parts if they are large."""
    try:
        return [decode(data, batch, limit=LARGE_BYTES)]
    except MessageTooLarge:
        # Once without a look at them: the row of a batch says its error before any record comes.
        for _ in decode_bounded(data, batch):
            pass
        return decode_bounded(data, batch)


def _record_rows(
    columns: RecordColumns, data: Bytes, batch: BatchColumns, form: _Form, *, is_control: bool
) -> Iterator[Row | Text]:
    """Yield the rows of records, of those that were asked for."""
    chosen = (columns.offset >= form.start_offset) & (columns.offset < form.end_offset)
    is_legacy = int(batch.magic[0]) < 2
    checksums = _checksums(data, batch, chosen) if is_legacy else []
    columns = columns if chosen.all() else columns.select(chosen)
    if form.is_text and not is_legacy and not is_control:
        yield from _texts(columns, form)
        return
    if form.encoding is Encoding.JSON and form.topic is None and not is_control:
        yield from _with_json(columns, form, checksums)
        return
    rows = (_record_row(record, form, is_control=is_control) for record in columns.records())
    yield from map(or_, rows, checksums) if checksums else rows


def _checksums(data: Bytes, batch: BatchColumns, chosen: Bools) -> list[Row]:
    """Return the CRC of each chosen record of a batch of magic 0 or 1."""
    position, size = int(batch.position[0]), int(batch.size[0])
    found = compress(
        expand(byte_view(data), position, size, check_inner=True).records, chosen.tolist()
    )
    return [{"crc": record.crc, "valid": record.crc_matches} for record in found]


def _texts(columns: RecordColumns, form: _Form) -> Iterator[Row | Text]:
    """Yield records by a template, except the few whose row has more than plain text."""
    for record in columns.records():
        text: Text | None = None
        with suppress(UnicodeDecodeError):
            text = None if record.headers else _text(record)
        yield _record_row(record, form, is_control=False) if text is None else text


def _with_json(columns: RecordColumns, form: _Form, checksums: list[Row]) -> Iterator[Row | str]:
    """Yield records; of a wrong checksum as rows, so that the damage is seen."""
    for record, checksum in zip(columns.records(), checksums or repeat({}), strict=False):
        row = _record_row(record, form, is_control=False) | checksum
        text = json_text(record.value) if row.get("valid", True) else None
        if text is None:
            yield row
        else:
            row |= {"value": None, "valueEncoding": str(Encoding.JSON)}
            yield embedded(json.dumps(row, ensure_ascii=False), text)


def _text(record: Record) -> Text:
    """Return the row of a record of plain text, without headers, as JSON."""
    offset, timestamp, kind, key, value, _, _, sequence = record
    before = _BEFORE_VALUE % (
        *(offset, timestamp, kind.kafka_name),
        *(-1 if key is None else len(key), -1 if value is None else len(value), sequence),
        "null" if key is None else encode_basestring(key.decode()),
    )
    if value is None:
        return f"{before}null{_AFTER_VALUE}"
    if len(value) <= _PIECE_BYTES:
        return before + encode_basestring(value.decode()) + _AFTER_VALUE
    for _ in _pieces_of(value):
        pass  # raises before any of it is printed
    pieces = (encode_basestring(text)[1:-1] for text in _pieces_of(value))
    return chain([f'{before}"'], pieces, [f'"{_AFTER_VALUE}'])


def _pieces_of(value: bytes) -> Iterator[str]:
    """Return the text of a value in pieces; raises UnicodeDecodeError."""
    starts = range(0, len(value), _PIECE_BYTES)
    return iterdecode((value[at : at + _PIECE_BYTES] for at in starts), "utf-8")


def _batch_row(data: Bytes, batch: BatchColumns, position: int) -> Row:
    header = batch.header(0)
    has_type = header.magic > 0
    log_append = bool(batch.is_log_append_time[0])
    kind = TimestampType(int(log_append)) if has_type else TimestampType.NO_TIMESTAMP_TYPE
    horizon = header.base_timestamp if batch.has_delete_horizon[0] else None
    return {
        "position": position,
        "size": int(batch.size[0]),
        "baseOffset": header.base_offset,
        "lastOffset": int(batch.last_offset[0]),
        "count": header.records_count,
        "magic": header.magic,
        "compression": _codec_name(header.attributes),
        "timestampType": kind.kafka_name,
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": int(batch.last_sequence[0]),
        "leaderEpoch": header.leader_epoch,
        "transactional": bool(batch.is_transactional[0]),
        "control": bool(batch.is_control[0]),
        "controlType": None,
        "deleteHorizonMs": horizon,
        "crc": header.crc,
        "valid": crc_matches(data, batch.array[:, 0].tolist()),
    }


def _codec_name(attributes: int) -> str:
    try:
        return Codec.of_attributes(attributes).kafka_name
    except TidelogError:
        return f"unknown ({attributes & BatchFlags.CODEC})"


def _control_number(record: Record) -> int | None:
    """Return the type number in the key, even if unknown; None if the key is too short."""
    key = record.key or b""
    return CONTROL_KEY.unpack(key).type if len(key) >= CONTROL_KEY.size else None


def _record_row(record: Record, form: _Form, *, is_control: bool) -> Row:
    offset, timestamp, kind, key, value, headers, _, sequence = record
    encoding = form.encoding
    row: Row = {
        "offset": offset,
        "timestamp": timestamp,
        "timestampType": kind.kafka_name,
        "keySize": -1 if key is None else len(key),
        "valueSize": -1 if value is None else len(value),
        "sequence": sequence,
    }
    if is_control:
        row |= _control_fields(record)
    elif form.topic is not None:
        row |= _decoded(form.topic, record)
    else:
        row |= parts_as_text(record, encoding)
    row["headers"] = headers_as_text(record, encoding.of_texts) if headers else []
    return row


_ROW: Final = _record_row(
    Record(0, 0, TimestampType.CREATE_TIME, None, None),
    _Form(Encoding.UTF8, None, 0, 0, True),
    is_control=False,
)
_FIELDS: Final = ", ".join(
    f'"{name}": ' + {"timestampType": '"%s"', "headers": "[]"}.get(name, "%s") for name in _ROW
)
_BEFORE_VALUE, _AFTER_VALUE = f"{{{_FIELDS}}}".rsplit("%s", 1)
"""A row of ``_record_row`` as JSON, with places for what differs between records."""


def _decoded(topic: InternalTopic, record: Record) -> Row:
    """Return key and value as objects; ``error``, and both in base64, if they are none."""
    try:
        return decode_record(topic, record)
    except InvalidRecord as invalid:
        return parts_as_text(record, Encoding.BASE64) | {"error": str(invalid)}


def _control_fields(record: Record) -> Row:
    """Return the fields of a control record; ``error`` if it cannot be decoded."""
    try:
        kind = control_type(record.key)
        if kind in {ControlType.ABORT, ControlType.COMMIT}:
            epoch = parse_marker(record.key, record.value).coordinator_epoch
            return {"controlType": kind.name, "coordinatorEpoch": epoch}
        if kind is ControlType.UNKNOWN:
            return {"controlType": kind.name}
        return {"controlType": kind.name, "control": parse_kraft(kind, record.value)}
    except TidelogError as error:
        return {"error": str(error)}
