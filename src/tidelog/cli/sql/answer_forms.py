"""The forms in which ``tidelog sql`` prints rows."""

from __future__ import annotations

import json
import math
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.cat.record_forms import BINARY_FORMS, csv_cell
from tidelog.cli.output_file import Unframed
from tidelog.cli.terminal import json_line, table
from tidelog.codec.json_value import exact_number
from tidelog.explain.printable_text import printable
from tidelog.records.json.json_record import Encoding, bytes_as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from tidelog.arrow.file_bytes import FileBytes

_PAGE_ROWS: Final = 1000
"""Rows whose columns are aligned with one another."""
_NUMBERS: Final = ("int", "uint", "float", "double", "decimal", "half")
_US_PER_MS: Final = 1000


def open_form(form: str, schema: pa.Schema) -> FileBytes:
    """Return what writes rows in a form."""
    if form in BINARY_FORMS:
        from tidelog.arrow.file_bytes import FORMS

        return FORMS[form](schema)
    if form == "text":
        return TextRows(schema)
    return JsonRows(schema) if form == "json" else CsvRows(schema)


class JsonRows(Unframed):
    """A line of JSON for each row, which names columns and members whose bytes are not UTF-8.

    A name that several columns have, as after a join, is followed by ``_1`` in the second one.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._names = _told_apart(schema.names)

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the lines of some rows."""
        return "".join(json_line(row) + "\n" for row in self._objects(batch)).encode()

    def _objects(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        for values in _rows(batch):
            yield _members(zip(self._names, values, strict=True))


class CsvRows(Unframed):
    """A line of names, then a line for each row: null is empty, and empty text is quoted."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = schema.names

    def head(self) -> bytes:
        """Return the names."""
        return self._line(self._names)

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the lines of some rows."""
        return b"".join(self._line([_text(value) for value in row]) for row in _rows(batch))

    @staticmethod
    def _line(cells: list[str | None]) -> bytes:
        return (",".join(map(csv_cell, cells)) + "\n").encode()


class TextRows(Unframed):
    """Aligned columns; the names stand above the first rows, aligned with them. ``-`` is null."""

    def __init__(self, schema: pa.Schema) -> None:
        self._title = [tuple(map(printable, schema.names))]
        are_numbers = [str(one.type).startswith(_NUMBERS) for one in schema]
        self._words = (*are_numbers, True).index(True)

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the lines of some rows."""
        return "".join(
            self._page(batch.slice(start, _PAGE_ROWS)) for start in range(0, len(batch), _PAGE_ROWS)
        ).encode()

    def end(self) -> bytes:
        """Return the names if there was no row."""
        return table(self._title, names=self._words).encode() if self._title else b""

    def _page(self, batch: pa.RecordBatch) -> str:
        cells = [tuple(printable(_text(one) or "") or "-" for one in row) for row in _rows(batch)]
        title, self._title = self._title, []
        return table([*title, *cells], names=self._words)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield rows of values that JSON has, or bytes."""
    return zip(*map(_column, batch.columns), strict=True)


def _told_apart(names: list[str]) -> list[str]:
    """Return names of which none is there twice: of two members of JSON, readers keep one."""
    told: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in count(1))
        is_free = name not in told
        told.append(name if is_free else next(one for one in others if one not in {*names, *told}))
    return told


def _column(column: pa.Array) -> list[Any]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):  # a time after the year 9999, which a log may hold
        values = [_scalar(one) for one in column]
    return list(map(_map if str(column.type).startswith("map<") else _plain, values))


def _scalar(scalar: Any) -> Any:  # noqa: ANN401 - whatever a query gives
    """Return the value of one scalar, also of a time that Python does not have: as the number."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        values = getattr(scalar, "values", None)
        if callable(values):
            return {name: _scalar(one) for name, one in scalar.items()}
        return scalar.value if values is None else [_scalar(one) for one in values]


def _map(pairs: Any) -> dict[str, Any] | None:  # noqa: ANN401 - as above
    if pairs is None:
        return None
    members = (pair.values() if isinstance(pair, dict) else pair for pair in pairs)
    return {_text(_inner(name)) or "": _inner(one) for name, one in members}


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a query gives
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime):
        is_short = value.microsecond % _US_PER_MS == 0
        text = value.isoformat(timespec="milliseconds" if is_short else "microseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, dict):
        return _members((name, _plain(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return [_inner(one) for one in value]
    return str(value)  # dates, times, intervals, ids


def _members(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with these members, and some that name what bytes are not UTF-8."""
    members, encodings = {}, {}
    for name, value in values:
        members[name] = value
        if isinstance(value, bytes):
            members[name], used = bytes_as_text(value, Encoding.UTF8)
            if used is not Encoding.UTF8:
                encodings[f"{name}Encoding"] = str(used)
    return members | encodings


def _number(value: Decimal) -> int | float | str:
    """Return a number of the same value; as text if it has more digits than one of 64 bits."""
    number = exact_number(value)
    return str(value) if number is None else number


def _inner(value: Any) -> Any:  # noqa: ANN401 - as above
    plain = _plain(value)
    return bytes_as_text(plain, Encoding.UTF8)[0] if isinstance(plain, bytes) else plain


def _text(value: Any) -> str | None:  # noqa: ANN401 - as above
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return json.dumps(value, ensure_ascii=False)
