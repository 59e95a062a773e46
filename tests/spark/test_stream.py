"""Streams over a log in Spark: batches, restarts, progress."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.releases import NEEDS_LIMITS

import tidelog
import tidelog.spark
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import UnknownTopicOrPartition
from tidelog.explain.groups import group_positions
from tidelog.manager.metrics.metric import parse_prometheus
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.spark.releases import has_limits, spark_release

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

TIMEOUT_S = 600


class Stream:
    """A topic ``t``, a checkpoint, and the rows of each batch of the queries over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.data = str(folder / "data")
        self.checkpoint = str(folder / "checkpoint")
        self.batches: list[tuple[int, list[tuple[int, int]]]] = []

    def append(self, count: int, partition: int = 0, topic: str = "t") -> None:
        with tidelog.open(self.data) as directory:
            partitions = 2 if topic == "t" else 1
            if topic not in directory.topics():
                directory.create_topic(topic, partitions)
            target = directory.partition(topic, partition)
            for number in range(count):
                target.append_records([(-1, None, str(number).encode(), [])])

    def run(self, **options: Any) -> StreamingQuery:
        """Run a query over the available records to its end; keep the rows of its batches."""
        query = self.start(**options)
        assert query.awaitTermination(TIMEOUT_S)
        return query

    def start(self, **options: Any) -> StreamingQuery:
        all_options = {"subscribe": "t", "startingOffsets": "earliest"} | options
        rows = self.spark.readStream.format("tidelog").options(**all_options).load(self.data)
        writer = rows.select("partition", "offset").writeStream.foreachBatch(self._keep)
        writer = writer.option("checkpointLocation", self.checkpoint)
        return writer.trigger(availableNow=True).start()

    def _keep(self, rows: DataFrame, number: int) -> None:
        self.batches.append((number, sorted((row[0], row[1]) for row in rows.collect())))

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for _, rows in self.batches for row in rows)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Return a stream over a directory that does not exist yet."""
    return Stream(spark, tmp_path)


def offsets(text: str) -> dict[str, Any]:
    """Return the offsets in the JSON of a query's progress, without topic ids."""
    return {name: entry for name, entry in json.loads(text).items() if "#" not in name}


@NEEDS_LIMITS
def test_a_stream_reads_limited_batches_and_reports_its_lag(stream: Stream) -> None:
    """AvailableNow reads limited batches; progress has offsets in the form of the Kafka source.

    A second run reads the records appended since.
    """
    stream.append(6)
    stream.append(4, partition=1)
    options = {"maxOffsetsPerTrigger": 5}

    query = stream.run(**options)
    first = stream.batches[:]
    stream.append(3, partition=1)
    stream.run(**options)

    assert [len(rows) for _, rows in first] == [5, 5]
    assert stream.rows == [(0, n) for n in range(6)] + [(1, n) for n in range(7)]
    sources = [progress["sources"][0] for progress in query.recentProgress]
    ends = [source["endOffset"] for source in sources if source["numInputRows"]]
    assert [offsets(end) for end in ends] == [{"t": {"0": 3, "1": 2}}, {"t": {"0": 6, "1": 4}}]
    assert json.loads(sources[0]["latestOffset"]) == {"t": {"0": 6, "1": 4}}


def test_a_batch_that_was_not_committed_is_repeated_with_the_same_rows(stream: Stream) -> None:
    """After a crash the last batch is repeated, whatever was appended meanwhile."""
    stream.append(3)
    stream.run()
    os.unlink(os.path.join(stream.checkpoint, "commits", "0"))
    stream.append(2)

    stream.run()

    three, two = [(0, 0), (0, 1), (0, 2)], [(0, 3), (0, 4)]
    assert stream.batches == [(0, three), (0, three), (1, two)]


@pytest.mark.skipif(has_limits(spark_release()), reason="this release has limits")
@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_a_release_without_limits_refuses_them(stream: Stream, option: str) -> None:
    """The error names the option, and the release that it needs."""
    stream.append(1)

    with pytest.raises(StreamingQueryException, match=f"{option} needs Spark 4.2 or later"):
        stream.run(**{option: 5})


def test_a_checkpoint_on_a_local_disk_has_no_checksum_files(stream: Stream) -> None:
    """Our session writes none, as Spark asks for, which saves the processes to write them."""
    stream.append(1)

    stream.run()

    for kind in ("offsets", "commits"):
        assert os.listdir(os.path.join(stream.checkpoint, kind)) == ["0"]


def test_a_recreated_topic_fails_the_stream_unless_data_loss_is_accepted(stream: Stream) -> None:
    """It is detected by its id; the error names topic, offsets and cause."""
    stream.append(2)
    stream.run()
    with tidelog.open(stream.data) as directory:
        directory.delete_topic("t")
    stream.append(5)

    with pytest.raises(StreamingQueryException, match="t-0 has no offsets from 2 on: the topic"):
        stream.run()
    stream.run(failOnDataLoss="false")

    assert stream.batches[-1][1] == [(0, n) for n in range(5)]


def test_ending_offsets_are_refused(stream: Stream) -> None:
    """A stream has no end, so an option that sets one is an error."""
    stream.append(1)

    with pytest.raises(
        StreamingQueryException, match="endingOffsets is not supported for a stream"
    ):
        stream.run(endingOffsets="latest")


@NEEDS_LIMITS
def test_a_checkpoint_of_the_kafka_source_is_continued(stream: Stream) -> None:
    """Without loss or repetition, except the batch that it has planned and not committed.

    The files are as the Kafka source writes them: plain offsets, and its own initial ones.
    """
    stream.append(4)
    stream.append(3, partition=1)
    stream.run(maxOffsetsPerTrigger=4)
    stream.append(2)
    first = stream.batches[:]
    for number, ends in (("0", {"0": 2, "1": 1}), ("1", {"0": 4, "1": 3})):
        path = os.path.join(stream.checkpoint, "offsets", number)
        *head, line = Path(path).read_text("utf-8").split("\n")
        assert offsets(line) == {"t": ends}
        Path(path).write_text("\n".join([*head, json.dumps({"t": ends})]), "utf-8")
    sources = Path(stream.checkpoint, "sources", "0")
    sources.mkdir(parents=True, exist_ok=True)
    (sources / "0").write_bytes(b'\0v1\n{"t":{"0":0,"1":0}}')
    os.unlink(os.path.join(stream.checkpoint, "commits", "1"))

    stream.run()

    assert [number for number, _ in stream.batches] == [0, 1, 1, 2]
    assert stream.batches[2] == first[1]
    assert stream.batches[3] == (2, [(0, 4), (0, 5)])
    assert stream.rows == sorted(
        [(0, n) for n in range(6)] + [(1, n) for n in range(3)] + first[1][1]
    )


def test_the_lag_of_a_stream_is_logged_measured_and_committed_to_a_group(
    stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After each batch; the positions also while another process holds the directory."""
    caplog.set_level("INFO", "tidelog.spark.streams")
    is_limited = has_limits(spark_release())
    stream.append(6)
    stream.append(4, partition=1)
    metrics = tmp_path / "streams.prom"
    monitor = tidelog.spark.watch_streams(
        stream.spark, stream.data, metrics_file=str(metrics), groups={"watched": "watchers"}
    )
    try:
        with tidelog.open(stream.data):
            reader = stream.spark.readStream.format("tidelog").load
            limits: dict[str, Any] = {"maxOffsetsPerTrigger": 5} if is_limited else {}
            rows = reader(stream.data, subscribe="t", startingOffsets="earliest", **limits)
            writer = rows.writeStream.format("memory").queryName("watched")
            query = writer.option("checkpointLocation", stream.checkpoint).start()
            query.processAllAvailable()
            positions = _wait_for(lambda: _positions(stream.data), {0: 6, 1: 4})
        (found,) = monitor.streams.values()
        values = {
            (name, tags.get("partition")): value
            for name, tags, value in parse_prometheus(metrics.read_text("utf-8"))
        }
        query.stop()
    finally:
        monitor.stop()

    assert positions == {0: 6, 1: 4}
    assert (found.query, found.max_behind, found.batch_id) == ("watched", 0, int(is_limited))
    assert values["tidelog_streams_offsets_behind_latest", "1"] == 0
    lags = [
        line.getMessage().rpartition("records=")[2]
        for line in caplog.records
        if line.getMessage().startswith("stream-progress")
    ]
    limited = ["5 max_behind=3 behind=5", "5 max_behind=0 behind=0"]
    assert lags == (limited if is_limited else ["10 max_behind=0 behind=0"])
    assert not metrics.exists()


def _positions(path: str) -> dict[int, int | None]:
    """Return the positions of the group, by partition, beside who holds the directory."""
    directory = open_directory_read_only(path, fs=SYSTEM_FILES)
    try:
        found = group_positions(directory, ["watchers"])
    except UnknownTopicOrPartition:
        return {}
    return {one.key.partition: one.offset for one in found}


def _wait_for(look: Callable[[], Any], expected: object) -> Any:
    """Return what ``look`` returns once that is as expected, or after a while."""
    for _ in range(600):
        if look() == expected:
            break
        threading.Event().wait(0.1)
    return look()
