"""The same topics by Spark's own Kafka source, from a broker, and by ours, from its directory."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.compat.conftest import hand_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.compat.conftest import Kafka, Written

pytestmark = [pytest.mark.compat, pytest.mark.spark, pytest.mark.slow]

TOPICS = "compacted,cut,mixed,stamped,transacted"
TRIES = 40
SMALL = "internal.segment.bytes=16384,index.interval.bytes=512,retention.ms=-1"
STAMPED = f"{SMALL},message.timestamp.type=LogAppendTime"
COMPACT = f"{SMALL},cleanup.policy=compact,min.cleanable.dirty.ratio=0.01,segment.ms=500"


@pytest.fixture(scope="module")
def served(
    new_kafka: Callable[[Path], Kafka],
    write_mixed: Callable[[Path], Written],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kafka]:
    """Return a running broker over logs of all kinds.

    ``mixed`` has every codec, headers, nulls and transactions, and an epoch for each start;
    ``cut`` begins at offset 1234; ``compacted`` has gaps; ``stamped`` has three partitions and the
    broker's times; ``transacted`` Kafka's own transactions, the last one open.
    """
    folder = tmp_path_factory.mktemp("kafka")
    kafka = new_kafka(folder)
    produced = [f"produce compacted {codec} 1000" for codec in ("none", "zstd", "lz4")]
    with kafka.running():
        kafka.ask(f"create mixed {SMALL}", f"create cut {SMALL}", f"create compacted {COMPACT}")
        kafka.ask(f"create stamped {STAMPED} 3", f"create transacted {SMALL}")
        kafka.ask(*produced, "produce stamped zstd 700 3", "produce stamped none 100 2")
        kafka.ask("transact transacted 7")
    hand_over(write_mixed(folder).directory, kafka.directory / "mixed-0")
    for codec in ("gzip", "snappy"):
        with kafka.running():
            kafka.ask(*(f"produce {topic} {codec} 1000" for topic in ("mixed", "cut")))
            if codec == "snappy":
                kafka.ask("delete-records cut 1234", "produce compacted none 10")
                assert any(len(kafka.consume("compacted")) < 2000 for _ in range(TRIES))
    with kafka.running():
        yield kafka


@pytest.fixture
def both(spark: SparkSession, served: Kafka) -> Callable[..., tuple[DataFrame, DataFrame]]:
    """Read with the same options through both sources: Kafka's, then ours."""

    def load(**options: Any) -> tuple[DataFrame, DataFrame]:
        given = options if {"assign", "subscribePattern"} & set(options) else {"subscribe": TOPICS}
        given = given | options | {"kafka.bootstrap.servers": f"127.0.0.1:{served.port}"}
        theirs = spark.read.format("kafka").options(**given).load()
        return theirs, spark.read.format("tidelog").options(**given).load(str(served.directory))

    return load


def offsets(**topics: int) -> str:
    return json.dumps({topic: {"0": offset} for topic, offset in topics.items()})


FIRST_MS = 1_700_000_000_000
COMMITTED = {"kafka.isolation.level": "read_committed"}
HEADERS = {"includeHeaders": "true"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        HEADERS,
        COMMITTED | HEADERS,
        {
            "subscribe": "mixed,cut,compacted",
            "startingOffsets": offsets(mixed=17, cut=1500, compacted=-2),
        },
        {
            "subscribe": "mixed,cut,compacted",
            "startingOffsets": offsets(mixed=17, cut=-2, compacted=100),
            "endingOffsets": offsets(mixed=1000, cut=1600, compacted=-1),
        }
        | COMMITTED,
        {"subscribe": "transacted", "endingOffsets": offsets(transacted=170)},
        {"subscribe": "transacted", "endingOffsets": offsets(transacted=170)} | COMMITTED,
        {
            "subscribe": "stamped",
            "startingOffsets": '{"stamped":{"0":20,"1":-2,"2":7}}',
            "endingOffsets": '{"stamped":{"0":-1,"1":100,"2":7}}',
        },
        {"subscribe": "stamped,mixed", "startingTimestamp": str(FIRST_MS), "minPartitions": "9"},
        {
            "subscribe": "stamped,transacted",
            "startingTimestamp": str(FIRST_MS + 120),
            "startingOffsetsByTimestampStrategy": "latest",
        }
        | COMMITTED,
        {
            "assign": '{"stamped":[0,2]}',
            "startingTimestamp": str(2 * FIRST_MS),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {
            "subscribe": "mixed",
            "startingTimestamp": str(FIRST_MS + 200),
            "endingTimestamp": str(FIRST_MS + 20_000),
        },
        {
            "subscribe": "mixed,cut",
            "startingOffsetsByTimestamp": offsets(mixed=FIRST_MS + 5000, cut=FIRST_MS),
            "endingOffsetsByTimestamp": offsets(mixed=FIRST_MS + 30_000, cut=FIRST_MS + 100_000),
        }
        | COMMITTED,
        {"minPartitions": "7"},
        {"maxRecordsPerPartition": "300"} | HEADERS,
        {"subscribePattern": "^c|xed"},
        {"assign": '{"mixed":[0],"cut":[0]}'},
        {
            "assign": '{"cut":[0]}',
            "startingOffsets": offsets(cut=7),
            "failOnDataLoss": "false",
        },
    ],
    ids=str,
)
def test_both_sources_give_the_same_rows(
    both: Callable[..., tuple[DataFrame, DataFrame]], options: dict[str, str]
) -> None:
    """With any options, neither source has a row that the other has not, and types are equal."""
    theirs, ours = both(**options)

    assert ours.schema == theirs.schema
    assert ours.exceptAll(theirs).union(theirs.exceptAll(ours)).collect() == []
    assert ours.count() > 0 or "stamped" in options.get("assign", "")


def test_a_time_is_found_in_a_compacted_log_where_kafka_finds_it_and_beyond(
    both: Callable[..., tuple[DataFrame, DataFrame]],
) -> None:
    """Kafka looks only in the first segment that once reached the time; we find a later record.

    Where removed records alone had reached it there, Kafka refuses the time. Which ones those are,
    if any, depends on when the broker's cleaner came by. It may come by once more between reads.
    """
    for time_ms in range(FIRST_MS, FIRST_MS + 1000, 100):
        given = {"assign": '{"compacted":[0]}', "startingTimestamp": str(time_ms)}
        for _ in range(3):
            theirs, ours = (first_offset(frame) for frame in both(**given))
            if ours == theirs:
                break
            if theirs is None:
                whole = both(assign='{"compacted":[0]}')[1]
                theirs = first_offset(whole.where(f"unix_millis(timestamp) >= {time_ms}"))
        assert ours == theirs


def first_offset(frame: DataFrame) -> int | None:
    """Return the first offset that is read; None if the time to start at is refused."""
    try:
        return min(int(row.offset) for row in frame.select("offset").collect())
    except PySparkException as error:
        if not re.search(r"No offset matched|no record at or after", str(error)):
            raise
        return None


def test_order_within_a_partition_is_that_of_offsets(
    both: Callable[..., tuple[DataFrame, DataFrame]],
) -> None:
    """Both sources give the rows of a partition in the order of offsets."""
    theirs, ours = both(assign='{"mixed":[0]}')

    assert ours.collect() == theirs.collect()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_both_streams_end_with_the_same_rows_at_the_same_offsets(
    spark: SparkSession, served: Kafka, isolation: str
) -> None:
    """AvailableNow through both sources gives equal rows, in batches that end at equal offsets."""
    given = {
        "subscribe": TOPICS,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "1500",
        "kafka.isolation.level": isolation,
        "kafka.bootstrap.servers": f"127.0.0.1:{served.port}",
    }
    ends = {}
    for source in ("kafka", "tidelog"):
        name = f"{source}_{isolation}"
        reader = spark.readStream.format(source).options(**given)
        rows = reader.load(str(served.directory)) if source == "tidelog" else reader.load()
        writer = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        query = writer.start()
        assert query.awaitTermination(100)
        sources = [progress["sources"][0] for progress in query.recentProgress]
        ends[source] = [plain(each["endOffset"]) for each in sources if each["numInputRows"]]
    theirs, ours = (spark.table(f"{source}_{isolation}") for source in ("kafka", "tidelog"))

    assert ours.exceptAll(theirs).union(theirs.exceptAll(ours)).collect() == []
    assert ends["tidelog"] == ends["kafka"]


def plain(text: str) -> dict[str, Any]:
    """Read the offsets out of an offset of a query's progress."""
    return {name: of for name, of in json.loads(text).items() if "#" not in name}


def test_a_stream_of_the_kafka_source_continues_from_its_checkpoint(
    spark: SparkSession, served: Kafka, tmp_path: Path
) -> None:
    """With our source, in its place: no record is lost, and only an uncommitted batch repeated.

    Its sink is ours already, so even that batch is in the logs once.
    """
    given = {
        "subscribe": "stamped,compacted",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "500",
        "kafka.bootstrap.servers": f"127.0.0.1:{served.port}",
    }
    copy, checkpoint = str(tmp_path / "copy"), str(tmp_path / "checkpoint")

    def run(source: str, batches: int | None) -> None:
        reader = spark.readStream.format(source).options(**given)
        rows = reader.load(str(served.directory)) if source == "tidelog" else reader.load()
        place = "topic AS `from`, partition AS `number`, offset AS `at`"
        writer = (
            rows.selectExpr("key", "headers", "timestamp", f"to_json(struct({place})) AS value")
            .writeStream.format("tidelog")
            .options(topic="copy", checkpointLocation=checkpoint)
        )
        if batches is None:
            query = writer.trigger(availableNow=True).start(copy)
            assert query.awaitTermination(100)
            return
        query = writer.trigger(processingTime="3 seconds").start(copy)
        while query.isActive and (query.lastProgress or {"batchId": -1})["batchId"] < batches:
            query.awaitTermination(1)
        query.stop()

    run("kafka", 1)
    last = max(
        (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    last.unlink()
    run("tidelog", None)

    rows = spark.read.format("tidelog").option("subscribe", "copy").load(copy)
    found = [tuple(json.loads(row.value).values()) for row in rows.select("value").collect()]
    reader = spark.read.format("tidelog").option("subscribe", given["subscribe"])
    records = reader.load(str(served.directory)).select("topic", "partition", "offset")
    assert sorted(found) == sorted(map(tuple, records.collect()))
    assert len(found) > 500
