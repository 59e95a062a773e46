"""Records written as lines of JSON.

The text between the values, the line template, comes from the caller
(``records/json/json_lines.py``), whose plain form of a record is the reference. The kernel stops
before a record that it cannot write, such as one with a header's name that is not valid UTF-8, and
the caller writes it in plain code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernels.json.json_text import (
    BASE64,
    MOST_DIGITS,
    MOST_EXPANSION,
    SPARE_BYTES,
    UTF8,
    write_number,
    write_text,
)
from tidelog.kernels.record_kernel import headers_end, read_header
from tidelog.kernels.rows import (
    AREA,
    BAD_ARGUMENT,
    FULL,
    HEADERS_AT,
    HEADERS_COUNT,
    KEY_AT,
    KEY_SIZE,
    OFFSET,
    OK,
    RECORD_COLUMNS,
    TIMESTAMP,
    VALUE_AT,
    VALUE_SIZE,
)
from tidelog.kernels.runtime.intrinsics import (
    address_of,
    copy_exact,
    number,
    shift_left,
    store8,
    store64,
)
from tidelog.kernels.runtime.jit import (
    BYTES,
    INT64S,
    TABLE,
    WRITABLE_BYTES,
    called,
    inlined,
    kernel,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NOT_PLAIN: Final = 3
"""The status that leaves the next record to plain code."""

# The line template: piece ``n`` is ``template[ends[n]:ends[n + 1]]``.
BEFORE_OFFSET: Final = 0
BEFORE_TIMESTAMP: Final = 1
BEFORE_KEY: Final = 2
"""The first of three pieces: for CREATE_TIME, for LOG_APPEND_TIME, and for no timestamp type."""
BEFORE_VALUE: Final = 5
BEFORE_HEADERS: Final = 6
BEFORE_EPOCH: Final = 7
LINE_END: Final = 8
"""The first of four pieces: for key and value as chosen, the key, the value, and both in base64."""
MARK: Final = 12
"""The first of two pieces that follow a header's value: as chosen, and in base64."""
BASE64_SIGNS: Final = 14
PIECES: Final = 15

BASE64_LETTERS: Final = 64
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

_NULL: Final = 0x6C6C756E
_QUOTE: Final = 0x22
_HEADER_BYTES: Final = 26
"""Greatest size of the punctuation around a header's strings, and of the mark of an encoding."""
_NUMBERS_BYTES: Final = 3 * MOST_DIGITS + 2 * _HEADER_BYTES + SPARE_BYTES
"""Greatest size of a record's numbers and of the punctuation around key and value."""
_SIZE_SHIFT: Final = 31
_START_MASK: Final = (1 << _SIZE_SHIFT) - 1
_LEAST: Final = -(2**63)
"""The one int64 that cannot be negated."""


class _Context(NamedTuple):
    """What all records share: addresses of the data's end and of base64's characters, encodings."""

    end: int
    signs: int
    encoding: int
    names: int
    """The encoding of header names."""


class _Template(NamedTuple):
    """The line template: its address, then start and size of each piece packed into one number."""

    first: int
    before_offset: int
    before_timestamp: int
    before_key_created: int
    before_key_appended: int
    before_key: int
    before_value: int
    before_headers: int
    before_epoch: int
    line_end: int
    line_end_key: int
    line_end_value: int
    line_end_both: int
    mark: int
    mark_base64: int


class _Fields(NamedTuple):
    """One record: its numbers, and its key, value and headers by address; a size of -1 is null."""

    offset: int
    timestamp: int
    kind: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    headers: int
    epoch: int


@called
def _text(target: int, source: int, size: int, encoding: int, context: _Context) -> int:
    """Write a string with its quotes, or null; return the address after it, 0 if not valid text."""
    if size < 0:
        store64(target, _NULL)
        return target + 4
    store8(target, _QUOTE)
    end = write_text(target + 1, source, size, context.end - source, encoding, context.signs)
    if end == 0:
        return 0
    store8(end, _QUOTE)
    return end + 1


@called
def _copy(target: int, template: _Template, piece: int) -> int:
    """Copy a piece of the template; return the address after it."""
    size = piece >> _SIZE_SHIFT
    copy_exact(target, template.first + (piece & _START_MASK), size)
    return target + size


@called
def _header_value(
    target: int, source: int, size: int, context: _Context, template: _Template
) -> int:
    """Write a header's value and how it is written; return the address after it."""
    end = _text(target, source, size, context.encoding, context)
    if end == 0:
        end = _text(target, source, size, number(BASE64), context)
        return _copy(end, template, template.mark_base64)
    return end if size < 0 else _copy(end, template, template.mark)


@called
def _headers(target: int, at: int, count: int, context: _Context, template: _Template) -> int:
    """Write headers as lists; return the address after, 0 if a name is not valid text."""
    for index in range(count):
        name_at, name_size, value_at, value_size = read_header(at, context.end)
        if index:
            store8(target, 0x2C)
            store8(target + 1, 0x20)
            target += 2
        store8(target, 0x5B)
        target = _text(target + 1, name_at, name_size, context.names, context)
        if target == 0:
            return 0
        store8(target, 0x2C)
        store8(target + 1, 0x20)
        target = _header_value(target + 2, value_at, value_size, context, template)
        store8(target, 0x5D)
        target += 1
        at = value_at + max(value_size, 0)
    return target


@inlined
def _before_key(kind: int, template: _Template) -> int:
    if kind == CREATE_TIME:
        return template.before_key_created
    return template.before_key_appended if kind == LOG_APPEND_TIME else template.before_key


@inlined
def _line_end(key_end: int, value_end: int, template: _Template) -> int:
    """Return the piece that ends a line; the end of a text is 0 if that is written in base64."""
    if key_end:
        return template.line_end if value_end else template.line_end_value
    return template.line_end_key if value_end else template.line_end_both


@called
def _line(at: int, record: _Fields, context: _Context, template: _Template) -> int:
    """Write one record; return the address after it, 0 if a header's name is not valid text."""
    at = write_number(_copy(at, template, template.before_offset), record.offset)
    at = write_number(_copy(at, template, template.before_timestamp), record.timestamp)
    at = _copy(at, template, _before_key(record.kind, template))
    key_end = _text(at, record.key_at, record.key_size, context.encoding, context)
    if key_end == 0:
        at = _text(at, record.key_at, record.key_size, number(BASE64), context)
    at = _copy(key_end or at, template, template.before_value)
    value_end = _text(at, record.value_at, record.value_size, context.encoding, context)
    if value_end == 0:
        at = _text(at, record.value_at, record.value_size, number(BASE64), context)
    at = _copy(value_end or at, template, template.before_headers)
    if record.headers:
        at = _headers(at, record.headers_at, record.headers, context, template)
        if at == 0:
            return 0
    at = _copy(at, template, template.before_epoch)
    if record.epoch < 0:
        store64(at, _NULL)
        at += 4
    else:
        at = write_number(at, record.epoch)
    return _copy(at, template, _line_end(key_end, value_end, template))


@inlined
def _is_inside(at: int, size: int, data_size: int) -> bool:
    return size < 0 or 0 <= at <= data_size - size


@inlined
def _headers_bytes(start: int, data_size: int, at: int, count: int) -> int:
    """Return the size of a record's headers; negative if they are outside the data."""
    if count == 0:
        return 0
    if count < 0 or not 0 <= at <= data_size:
        return -1
    end = headers_end(start + at, start + data_size, count)
    return end - start - at if end else -1


@inlined
def _most_bytes(record: _Fields, headers_bytes: int) -> int:
    """Return the greatest size of a record's line, without the template."""
    texts = max(record.key_size, 0) + max(record.value_size, 0) + headers_bytes
    return texts * MOST_EXPANSION + record.headers * _HEADER_BYTES + _NUMBERS_BYTES


@called
def _is_template(template_size: int, ends: npt.NDArray[np.int64]) -> bool:
    """Return whether the template has the expected number of contiguous pieces."""
    if ends.size != PIECES + 1 or ends[0] != 0 or ends[PIECES] > template_size:
        return False
    for index in range(PIECES):
        if ends[index] > ends[index + 1]:
            return False
    return bool(ends[BASE64_SIGNS + 1] - ends[BASE64_SIGNS] == BASE64_LETTERS)


@called
def _piece(ends: npt.NDArray[np.int64], n: int) -> int:
    return shift_left(ends[n + 1] - ends[n], _SIZE_SHIFT) | number(ends[n])


@called
def _template_of(first: int, ends: npt.NDArray[np.int64]) -> _Template:
    return _Template(
        first,
        _piece(ends, number(BEFORE_OFFSET)),
        _piece(ends, number(BEFORE_TIMESTAMP)),
        _piece(ends, number(BEFORE_KEY)),
        _piece(ends, number(BEFORE_KEY + 1)),
        _piece(ends, number(BEFORE_KEY + 2)),
        _piece(ends, number(BEFORE_VALUE)),
        _piece(ends, number(BEFORE_HEADERS)),
        _piece(ends, number(BEFORE_EPOCH)),
        _piece(ends, number(LINE_END)),
        _piece(ends, number(LINE_END + 1)),
        _piece(ends, number(LINE_END + 2)),
        _piece(ends, number(LINE_END + 3)),
        _piece(ends, number(MARK)),
        _piece(ends, number(MARK + 1)),
    )


@kernel(
    f"UniTuple(int64, 3)({BYTES}, {TABLE}, {BYTES}, {INT64S}, {BYTES}, {INT64S}, int64, int64,"
    f" {WRITABLE_BYTES})"
)
def write_lines(
    data: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int64],
    types: npt.NDArray[np.uint8],
    epochs: npt.NDArray[np.int64],
    template: npt.NDArray[np.uint8],
    ends: npt.NDArray[np.int64],
    encoding: int,
    first: int,
    out: npt.NDArray[np.uint8],
) -> tuple[int, int, int]:
    """Write the records from column ``first`` of ``table`` on as lines into ``out``.

    ``types`` holds each record's timestamp type, ``epochs`` each area's leader epoch. Returns a
    status, the next column and the bytes written. FULL: ``out`` may be too small for the next
    record. NOT_PLAIN: plain code has to write the next record. BAD_ARGUMENT: its positions are
    outside the data.
    """
    count, size, begin, start = table.shape[1], data.size, address_of(out), address_of(data)
    if table.shape[0] != RECORD_COLUMNS or types.size < count or first < 0:
        return BAD_ARGUMENT, first, 0
    if template.size > _START_MASK or not _is_template(template.size, ends):
        return BAD_ARGUMENT, first, 0
    template_at = address_of(template)
    context = _Context(start + size, template_at + ends[BASE64_SIGNS], encoding, number(UTF8))
    pieces = _template_of(template_at, ends)
    target = begin
    for row in range(first, count):
        area, headers_at = table[AREA, row], table[HEADERS_AT, row]
        headers_bytes = _headers_bytes(start, size, headers_at, table[HEADERS_COUNT, row])
        if headers_bytes < 0 or not 0 <= area < epochs.size:
            return BAD_ARGUMENT, row, target - begin
        key_at, value_at = table[KEY_AT, row], table[VALUE_AT, row]
        record = _Fields(
            table[OFFSET, row],
            table[TIMESTAMP, row],
            number(types[row]),
            start + key_at,
            table[KEY_SIZE, row],
            start + value_at,
            table[VALUE_SIZE, row],
            start + headers_at,
            table[HEADERS_COUNT, row],
            epochs[area],
        )
        if not _is_inside(key_at, record.key_size, size):
            return BAD_ARGUMENT, row, target - begin
        if not _is_inside(value_at, record.value_size, size):
            return BAD_ARGUMENT, row, target - begin
        if _most_bytes(record, headers_bytes) + ends[PIECES] > begin + out.size - target:
            return FULL, row, target - begin
        end = 0
        if min(record.offset, record.timestamp) > _LEAST:
            end = _line(target, record, context, pieces)
        if end == 0:
            return NOT_PLAIN, row, target - begin
        target = end
    return OK, count, target - begin
