"""``tidelog append``: append lines or JSON records to a topic."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

from tidelog.codec.compression import Codec
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import InvalidArgument
from tidelog.manager.open import open_data_directory
from tidelog.manager.topic_writer import TopicWriter
from tidelog.records.json_form import INPUT_MEMBERS, Encoding, NewRecord, record_from_json

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

_LINE_ENDS: Final = b"\r\n"


def run(args: Namespace) -> int:
    """Append every line of the input; what a bad line stops, stops before that line."""
    settings = dict(args.options)
    with _input(args.file) as lines, open_data_directory(args.directory, settings) as directory:
        codec = Codec.named(args.compression)
        writer = TopicWriter(directory, args.topic, clock=SYSTEM_CLOCK, codec=codec)
        try:
            for record in _records(lines, args):
                writer.append(record)
        finally:
            writer.flush()
        print(f"{writer.records:,} records appended to {args.topic}")
    return 0


def _records(lines: IO[bytes], args: Namespace) -> Iterator[NewRecord]:
    """Yield a record a line; InvalidArgument names the first line that is none."""
    encoding = Encoding(args.encoding)
    is_json = args.format == "json"
    for number, line in enumerate(lines, start=1):
        text = line.rstrip(_LINE_ENDS)
        if number == 1 and args.format == "auto":
            is_json = _is_record(text, encoding)
        try:
            record = record_from_json(text, encoding) if is_json else NewRecord(None, text)
        except InvalidArgument as error:
            raise InvalidArgument(f"line {number}: {error}; {number - 1} lines before") from error
        if args.partition is not None:
            record = record._replace(partition=args.partition)
        yield record


def _is_record(line: bytes, encoding: Encoding) -> bool:
    """Say whether a line is a record as JSON; one that has no member of a record is text."""
    try:
        record_from_json(line, encoding)
    except InvalidArgument:
        return False
    return any(f'"{name}"'.encode() in line for name in INPUT_MEMBERS)


@contextmanager
def _input(path: str | None) -> Iterator[IO[bytes]]:
    if path is None or path == "-":
        yield sys.stdin.buffer
    else:
        with open(path, "rb") as file:  # noqa: PTH123 - the user's own file, not one of a log
            yield file
