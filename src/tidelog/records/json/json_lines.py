"""Many records written as lines of JSON, in pieces of some megabytes.

A kernel writes the values into a template, which is cut out of a line from ``json_record``; plain
code writes the records that the kernel cannot.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.errors import InvariantError
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.records.batch import TimestampType
from tidelog.records.json.json_record import TEXT_ENCODINGS, Encoding, record_as_json
from tidelog.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.decoding.record_columns import RecordColumns

OUT_BYTES: Final = 4 << 20
"""Bytes that the kernel writes at a time; a record that may need more is left to plain code."""
_ROW_BYTES: Final = 256
"""Bytes of work that a record counts as in plain code: about 10 us."""
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES: Final = re.compile(
    '(?<="offset": )0|(?<="timestamp": )0|(?<="key": )null|(?<="value": )null'
    '|(?<="headers": \\[)|(?<="leaderEpoch": )null'
)
_BINARY: Final = b"\xff"
_TYPES: Final = (
    TimestampType.CREATE_TIME,
    TimestampType.LOG_APPEND_TIME,
    TimestampType.NO_TIMESTAMP_TYPE,
)


class JsonLines:
    """Writes records of one topic partition as lines of JSON; for use by one thread."""

    def __init__(self, topic: str, partition: int, encoding: Encoding) -> None:
        self._topic = topic
        self._partition = partition
        self._encoding = encoding
        self._template, self._ends = _template_of(topic, partition, encoding.of_texts)
        self._out: Bytes | None = None

    def pieces(self, columns: RecordColumns) -> Iterator[bytes | memoryview]:
        """Yield the records as whole lines; a piece is valid until the next is requested."""
        if not len(columns):
            return
        # Whether a value is JSON, no kernel finds out.
        if self._encoding is not Encoding.JSON and use_kernels(len(columns) * _ROW_BYTES):
            yield from self._compiled(columns)
        else:
            yield from self._plain(columns)

    def _plain(self, columns: RecordColumns) -> Iterator[bytes]:
        lines = (
            record_as_json(self._topic, self._partition, record, self._encoding) + "\n"
            for record in columns.records()
        )
        yield "".join(lines).encode()

    def _compiled(self, columns: RecordColumns) -> Iterator[bytes | memoryview]:
        """Write with the kernel, and in plain code each record at which it stops."""
        from tidelog.kernels.json.record_lines import write_lines  # noqa: PLC0415 - compiles when imported

        if self._out is None:
            self._out = np.empty(OUT_BYTES, np.uint8)
        out = self._out
        table = np.ascontiguousarray(columns.array)
        types = columns.timestamp_type.astype(np.uint8)
        epochs = np.ascontiguousarray(columns.batches.leader_epoch)
        encoding, row = TEXT_ENCODINGS.index(self._encoding), 0
        while row < len(columns):
            status, row, size = write_lines(
                columns.data, table, types, epochs, self._template, self._ends, encoding, row, out
            )
            if status < 0:
                raise InvariantError(f"JSON lines: {rows.STATUS_TEXT[status]}")
            yield out[:size].data
            if row < len(columns) and not (status == rows.FULL and size):
                yield from self._plain(columns.select(np.array([row])))
                row += 1


def _template_of(topic: str, partition: int, encoding: Encoding) -> tuple[Bytes, Ints]:
    """Return the text between values, in the kernel's order, and where each piece ends.

    The pieces are cut out of a line that ``json_record`` writes.
    """
    null = Record(0, 0, _TYPES[0], None, None)
    records = [null._replace(timestamp_type=kind) for kind in _TYPES]
    # What a line ends in depends on which parts are not in the chosen encoding.
    records += [null._replace(key=_BINARY), null._replace(value=_BINARY)]
    records += [null._replace(key=_BINARY, value=_BINARY)]
    lines = [record_as_json(topic, partition, record, encoding) for record in records]
    cut = [_VALUES.split(line) for line in lines[: len(_TYPES)]]
    offset, timestamp, _, value, headers, epoch, end = cut[0]
    keys = [before[2] for before in cut]
    ends = [end, *(line.partition('"leaderEpoch": null')[2] for line in lines[len(_TYPES) :])]
    pieces = [offset, timestamp, *keys, value, headers, epoch, *(f"{one}\n" for one in ends)]
    pieces += ["" if encoding is Encoding.UTF8 else f', "{encoding}"', ', "base64"', _BASE64]
    data = [piece.encode() for piece in pieces]
    positions = np.cumsum([0, *map(len, data)], dtype=np.int64)
    return np.frombuffer(b"".join(data), np.uint8), positions
