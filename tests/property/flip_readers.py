"""Every reader of a topic, as a function that the tests of flipped bits call.

A reader yields records, as offset and value, or one answer after the other; where it cannot answer,
the error is the answer.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.cli.main import main
from tidelog.embedded.read_only_logs import ReadOnlyLogs
from tidelog.errors import CorruptMessage, TidelogError
from tidelog.explain.tables.system_table import open_tables
from tidelog.explain.tables.system_tables import system_table
from tidelog.log.reading.log_reads import iterate
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.manager.mirror import Mirror
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.isolation import ReadUpTo
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tests.machinery.directory_home import DataHome
    from tests.property.header_flips import Flip

    from tidelog.embedded.logs import Logs
    from tidelog.embedded.topic_reads import ConsumedRecord
    from tidelog.log.log import Log
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record import Record

COMMITTED: Final = "read_committed"
KEY: Final = TopicPartition("t", 0)
MOST_RECORDS: Final = 200
"""No story has as many: a reader that yields more goes round in circles."""

_TABLES: Final = (
    ("batches", "baseOffset", "lastOffset", "records"),
    ("transactions", "state", "firstOffset"),
    ("gaps", "startOffset", "endOffset", "cause"),
)

Record_ = tuple[int, bytes | None]


class Found(NamedTuple):
    """What a reader has yielded, and the error after it."""

    yielded: list[Any]
    error: TidelogError | None


class Questions(NamedTuple):
    """What lookups ask: offsets in and around some batches, and times of records."""

    offsets: Sequence[int]
    times_ms: Sequence[int]


def found(read: Callable[[], Iterable[Any]]) -> Found:
    """Read to the end, or to the error."""
    yielded: list[Any] = []
    try:
        for each in read():
            yielded.append(each)
            assert len(yielded) < MOST_RECORDS, yielded[:50]
    except TidelogError as error:
        return Found(yielded, error)
    return Found(yielded, None)


def answers(ask: Callable[[int], object], questions: Iterable[int]) -> Iterator[object]:
    """Yield the answer to each question, or its error."""
    for question in questions:
        try:
            yield ask(question)
        except TidelogError as error:
            yield error


def shown(records: Iterable[Record | ConsumedRecord]) -> Iterator[Record_]:
    """Yield what is compared of records."""
    return ((record.offset, record.value) for record in records)


# The owner of the log


def owners_records(logs: Logs) -> dict[str, Callable[[], Iterable[Record_]]]:
    """Return the readers of records of who holds the directory."""
    log = logs.partition(*KEY).log
    return {
        "Logs.read": lambda: shown(logs.read("t")),
        "Logs.read committed": lambda: shown(logs.read("t", isolation=COMMITTED)),
        "Log.records to the end": lambda: shown(log.records(isolation="log_end")),
        "fetches of a batch": lambda: shown(_fetched(log, 1)),
        "fetches of 300 bytes": lambda: shown(_fetched(log, 300)),
        "settled records": lambda: shown(log.settled_records(log.log_start_offset)),
        "Logs.follow": lambda: shown(logs.follow("t", idle_ms=0)),
        "Logs.follow committed": lambda: shown(logs.follow("t", idle_ms=0, isolation=COMMITTED)),
        "a group": lambda: _of_group(logs, "all"),
        "a group committed": lambda: _of_group(logs, "committed", isolation=COMMITTED),
        "a group that continues": lambda: _continued(logs),
    }


def _fetched(log: Log, max_bytes: int) -> Iterator[Record]:
    for columns in iterate(lambda offset: log.read(offset, max_bytes), log.log_start_offset):
        yield from columns.records()


def _of_group(logs: Logs, group: str, **how: Any) -> Iterator[Record_]:
    with logs.reader("t", group=group, **how) as reader:
        yield from shown(reader.read())


def _continued(logs: Logs) -> Iterator[Record_]:
    """Read a few records, commit, and read on with another reader; an error twice is the same."""
    with logs.reader("t", group="halves") as reader:
        for number, record in enumerate(reader.read()):
            yield record.offset, record.value
            if number == 2:
                break
        reader.commit()
    with logs.reader("t", group="halves") as reader:
        try:
            yield from shown(reader.read())
        except TidelogError as error:
            at, again = reader.positions, found(reader.read)
            stays = again.yielded == [] and reader.positions == at
            assert stays, (error, again)  # noqa: PT017 - the error continues to the caller
            raise error if again.error is None else again.error from error


def owners_answers(logs: Logs, asked: Questions) -> dict[str, Callable[[], Iterable[object]]]:
    """Return the lookups of who holds the directory."""
    log = logs.partition(*KEY).log
    end = log.log_end_offset

    def first(offset: int) -> Record_ | None:
        return next(iter(shown(log.records(offset))), None)

    def at(time_ms: int) -> object:
        return _answer(log.fetch_offset_by_timestamp(time_ms))

    def place(offset: int) -> object:
        return log.offset_metadata(offset)

    return {
        "first record from": lambda: answers(first, asked.offsets),
        "offset at": lambda: answers(at, (*asked.times_ms, OffsetTarget.MAX_TIMESTAMP)),
        "count from": lambda: answers(lambda start: log.count_records(start, end), asked.offsets),
        "count to": lambda: answers(partial(log.count_records, None), asked.offsets),
        "place of": lambda: answers(place, asked.offsets),
    }


def _answer(timestamped: Any) -> object:
    return timestamped and (timestamped.timestamp, timestamped.offset)


# Beside the owner, or without one


def beside_records(home: DataHome) -> dict[str, Callable[[], Iterable[object]]]:
    """Return the readers of records that take no lock."""
    logs = ReadOnlyLogs(home.path, fs=home.fs, clock=home.clock, wait_ms=home.clock.advance)

    def opened(read: Callable[[ReadOnlyLog], Iterable[Record_]]) -> Iterator[Record_]:
        with home.read_only("t-0") as log:
            yield from read(log)

    return {
        "ReadOnlyLog.records": lambda: opened(lambda log: shown(log.records())),
        "its settled records": lambda: opened(lambda log: shown(log.settled_records())),
        "ReadOnlyLogs.read": lambda: shown(logs.read("t")),
        "ReadOnlyLogs.read committed": lambda: shown(logs.read("t", isolation=COMMITTED)),
        "ReadOnlyLogs.read to the end": lambda: shown(logs.read("t", isolation="log_end")),
        "ReadOnlyLogs.follow": lambda: shown(logs.follow("t", idle_ms=0)),
        "ReadOnlyLogs.follow committed": lambda: shown(
            logs.follow("t", idle_ms=0, isolation=COMMITTED)
        ),
        "mirror": lambda: mirrored(home),
    }


def mirrored(home: DataHome) -> Iterator[Record_]:
    """Mirror the topic on the same disk; yield the records of the mirror."""
    with home.open(paths=("/mirror",)) as logs:
        Mirror(open_directory_read_only(home.path, fs=home.fs), logs.manager, "/mirror").run()
        yield from shown(logs.read("t"))


def beside_answers(home: DataHome, asked: Questions) -> dict[str, Callable[[], Iterable[object]]]:
    """Return the lookups that take no lock."""

    def ask(question: Callable[[ReadOnlyLog, int], object], about: int) -> object:
        with home.read_only("t-0") as log:
            return question(log, about)

    def first(log: ReadOnlyLog, offset: int) -> object:
        return next(iter(shown(log.records(offset))), None)

    def one(log: ReadOnlyLog, offset: int) -> object:
        return list(shown(log.records(offset, offset + 1)))

    def at(log: ReadOnlyLog, time_ms: int) -> object:
        return _answer(log.offset_at(time_ms))

    def transactions(log: ReadOnlyLog, up_to: int) -> object:
        known = log.transactions(list(ReadUpTo)[up_to])
        if known.damage is not None:
            raise known.damage
        return known

    def offsets(log: ReadOnlyLog, up_to: int) -> object:
        if log.damage is not None:
            raise log.damage
        return log.offsets(list(ReadUpTo)[up_to])

    def table(_: ReadOnlyLog, number: int) -> object:
        name, *columns = _TABLES[number]
        return list(rows_of(home, name, *columns))

    questions: dict[str, tuple[Callable[[ReadOnlyLog, int], object], Sequence[int]]] = {
        "first record beside": (first, asked.offsets),
        "one offset beside": (one, asked.offsets),
        "offset at beside": (at, (*asked.times_ms, OffsetTarget.MAX_TIMESTAMP)),
        "count from beside": (lambda log, start: log.count_records(start), asked.offsets),
        "count to beside": (lambda log, end: log.count_records(None, end), asked.offsets),
        "transactions": (transactions, range(len(ReadUpTo))),
        "offsets": (offsets, range(len(ReadUpTo))),
        "tables": (table, range(len(_TABLES))),
    }
    return {
        name: partial(answers, partial(ask, question), about)
        for name, (question, about) in questions.items()
    }


def rows_of(home: DataHome, name: str, *columns: str) -> Iterator[tuple[object, ...]]:
    """Yield rows of a system table, without the columns that show the flipped bytes themselves."""
    table = system_table(name)
    numbers = [[column.name for column in table.columns].index(one) for one in columns]
    source = open_tables(home.fs, home.path, clock=home.clock)
    for row in table.rows(source, [KEY]):
        yield tuple(row[number] for number in numbers)


def skipping(home: DataHome) -> tuple[list[Record_], list[tuple[int, int, str, int, int]]]:
    """Read past damage; return the records and what was reported, as offsets, file and bytes."""
    reported: list[tuple[int, int, str, int, int]] = []
    with open_read_only(
        f"{home.path}/t-0",
        fs=home.fs,
        on_damage=lambda one: reported.append(
            (one.start_offset, one.end_offset, one.path, one.position, one.end)
        ),
    ) as log:
        return list(shown(log.records())), reported


# On a real disk


class OnDisk:
    """A copy of a directory on a real disk, for what opens files by itself."""

    def __init__(self, home: DataHome, path: Path) -> None:
        self.path = path
        for directory in ("", "t-0"):
            (path / directory).mkdir(exist_ok=True)
            for name in home.files(directory):
                source = os.path.join(home.path, directory, name)
                if not home.fs.stat(source).is_directory:
                    (path / directory / name).write_bytes(home.fs.read(source))

    @contextmanager
    def flipped(self, flip: Flip | None) -> Iterator[None]:
        """Flip a bit for as long as the body runs."""
        if flip is None:
            yield
            return
        file = self.path / "t-0" / os.path.basename(flip.place.path)
        data = file.read_bytes()
        at = flip.place.position + flip.bit // 8
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << flip.bit % 8]) + data[at + 1 :])
        yield
        file.write_bytes(data)

    def command(self, *words: str) -> tuple[int, list[Any], str]:
        """Run a command; return its exit code, what it printed as JSON, and its messages."""
        buffer, errors = io.BytesIO(), io.StringIO()
        output = io.TextIOWrapper(buffer, encoding="utf-8")
        with redirect_stdout(output), redirect_stderr(errors):
            code = main([*words, "-d", str(self.path)])
            output.flush()
        return (
            code,
            [json.loads(line) for line in buffer.getvalue().splitlines()],
            errors.getvalue(),
        )

    def commands(self) -> dict[str, Callable[[], Iterable[object]]]:
        """Return the commands that print records."""

        def printed(*words: str) -> Iterator[object]:
            code, lines, errors = self.command("cat", "t", *words)
            yield from ((line["offset"], line["value"]) for line in lines)
            if code:
                raise error_of(errors)

        return {
            "cat": printed,
            "cat committed": lambda: printed("--isolation", COMMITTED),
            "cat to the end": lambda: printed("--up-to", "logEnd"),
        }

    def answers(self) -> dict[str, Callable[[], Iterable[object]]]:
        """Return the commands that print numbers."""

        def printed(*words: str) -> Iterator[object]:
            code, lines, errors = self.command(*words)
            # A leader epoch is shown as it is.
            yield error_of(errors) if code else [{**line, "leaderEpoch": 0} for line in lines]

        return {
            "cat --last": lambda: printed("cat", "t", "--last", "4"),
            "offsets": lambda: printed("offsets", "t"),
            "offsets --count committed": lambda: printed(
                "offsets", "t", "--count", "--isolation", COMMITTED
            ),
            "offsets --count": lambda: printed("offsets", "t", "--count"),
            "offsets --at": lambda: printed("offsets", "t", "--at", "max-timestamp"),
        }

    def spark(self) -> dict[str, Callable[[], Iterable[object]]]:
        """Return readers of the data source, called as Spark's workers call them."""
        from pyspark.sql.types import BinaryType, LongType, StructField, StructType

        from tidelog.spark.source import LogSource

        options = {"path": str(self.path), "subscribe": "t"}
        columns = [StructField("offset", LongType()), StructField("value", BinaryType())]

        def batch(**more: str) -> Iterator[object]:
            reader = LogSource({**options, **more}).reader(StructType(columns))
            for part in reader.partitions():
                yield from rows(reader.read(part))

        def stream() -> Iterator[object]:
            source = LogSource({**options, "startingOffsets": "earliest"})
            reader: Any = source.streamReader(StructType(columns))
            start = reader.initialOffset()
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            for part in reader.partitions(start, end):
                yield from rows(reader.read(part))

        def rows(batches: Iterable[Any]) -> Iterator[object]:
            for each in batches:
                columns = each["offset"].to_pylist(), each["value"].to_pylist()
                yield from zip(*columns, strict=True)

        return {
            "Spark": batch,
            "Spark committed": lambda: batch(**{"kafka.isolation.level": COMMITTED}),
            "Spark in tasks": lambda: batch(minPartitions="3"),
            "Spark without checksums": lambda: batch(verifyChecksums="false"),
            "a stream": stream,
        }


def error_of(errors: str) -> TidelogError:
    """Return the damage that a command has printed, as the error of a library call."""
    line = errors.strip().splitlines()[-1]
    before, _, after = line.rpartition(" at byte ")
    number, _, path = after.partition(": ")[0].partition(" of ")  # without the remedy
    if not path:
        return TidelogError(line)
    return CorruptMessage(before, int(number.replace(",", "")), path)
