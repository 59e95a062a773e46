"""The forms in which ``tidelog cat`` prints records."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.cli.extras import needs_extra
from tidelog.cli.output_file import Framed, Unframed
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.json.json_record import Encoding
    from tidelog.records.record import Record

    Write = Callable[[Record], bytes]
    Printer = Callable[[RecordColumns], Iterator[bytes | memoryview]]
    """Yields records as bytes; a piece is valid until the next is requested."""

FORMS: Final = ("json", "text", "raw", "csv", "arrow", "parquet")
BINARY_FORMS: Final = frozenset({"arrow", "parquet"})
CSV_COLUMNS: Final = (
    *("topic", "partition", "offset", "timestamp", "key", "value", "headers"),
    *("keyEncoding", "valueEncoding"),
)
DIRECTIVES: Final = "tpoTkvhKV%"
"""The letters after a percent sign; ``s`` and ``S``, as in kcat, are the same as ``v``, ``V``."""

_TOKEN: Final = re.compile(r"%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]')


def check_terminal(form: str, path: str | None) -> None:
    """Raise InvalidArgument if output in this form would go to a terminal that cannot show it."""
    if form in BINARY_FORMS and path is None and sys.stdout.isatty():
        raise InvalidArgument(f"--format {form} is not for a terminal: name a file with --output")


class Form(Framed, Protocol):
    """All that one command prints: records between head and end."""

    def printer(self, topic: str, partition: int) -> Printer:
        """Return what writes the records of a partition."""


def check_form(text: str) -> str:
    """Return a form, or a text with directives, as it is; raise ValueError for any other."""
    if text in FORMS:
        return text
    if "%" not in text:
        raise ValueError(f"not one of {', '.join(FORMS)}, nor a text such as '%k %v'")
    _parsed(text)
    return text


def open_form(form: str, encoding: Encoding) -> Form:
    """Return what writes records in a form that ``check_form`` has accepted.

    Raises:
        InvalidArgument: pyarrow is not installed, and the form needs it.
    """
    return _TableForm(form) if form in BINARY_FORMS else _LinesForm(form, encoding)


class _LinesForm(Unframed):
    """Text, of which each record is a part by itself."""

    def __init__(self, form: str, encoding: Encoding) -> None:
        self._form = form
        self._encoding = encoding

    def head(self) -> bytes:
        return (",".join(CSV_COLUMNS) + "\n").encode() if self._form == "csv" else b""

    def printer(self, topic: str, partition: int) -> Printer:
        form = self._form
        if form == "json":
            from tidelog.records.json.json_lines import JsonLines

            return JsonLines(topic, partition, self._encoding).pieces
        fields = _Fields(topic, partition, self._encoding)
        if form == "csv":
            return partial(_one_by_one, fields.csv_line)
        if form == "raw":
            return partial(_one_by_one, fields.value)
        return partial(_one_by_one, fields.formatted("%v" if form == "text" else form))


class _TableForm:
    """Arrow record batches, or a Parquet file: keys and values are the bytes that they are."""

    def __init__(self, form: str) -> None:
        with needs_extra("arrow"):
            from tidelog.arrow.file_bytes import FORMS as OPENED
            from tidelog.arrow.schema import SCHEMA_WITH_HEADERS

        self._schema = SCHEMA_WITH_HEADERS
        self._file = OPENED[form](self._schema)
        self.head = self._file.head
        self.end = self._file.end

    def printer(self, topic: str, partition: int) -> Printer:
        from tidelog.arrow.decode import ArrowDecoder

        decoder = ArrowDecoder(self._schema, topic, partition)
        return lambda columns: map(self._file.rows, decoder.tables(columns))


def _one_by_one(write: Write, columns: RecordColumns) -> Iterator[bytes]:
    """Yield records, written one by one."""
    yield b"".join(map(write, columns.records()))


class _Fields:
    """What stands for the fields of a record; null is empty, unless the form can say it."""

    def __init__(self, topic: str, partition: int, encoding: Encoding) -> None:
        self._topic = topic
        self._partition = partition
        self._encoding = encoding

    def formatted(self, text: str) -> Write:
        """Return what fills in a text; it adds a line end unless the text ends in an escape."""
        parts = _parsed(text)
        fill = {
            "t": lambda _: self._topic.encode(),
            "p": lambda _: b"%d" % self._partition,
            "o": lambda record: b"%d" % record.offset,
            "T": lambda record: b"%d" % record.timestamp,
            "k": lambda record: self._bytes(record.key),
            "v": self.value,
            "h": self._headers,
            "K": lambda record: b"%d" % _size(record.key),
            "V": lambda record: b"%d" % _size(record.value),
        }
        writers: list[bytes | Write] = [
            fill[part] if isinstance(part, str) else part for part in parts
        ]

        def write(record: Record) -> bytes:
            return b"".join(one if isinstance(one, bytes) else one(record) for one in writers)

        return write

    def value(self, record: Record) -> bytes:
        """Return the value, as it is unless it is to be encoded."""
        return self._bytes(record.value)

    def csv_line(self, record: Record) -> bytes:
        """Return a line of CSV; null is empty, and empty text is quoted."""
        from tidelog.records.json.json_record import Encoding, bytes_as_text

        (key, of_key), (value, of_value) = (
            bytes_as_text(data, self._encoding) for data in (record.key, record.value)
        )
        cells = (
            *(self._topic, str(self._partition), str(record.offset), str(record.timestamp)),
            *(key, value, self._headers(record).decode()),
            *(None if used is Encoding.UTF8 else str(used) for used in (of_key, of_value)),
        )
        return (",".join(map(csv_cell, cells)) + "\n").encode()

    def _headers(self, record: Record) -> bytes:
        from tidelog.records.json.json_record import headers_as_text

        return json.dumps(headers_as_text(record, self._encoding), ensure_ascii=False).encode()

    def _bytes(self, data: bytes | None) -> bytes:
        from tidelog.records.json.json_record import Encoding, bytes_as_text

        if data is None or self._encoding is Encoding.UTF8:
            return data or b""
        text, _ = bytes_as_text(data, self._encoding)
        return (text or "").encode()


def csv_cell(text: str | None) -> str:
    """Return a cell of a line of CSV; None is empty."""
    if text is None:
        return ""
    if not text or _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _parsed(text: str) -> list[str | bytes]:
    """Return the parts of a text: a directive as its letter, anything else as bytes."""
    parts: list[str | bytes] = []
    for letter, escape, plain, other in _TOKEN.findall(text):
        if letter:
            known = {"s": "v", "S": "V"}.get(letter, letter)
            if known not in DIRECTIVES:
                raise ValueError(f"%{letter} is not known; use %" + ", %".join(DIRECTIVES))
            parts.append(b"%" if known == "%" else known)
        elif escape:
            if escape not in _ESCAPES:
                raise ValueError(rf"\{escape} is not known; use \n, \t, \r, \0 or \\")
            parts.append(_ESCAPES[escape])
        elif other:
            raise ValueError(f"{other!r} at the end stands for nothing")
        else:
            parts.append(plain.encode())
    is_ended = re.search(r"(?<!\\)(\\\\)*\\[ntr0]\Z", text)
    return parts if is_ended else [*parts, b"\n"]
