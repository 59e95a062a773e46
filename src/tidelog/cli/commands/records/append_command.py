"""``tidelog append``: append lines or JSON records to a topic."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Final

from tidelog.cli.arguments import input_form
from tidelog.cli.options import (
    DIRECTORY,
    SETTINGS,
    TOPIC,
    Command,
    argument,
    compression_option,
    encoding_option,
    partition_option,
    txn_option,
)
from tidelog.cli.terminal import print_line, print_message
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import (
    DirectoryLocked,
    InvalidArgument,
    KafkaError,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.explain.printable_text import counted, format_time

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import Self

    from tidelog.embedded.busy_directory import BusyDirectory, BusyWriter
    from tidelog.embedded.logs import Logs
    from tidelog.embedded.topic_writer import TopicWriter
    from tidelog.records.json.json_record import Encoding
    from tidelog.records.new_record import NewRecord

    _Directory = Logs | BusyDirectory
    """The topics of a directory, free or in use."""

_BYTES_FOR_ONE: Final = 6
_OTHER_LINE_BYTES: Final = 1 << 20
_COMPRESSION: Final = 16
"""A record that a codec makes smaller than to a sixteenth may be refused."""


class BadLine(InvalidArgument):
    """A line is not a valid record, or the topic rejects it; the lines before it are appended.

    With ``--txn`` they are not.
    """

    def __init__(self, number: int, reason: str, path: str = "") -> None:
        super().__init__(number, reason, path)
        self.number = number
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}{', ' * bool(self.path)}line {self.number}: {self.reason}"


COMMAND: Final = Command(
    "append",
    "append records to a topic, from a file or standard input",
    (
        *DIRECTORY,
        TOPIC,
        argument("file", metavar="FILE", nargs="?", help="input (default: standard input)"),
        argument(
            "--format",
            type=input_form,
            choices=("text", "json"),
            default="text",
            help="text (the default): each line is a value; json: each line is a record, as cat"
            " prints it; no CSV, which tidelog.arrow.write takes",
        ),
        encoding_option(
            "how keys, values and header values are written where a line does not say it"
            " (default utf8); json: values as JSON, of which null is a tombstone, and the rest as"
            " utf8"
        ),
        partition_option("append to this partition only"),
        compression_option("codec of the batches (default none)", default="none"),
        txn_option(
            "append all of the input or, if anything fails, nothing; if ID was committed before,"
            " nothing is appended again"
        ),
        SETTINGS,
    ),
    epilog='a record as JSON: {"key": text, "value": text, "headers": [[name, text], …],'
    ' "timestamp": ms,\n"partition": number, "keyEncoding": "base64", "valueEncoding": "hex"};'
    " every member is optional;\ntext may be null; a timestamp may be a date and time;"
    " the lines that cat prints are such records;\n"
    'with "valueEncoding": "json" the value is any JSON value, null a tombstone; it is stored as\n'
    "UTF-8 without blanks, and its numbers with a fraction as those of 64 bits",
)


def run(args: Namespace) -> int:
    """Append every line of the input, up to the first bad one."""
    from tidelog.cli.progress import ShownWork
    from tidelog.codec.compression import Codec
    from tidelog.embedded.doors import open_briefly
    from tidelog.env.system_files import SYSTEM_FILES

    if not SYSTEM_FILES.exists(args.directory):
        raise UnknownTopicOrPartition(f"no data directory {args.directory}; {_hint(args)}")
    args.file = None if args.file == "-" else args.file
    with _input(args.file) as lines, _Outcome(args) as outcome:
        try:
            overrides = dict(args.options)
            logs = open_briefly(args.directory, overrides=overrides, watcher=ShownWork())
        except DirectoryLocked as error:
            return _append_beside(error, lines, outcome)
        with logs:
            if args.txn is not None:
                return _append_once(logs, lines, outcome)
            _check_partition(logs, args)
            writer = logs.writer(args.topic, codec=Codec.named(args.compression))
            _checkpoint_new_partitions(logs, args)
            return _append_all(logs, writer, writer.flush, lines, outcome)


def _input(file: str | None) -> AbstractContextManager[IO[bytes]]:
    """Open the input; None: standard input, which stays open."""
    if file is None:
        return nullcontext(sys.stdin.buffer)
    try:
        return open(file, "rb")  # noqa: PTH123 - the user's own file, closed by the caller
    except FileNotFoundError as error:
        reason = f"{file}: {error.strerror}; without FILE, records are read from standard input"
        raise InvalidArgument(reason) from None


def _append_all(
    logs: _Directory,
    writer: TopicWriter | BusyWriter,
    flush: Callable[[], object],
    lines: IO[bytes],
    outcome: _Outcome,
) -> int:
    """Append every line; ``flush`` is called while the next ones are waited for.

    After an error of the disk, what was gathered is left to the closing of the logs, which tries it
    once more. Beside a service it is left out: it might follow a gap.
    """
    from tidelog.cli.lingering_lines import LingeringLines

    args = outcome.args
    limit_bytes = _longest_line(logs, args)
    _check_keys(logs, lines, limit_bytes, args)
    outcome.writer = writer
    try:
        arriving = LingeringLines(lines, flush, SYSTEM_CLOCK, limit_bytes=limit_bytes)
        _append(writer.append, _bytes_of(arriving, args.file), outcome)
    except BaseException as error:
        outcome.is_sound = not isinstance(error, KafkaStorageError)
        outcome.interrupt = None if isinstance(error, Exception) else error  # Ctrl-C or SIGTERM
        raise
    finally:
        if outcome.is_sound:
            _flush(writer, outcome.interrupt)
    return 0


class _Outcome:
    """The result of an append; leaving its ``with`` prints it.

    Leave it after the logs are closed: closing may append what the writer still holds after an
    error. ``lines`` counts the input lines that were looked at, including the last one, and
    ``blank`` the blank lines among JSON, which are skipped.
    """

    def __init__(self, args: Namespace) -> None:
        self.args = args
        self.writer: TopicWriter | BusyWriter | None = None
        """None while nothing was to be appended without ``--txn``."""
        self.lines = self.blank = 0
        self.is_sound = True
        self.interrupt: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is None:
            return
        records, args = self.writer.records, self.args
        print(f"{counted(records, 'record')} appended to {args.topic}, each line as {_form(args)}")
        if self.interrupt is not None:
            _explain_rest(records, self)
        elif not self.is_sound and records:
            sys.stdout.flush()
            print_message("append", "with --txn ID, all of the input is appended, or nothing")


def _flush(writer: TopicWriter | BusyWriter, interrupt: BaseException | None) -> None:
    """Append what was gathered, unless an interrupt came while it was staged.

    What was staged is then not kept; the command ends by the interrupt, not by that error.
    """
    try:
        writer.flush()
    except KafkaStorageError as error:
        if interrupt is None or error.__cause__ is not interrupt:
            raise


def _explain_rest(records: int, seen: _Outcome) -> None:
    """Print on stderr how to append the rest of a file after an interrupt."""
    args = seen.args
    if args.file is None:
        return
    if not records:
        text = "interrupted: run it again"
    elif records + seen.blank < seen.lines - 1:  # a batch was being appended
        text = f"interrupted in a batch: which lines of {args.file} are in is not known"
    else:
        start = records + seen.blank + 1
        text = f"interrupted: the rest is what tail -n +{start} {args.file} prints"
    print_message(args.command, f"{text}; with --txn ID it is all of the file or nothing")


def _check_keys(logs: _Directory, lines: IO[bytes], limit_bytes: int, args: Namespace) -> None:
    """Raise BadLine for a record without a key, for a topic whose cleanup policy is unknown.

    So nothing of an input is appended that has to be repeated once the policy is set. A pipe, which
    cannot be read twice, is not looked at.
    """
    is_known = logs.config_of(args.topic).is_policy_known
    if is_known or args.format != "json" or not lines.seekable():
        return
    start = lines.tell()
    number = _first_without_key(lines, limit_bytes, args)
    lines.seek(start)
    if number is not None:
        text = (
            f"the record has no key, and cleanup.policy of {args.topic} is unknown; nothing was"
            f" appended: set it with tidelog alter {args.topic} -o cleanup.policy=..."
        )
        raise BadLine(number, text, args.file or "")


def _first_without_key(lines: IO[bytes], limit_bytes: int, args: Namespace) -> int | None:
    """Return the number of the first JSON line without a key, if no line before it is bad."""
    from tidelog.cli.lingering_lines import LineTooLong, LingeringLines
    from tidelog.records.json.json_record import Encoding, record_from_json

    encoding = Encoding(args.encoding)
    arriving = LingeringLines(lines, lambda: None, SYSTEM_CLOCK, limit_bytes=limit_bytes)
    with suppress(LineTooLong, InvalidArgument):  # reported once the lines before are appended
        for number, line in enumerate(arriving, start=1):
            if line.strip() and record_from_json(_without_end(line), encoding).key is None:
                return number
    return None


def _append_beside(error: DirectoryLocked, lines: IO[bytes], outcome: _Outcome) -> int:
    """Append by transactions: of the whole input, or, of a pipe, of what it brings at a time.

    Raises ``error`` if the process that holds the directory is Kafka.
    """
    from tidelog.codec.compression import Codec
    from tidelog.embedded.busy_directory import BusyDirectory, BusyWriter
    from tidelog.env.machine import brief_machine
    from tidelog.env.signals import program_of
    from tidelog.env.system_files import SYSTEM_FILES

    if program_of(error.pid) == "java":
        raise error
    args = outcome.args
    machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    path = os.path.abspath(args.directory)
    busy = BusyDirectory(path, machine=machine, overrides=dict(args.options))
    if args.txn is not None:
        return _append_once(busy, lines, outcome)
    _check_partition(busy, args)
    writer = BusyWriter(busy, args.topic, codec=Codec.named(args.compression))
    flush = writer.flush if args.file is None else lambda: None
    return _append_all(busy, writer, flush, lines, outcome)


def _append_once(logs: _Directory, lines: IO[bytes], outcome: _Outcome) -> int:
    """Append the whole input as a transaction, unless its id was committed before."""
    from tidelog.cli.lingering_lines import LingeringLines
    from tidelog.codec.compression import Codec

    args = outcome.args
    _check_partition(logs, args)
    with logs.transaction(args.txn, codec=Codec.named(args.compression)) as txn:
        if txn.committed is not None:
            txn.check_repeat([args.topic])
            count = counted(txn.committed.total, "record")
            when = format_time(txn.committed.time_ms)
            print_line(f"nothing appended: {args.txn} was committed at {when} with {count}")
            return 0
        limit_bytes = _longest_line(logs, args)
        arriving = LingeringLines(lines, lambda: None, SYSTEM_CLOCK, limit_bytes=limit_bytes)
        _append(partial(txn.append_record, args.topic), _bytes_of(arriving, args.file), outcome)
    count = counted(txn.committed.total if txn.committed else 0, "record")
    print_line(f"{count} appended to {args.topic} as {args.txn}, each line as {_form(args)}")
    return 0


def _form(args: Namespace) -> str:
    return "JSON" if args.format == "json" else "text"


def _longest_line(logs: _Directory, args: Namespace) -> int:
    """Return the bytes that a line may have: beyond them no record fits ``max.message.bytes``.

    JSON and hexadecimal digits take at most six bytes for one; a codec may leave less.
    """
    from tidelog.cli.lingering_lines import MAX_LINE_BYTES

    config = logs.config_of(args.topic)
    limit = _BYTES_FOR_ONE * config.max_message_bytes + _OTHER_LINE_BYTES
    keeps_codec = config.compression_type in {"producer", "uncompressed"}
    is_plain = args.compression == "none" and keeps_codec
    return limit if is_plain else min(limit * _COMPRESSION, MAX_LINE_BYTES)


def _check_partition(logs: _Directory, args: Namespace) -> None:
    """Raise UnknownTopicOrPartition, with what to do, unless there is what is written to."""
    try:
        partitions = logs.topic(args.topic).partitions
    except UnknownTopicOrPartition as error:
        raise UnknownTopicOrPartition(f"{error}; {_hint(args)}") from None
    if args.partition is not None and args.partition not in partitions:
        raise UnknownTopicOrPartition(f"topic {args.topic} has no partition {args.partition}")


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


def _append(take: Callable[[NewRecord], object], lines: Iterator[bytes], outcome: _Outcome) -> None:
    """Take each line as a record; ``outcome`` counts the lines. Raises BadLine."""
    from tidelog.cli.lingering_lines import LineTooLong
    from tidelog.records.json.json_record import Encoding, record_from_json
    from tidelog.records.new_record import NewRecord

    args = outcome.args
    encoding, is_json, path = Encoding(args.encoding), args.format == "json", args.file or ""
    try:
        for outcome.lines, line in enumerate(lines, start=1):
            if not is_json:
                if outcome.lines == 1:
                    _explain_records(line)
                record = NewRecord(None, _value_of(line, encoding))
            elif line.strip():
                record = record_from_json(line, encoding)
            else:
                outcome.blank += 1
                continue
            if args.partition is not None:
                record = record._replace(partition=args.partition)
            take(record)
    except KafkaStorageError:
        raise
    except LineTooLong:
        what = "longer than any record that the topic takes (max.message.bytes)"
        raise BadLine(outcome.lines + 1, what, path) from None
    except (InvalidArgument, KafkaError) as error:
        raise BadLine(outcome.lines, str(error), path) from error


def _explain_records(line: bytes) -> None:
    """Print on stderr how to append records, if that is what the first line holds."""
    from tidelog.records.json.json_record import has_members_of_a_record

    if line.startswith(b"{") and has_members_of_a_record(line):
        print_message("append", "line 1 is a record as JSON, taken as text; --format json reads it")


def _value_of(line: bytes, encoding: Encoding) -> bytes | None:
    """Return the value of a line: its bytes, decoded if they are base64 or hex."""
    from tidelog.codec.json_value import pack_json, unpack_json
    from tidelog.records.json.json_record import Encoding, bytes_from_text

    if encoding is Encoding.UTF8:
        return line
    if encoding is Encoding.JSON:
        return pack_json(unpack_json(line))
    return bytes_from_text(line.decode("ascii", "replace"), encoding, "line")


def _bytes_of(lines: Iterable[bytes], path: str | None) -> Iterator[bytes]:
    """Yield each line without its line end, and show how much of a file has been read."""
    from tidelog.cli.progress import current_line
    from tidelog.env.system_files import SYSTEM_FILES

    if path is None:
        yield from map(_without_end, lines)
        return
    total = SYSTEM_FILES.stat(path).size_bytes
    done = 0
    with current_line().task(f"appending {os.path.basename(path)}", total) as task:
        for line in lines:
            done += len(line)
            task.show(done)
            yield _without_end(line)


def _without_end(line: bytes) -> bytes:
    r"""Remove one line end, ``\n`` or ``\r\n``."""
    return line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")
