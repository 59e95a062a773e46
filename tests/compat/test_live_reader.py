"""Reading as Spark does, plans and tasks, beside a process that changes the logs all the time.

The writer appends a round when it gets a line, and each round lasts until every topic has been read
since it began. So neither a slow machine nor a fast one changes what is tested, only how often.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.machinery.scale import scaled

from tidelog.arrow.schema import SCHEMA
from tidelog.errors import DataLoss, KafkaStorageError
from tidelog.spark.catalog_table import columns_with_options
from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.batch_reader import LogReader
from tidelog.spark.read.limited_stream_reader import LimitedStreamReader

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
    from tests.compat.conftest import Kafka

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROUNDS = scaled(12)
ROUND = 5000
"""Records that each topic gets in a round, always with the same keys."""

FIRST_MS = 1_700_000_000_000
SMALL = {"internal.segment.bytes": "65536", "index.interval.bytes": "512", "retention.ms": "-1"}
SOON = {"file.delete.delay.ms": "100"}
TOPICS = {
    "kept": SMALL,
    "deleted": SMALL | SOON | {"retention.bytes": "300000"},
    "compacted": SMALL
    | SOON
    | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500"},
}
COLUMNS = columns_with_options({}, has_headers=True)
VALUES = pa.array([bytes([n & 255]) * (n % 100) for n in range(6400)], pa.binary())
"""The value that goes with the number in a record's key; they come again after 6400."""

WRITER = """
import json, sys, tidelog
from tidelog import Codec
settings = {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "200",
            "replica.high.watermark.checkpoint.interval.ms": "100", "log.cleaner.backoff.ms": "200"}
with tidelog.open(sys.argv[1], config=settings) as logs:
    for name, config in json.loads(sys.argv[2]).items():
        logs.create_topic(name, 1, config)
    print("ready", flush=True)
    for round, _ in enumerate(sys.stdin):
        for name in ("kept", "deleted", "compacted"):
            for first in range(0, 5000, 100):
                records = [(1_700_000_000_000 + n, b"java-%d" % n, bytes([n & 255]) * (n % 100), ())
                           for n in range(first, first + 100)]
                logs.partition(name, 0).append_records(records, codec=Codec(round % 5))
        print("rounds", round + 1, flush=True)
"""


@dataclass(frozen=True)
class Kind:
    """What a topic promises: whether offsets have holes, and whether old records are deleted."""

    has_holes: bool = False
    may_go: bool = False
    options: tuple[tuple[str, str], ...] = ()


KINDS = {
    "kept": Kind(),
    "deleted": Kind(may_go=True),
    "compacted": Kind(has_holes=True, may_go=True),
    "transacted": Kind(has_holes=True, options=(("kafka.isolation.level", "read_committed"),)),
}


class Writer:
    """A process that appends a round when it gets a line, and then prints how many there were."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.last = ["rounds", "0"]
        """The words of its last report."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("rounds "):
                self.last = line.split()

    def begin_round(self) -> None:
        """Let it append one more round; return at once."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def has_written(self, rounds: int) -> bool:
        """Return whether it has appended this many rounds, and waits."""
        is_there = self.last[1] == str(rounds)
        assert is_there or self.process.poll() is None
        return is_there

    def finish(self) -> None:
        """Let it close, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait() == 0


class Watch:
    """Reads one topic again and again, and follows it as a stream; counts what it saw."""

    def __init__(self, path: str, topic: str) -> None:
        self.kind = KINDS[topic]
        self.given = {"path": path, "subscribe": topic, "maxSplitBytes": "1000000"}
        self.given |= dict(self.kind.options)
        self.stream = LimitedStreamReader(
            ReadOptions.parse_stream(
                self.given | {"startingOffsets": "earliest", "failOnDataLoss": "false"}
            ),
            COLUMNS,
        )
        self.start = self.stream.initialOffset()
        self.reads = self.batches = self.rows = self.followed = 0
        self.keys = self.followed_keys = np.empty(0, np.int64)
        self.last_read = self.last_followed = -1

    def look(self) -> None:
        """Read all there is, and the stream's next batch; what was deleted may be an error."""
        for step in (self._read, self._follow):
            try:
                step()
            except (DataLoss, KafkaStorageError):
                assert self.kind.may_go

    def is_cleaned_up(self, end: int) -> bool:
        """Return whether the last read had the newest record, and less than half of all."""
        return self.last_read == end - 1 and 0 < self.rows < end / 2

    def _read(self) -> None:
        reader = LogReader(ReadOptions.parse(self.given), COLUMNS)
        rows = table(reader, reader.partitions())
        numbers = self._check(rows)
        if len(rows):
            assert self.last_read <= rows["offset"][-1].as_py()
            self.last_read = rows["offset"][-1].as_py()
        if not self.kind.may_go:
            assert numbers[:1].tolist() in ([], [0])
        self.keys = np.unique(numbers)
        self.rows = len(rows)
        self.reads += 1

    def _follow(self) -> None:
        end = self.stream.latestOffset(self.start, self.stream.getDefaultReadLimit())
        rows = table(self.stream, self.stream.partitions(self.start, end))
        numbers = self._check(rows)
        if len(rows):
            first = rows["offset"][0].as_py()
            assert first > self.last_followed
            assert self.kind.has_holes or self.kind.may_go or first == self.last_followed + 1
            assert not self._is_numbered or numbers[0] == self.followed
            self.last_followed = rows["offset"][-1].as_py()
        self.followed_keys = np.union1d(self.followed_keys, numbers)
        self.followed += len(rows)
        self.batches += 1
        self.start = end

    @property
    def _is_numbered(self) -> bool:
        return bool(self.kind.options)

    def _check(self, rows: pa.Table) -> NDArray[np.int64]:
        """Return the numbers in the keys, each of which holds the record's time and value."""
        steps = np.diff(rows["offset"].to_numpy())
        assert (steps > 0).all() if self.kind.has_holes else (steps == 1).all()
        texts = pc.replace_substring(rows["key"].cast(pa.string()), "java-", "")
        numbers: NDArray[np.int64] = texts.cast(pa.int64()).to_numpy()  # not of "aborted-7"
        millis = rows["timestamp"].cast(pa.int64()).to_numpy() // 1000
        assert (millis - FIRST_MS == numbers).all()
        assert rows["value"].combine_chunks().equals(VALUES.take(pa.array(numbers % len(VALUES))))
        assert not self._is_numbered or (np.diff(numbers) == 1).all()
        return numbers


def table(
    reader: DataSourceReader | DataSourceStreamReader, partitions: list[InputPartition]
) -> pa.Table:
    """Read all partitions, as Spark's tasks would."""
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return pa.Table.from_batches(batches) if batches else SCHEMA.empty_table()


def watch_rounds(path: str, topics: tuple[str, ...], writer: Writer) -> dict[str, Watch]:
    """Look at the topics while the writer appends each round, and until what expires is deleted."""
    watches = {topic: Watch(path, topic) for topic in topics}
    for rounds in range(1, ROUNDS + 1):
        before = {topic: (each.reads, each.batches) for topic, each in watches.items()}
        writer.begin_round()
        is_round_over = False
        while not is_round_over:
            is_written = writer.has_written(rounds)
            for each in watches.values():
                each.look()
            is_round_over = is_written and all(
                each.reads > before[topic][0] and each.batches > before[topic][1]
                for topic, each in watches.items()
            )
    for each in watches.values():
        while each.kind.may_go and not each.is_cleaned_up(ROUNDS * ROUND):
            each.look()
    return watches


def check_end(watches: dict[str, Watch], counts: dict[str, int]) -> None:
    """Look once more: nothing is missing that should be there."""
    for topic, each in watches.items():
        each.look()
        if not each.kind.may_go:
            assert each.rows == each.followed == counts[topic]
        if each.kind.has_holes:
            # Compaction keeps the last record of each key; a commit keeps all of its records.
            last = ROUND if each.kind.may_go else counts[topic]
            assert last == each.keys.size == each.followed_keys.size


@pytest.mark.compat
def test_no_row_is_wrong_beside_a_live_broker(kafka: Kafka) -> None:
    """While Kafka appends, rolls, deletes and compacts, each read is right, or a typed error."""
    create = [
        f"create {topic} {','.join(f'{name}={value}' for name, value in config.items())}"
        for topic, config in (TOPICS | {"transacted": SMALL}).items()
    ]
    command = f"produce-rounds {','.join(TOPICS)} transacted"
    with kafka.running():
        kafka.ask(*create)
        with kafka.java.started("Clients", f"127.0.0.1:{kafka.port}", command) as process:
            writer = Writer(process)
            watches = watch_rounds(str(kafka.directory), tuple(KINDS), writer)
            writer.finish()

    assert writer.last[::2] == ["rounds", "committed"]
    check_end(watches, dict.fromkeys(TOPICS, ROUND * ROUNDS) | {"transacted": int(writer.last[3])})


def test_no_row_is_wrong_beside_a_live_writer(tmp_path: Path) -> None:
    """The same beside a process of ours, with its retention and its cleaner."""
    path = str(tmp_path / "data")
    command = [sys.executable, "-c", WRITER, path, json.dumps(TOPICS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        writer = Writer(process)
        watches = watch_rounds(path, tuple(TOPICS), writer)
        writer.finish()

    check_end(watches, dict.fromkeys(TOPICS, ROUND * ROUNDS))
