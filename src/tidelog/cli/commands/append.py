"""``tidelog append``: append lines or JSON records to a topic."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from itertools import chain
from typing import IO, TYPE_CHECKING

from tidelog.cli.options import (
    add_directory,
    add_encoding,
    add_partition,
    add_settings,
    add_topic,
    new_parser,
)
from tidelog.errors import (
    InvalidArgument,
    KafkaError,
    KafkaStorageError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from tidelog.cli.options import Commands
    from tidelog.embedded.logs import Logs
    from tidelog.embedded.topic_writer import TopicWriter
    from tidelog.records.json.json_record import Encoding


class BadLine(InvalidArgument):
    """A line is not a valid record, or the topic rejects it; the lines before it are appended."""

    def __init__(self, number: int, reason: str, path: str = "") -> None:
        super().__init__(number, reason, path)
        self.number = number
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}{', ' * bool(self.path)}line {self.number}: {self.reason}"


def add_parser(commands: Commands) -> None:
    """Add ``tidelog append`` to the command line."""
    parser = new_parser(
        commands,
        "append",
        "append records to a topic, from a file or standard input",
        run,
        epilog='a record as JSON: {"key": text, "value": text, "headers": [[name, text], …],'
        ' "timestamp": ms, "partition": number}\nevery member is optional; text may be null',
    )
    add_topic(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="input (default: standard input)")
    add_directory(parser)
    parser.add_argument(
        "--format",
        choices=("auto", "lines", "json"),
        default="auto",
        help="lines: each line is a value; json: each line is a record; auto (the default): json"
        " if the first line is such a record, else lines",
    )
    add_encoding(parser)
    add_partition(parser, "append to this partition only")
    parser.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="codec of the batches (default none)",
    )
    add_settings(parser)


def run(args: Namespace) -> int:
    """Append every line of the input, up to the first bad one."""
    from tidelog.cli.lingering_lines import LingeringLines
    from tidelog.cli.terminal import counted
    from tidelog.embedded.doors import open_briefly
    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.env.system_files import SYSTEM_FILES

    if not SYSTEM_FILES.exists(args.directory):
        raise UnknownTopicOrPartition(f"no data directory {args.directory}; {_hint(args)}")
    settings = dict(args.options)
    with (
        _input(args.file) as lines,
        open_briefly(args.directory, overrides=settings) as logs,
    ):
        writer = _writer(logs, args)
        _checkpoint_new_partitions(logs, args)
        try:
            arriving = LingeringLines(lines, writer.flush, SYSTEM_CLOCK)
            _append(writer, _bytes_of(arriving, args.file), args)
        finally:
            writer.flush()
            print(f"{counted(writer.records, 'record')} appended to {args.topic}")
    return 0


def _writer(logs: Logs, args: Namespace) -> TopicWriter:
    from tidelog.codec.compression import Codec

    try:
        partitions = logs.topic(args.topic).partitions
    except UnknownTopicOrPartition as error:
        raise UnknownTopicOrPartition(f"{error}; {_hint(args)}") from None
    if args.partition is not None and args.partition not in partitions:
        raise UnknownTopicOrPartition(f"topic {args.topic} has no partition {args.partition}")
    return logs.writer(args.topic, codec=Codec.named(args.compression))


def _checkpoint_new_partitions(logs: Logs, args: Namespace) -> None:
    """Checkpoint a high watermark for each partition that has none.

    Readers read a log without one to its end. Of a killed append they would see records in
    partitions without a high watermark, and none in the others until the next writer opens them.
    """
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.checkpoints import Checkpoints

    known = Checkpoints.read(args.directory, fs=SYSTEM_FILES).high_watermarks
    numbers = logs.topic(args.topic).partitions if args.partition is None else [args.partition]
    new = [number for number in numbers if (args.topic, number) not in known]
    for number in new:
        with suppress(UnknownTopicOrPartition):  # it is in another data directory
            logs.partition(args.topic, number)
    if new:
        logs.flush()


def _hint(args: Namespace) -> str:
    return f"create it with: tidelog create {args.topic} -d {args.directory}"


def _append(writer: TopicWriter, lines: Iterator[bytes], args: Namespace) -> None:
    from tidelog.records.json.json_record import Encoding, record_from_json
    from tidelog.records.new_record import NewRecord

    encoding = Encoding(args.encoding)
    is_json, lines = _with_format(lines, args.format)
    for number, line in enumerate(lines, start=1):
        if is_json and not line.strip():
            continue
        try:
            if is_json:
                record = record_from_json(line, encoding)
            else:
                record = NewRecord(None, _value_of(line, encoding))
            if args.partition is not None:
                record = record._replace(partition=args.partition)
            writer.append(record)
        except KafkaStorageError:
            raise
        except (InvalidArgument, KafkaError) as error:
            path = "" if _is_standard_input(args.file) else args.file
            raise BadLine(number, str(error), path) from error


def _with_format(lines: Iterator[bytes], format_name: str) -> tuple[bool, Iterator[bytes]]:
    """Return whether the lines are JSON, as the first non-blank one decides, and all lines."""
    from tidelog.records.json.json_record import has_members_of_a_record

    if format_name != "auto":
        return format_name == "json", lines
    first: list[bytes] = []
    for line in lines:
        first.append(line)
        if line.strip():
            break
    is_json = bool(first) and has_members_of_a_record(first[-1])
    return is_json, chain(first, lines)


def _value_of(line: bytes, encoding: Encoding) -> bytes:
    """Return the value of a line: its bytes, decoded if they are base64 or hex."""
    from tidelog.records.json.json_record import Encoding, bytes_from_text

    if encoding is Encoding.UTF8:
        return line
    return bytes_from_text(line.decode("ascii", "replace"), encoding, "line")


def _bytes_of(lines: Iterable[bytes], path: str | None) -> Iterator[bytes]:
    """Yield each line without its line end, and show how much of a file has been read."""
    from tidelog.cli.terminal import Progress
    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.env.system_files import SYSTEM_FILES

    total = 0 if _is_standard_input(path) else SYSTEM_FILES.stat(str(path)).size_bytes
    done = 0
    with Progress("appending", total, SYSTEM_CLOCK) as progress:
        for line in lines:
            done += len(line)
            if total:
                progress.show(done)
            yield _without_end(line)


def _without_end(line: bytes) -> bytes:
    r"""Remove one line end, ``\n`` or ``\r\n``."""
    return line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def _is_standard_input(path: str | None) -> bool:
    return path is None or path == "-"


@contextmanager
def _input(path: str | None) -> Iterator[IO[bytes]]:
    if path is None or _is_standard_input(path):
        yield sys.stdin.buffer
    else:
        with open(path, "rb") as file:  # noqa: PTH123 - the user's own file, not one of a log
            yield file
