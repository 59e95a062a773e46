"""Streams over a log in Spark: batches, restarts, progress."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

TIMEOUT_S = 100


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
