"""Spark writes and reads logs, with the columns of Spark's Kafka source."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.datasource import DataSourceReader
from tests.spark.releases import KEEPS_PLANS

import tidelog
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.records.partitioner import partition_for_key
from tidelog.spark import use_in_thread
from tidelog.spark.read.batch_reader import LogReader
from tidelog.staging.staged_file import list_staged

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

KAFKA_COLUMNS = (
    "key binary,value binary,topic string,partition int,offset bigint,timestamp timestamp,"
    "timestampType int"
)
ROWS = "key string, value string, headers array<struct<key: string, value: binary>>"


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    """Return the path of a data directory that does not exist yet."""
    return str(tmp_path / "data")


def write(rows: DataFrame, path: str, topic: str | None = "t", **options: Any) -> None:
    writer = rows.write.format("tidelog").options(**options)
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.mode("append").save(path)


def read(spark: SparkSession, path: str, topic: str = "t", **options: Any) -> DataFrame:
    return spark.read.format("tidelog").option("subscribe", topic).options(**options).load(path)


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")


def test_what_is_written_is_read(spark: SparkSession, data_dir: str) -> None:
    """Each row written becomes one record with its key and value, in the partition of its key."""
    write(numbers(spark, 1000), data_dir, numPartitions=4)

    found = read(spark, data_dir).selectExpr(
        "cast(key AS string)", "cast(value AS string)", "partition", "offset", "topic"
    )

    rows = found.collect()
    assert sorted(int(row.key) for row in rows) == list(range(1000))
    assert all(row.key == row.value and row.topic == "t" for row in rows)
    assert all(row.partition == partition_for_key(row.key.encode(), 4) for row in rows)
    for partition in range(4):
        offsets = sorted(row.offset for row in rows if row.partition == partition)
        assert offsets == list(range(len(offsets)))


def test_columns_are_those_of_the_kafka_source(spark: SparkSession, data_dir: str) -> None:
    """Names, types and order are those of the Kafka source; headers are there on request."""
    write(numbers(spark, 1), data_dir)

    plain, full = read(spark, data_dir), read(spark, data_dir, includeHeaders="true")

    assert ",".join(f"{n} {t}" for n, t in plain.dtypes) == KAFKA_COLUMNS
    assert full.dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")
    assert full.columns[:-1] == plain.columns


def test_headers_and_nulls_survive(spark: SparkSession, data_dir: str) -> None:
    """A null key, a null value, no headers, and a header without value are read back unchanged."""
    rows = [
        ("k", None, None),
        (None, "v", [("a", b"1"), ("b", None), ("a", b"")]),
        (None, None, []),
    ]
    write(spark.createDataFrame(rows, ROWS).coalesce(1), data_dir)

    found = read(spark, data_dir, includeHeaders="true").orderBy("offset").collect()

    headers = [row.headers and [tuple(pair) for pair in row.headers] for row in found]
    assert [(row.key, row.value) for row in found] == [(b"k", None), (None, b"v"), (None, None)]
    assert headers == [None, [("a", b"1"), ("b", None), ("a", b"")], None]


def test_times_are_kept_to_the_millisecond(spark: SparkSession, data_dir: str) -> None:
    """The column timestamp sets each record's timestamp, which is read back as CreateTime."""
    times = spark.sql("SELECT 'v' AS value, timestamp'2013-01-01 05:15:00.123456Z' AS timestamp")
    write(times, data_dir)

    row = read(spark, data_dir).select("timestamp", "timestampType").collect()[0]

    assert row.timestampType == 0
    assert row.timestamp == datetime.fromtimestamp(1_357_017_300.123)  # noqa: DTZ006 - as Spark gives it


def test_only_the_chosen_columns_are_read(spark: SparkSession, data_dir: str) -> None:
    """``.schema(...)`` names the columns to decode, in any order, headers among them."""
    write(numbers(spark, 10), data_dir)

    source = spark.read.format("tidelog").option("subscribe", "t")
    two = source.schema("offset long, key binary").load(data_dir)

    assert two.dtypes == [("offset", "bigint"), ("key", "binary")]
    assert sorted(row.offset for row in two.collect()) == list(range(10))
    assert source.schema("headers " + ROWS.partition("headers ")[2]).load(data_dir).count() == 10
    other = source.schema("OFFSET long, timestamptype int").load(data_dir)
    assert sorted(row.OFFSET for row in other.collect()) == list(range(10))
    assert other.columns == ["OFFSET", "timestamptype"]


def test_no_filter_is_pushed_down() -> None:
    """Spark applies pushed filters to later queries of a DataFrame, so none is accepted."""
    assert LogReader.__bases__ == (DataSourceReader,)
    assert "pushFilters" not in vars(LogReader)


def test_one_query_never_narrows_another(spark: SparkSession, data_dir: str) -> None:
    """Four kinds of queries that would leak a pushed filter return the right rows."""
    write(numbers(spark, 1000), data_dir, numPartitions=2)
    df = read(spark, data_dir)
    few = df.filter("offset < 10")
    df.createOrReplaceTempView("leak")

    counts = [
        (few.count(), df.count()),
        (few.union(df.filter("offset >= 400")).count(), df.filter("offset >= 400").count()),
        (few.join(df, ["partition", "offset"], "right").count(),),
        tuple(
            spark.sql(
                "SELECT (SELECT count(*) FROM leak WHERE offset < 10), (SELECT count(*) FROM leak)"
            ).collect()[0]
        ),
    ]

    late = counts[1][1]
    assert counts == [(20, 1000), (20 + late, late), (1000,), (20, 1000)]
    assert late > 0


def test_an_empty_topic_has_no_rows(spark: SparkSession, data_dir: str) -> None:
    """A topic without records has no rows; a write of no rows creates such a topic."""
    with tidelog.open(data_dir) as directory:
        directory.create_topic("empty", 3)
    write(numbers(spark, 0), data_dir, "made", numPartitions=2)

    assert read(spark, data_dir, "empty").count() == 0
    assert read(spark, data_dir, "made").collect() == []


def test_the_error_for_a_missing_topic_lists_the_existing_ones(
    spark: SparkSession, data_dir: str
) -> None:
    """Reading a topic or a directory that does not exist is an error that names it."""
    write(numbers(spark, 1), data_dir, "flights")

    with pytest.raises(AnalysisException, match=r"no topic flihgts in .*its topics: flights"):
        read(spark, data_dir, "flihgts").count()
    with pytest.raises(AnalysisException, match="is not a data directory"):
        read(spark, data_dir + "/none", "flights").count()


def test_offsets_bound_a_read(spark: SparkSession, data_dir: str) -> None:
    """Starting offsets are inclusive, ending offsets exclusive, and set for each partition."""
    write(numbers(spark, 100), data_dir)

    part = read(
        spark, data_dir, startingOffsets='{"t":{"0":10}}', endingOffsets='{"t":{"0":-1}}'
    ).filter("offset < 1000")
    few = read(spark, data_dir, startingOffsets='{"t":{"0":10}}', endingOffsets='{"t":{"0":13}}')

    assert part.count() == 90
    assert [row.offset for row in few.collect()] == [10, 11, 12]
    with pytest.raises(AnalysisException, match="the log ends at 100"):
        read(spark, data_dir, startingOffsets='{"t":{"0":101}}').count()


def test_many_tasks_read_each_record_once(spark: SparkSession, data_dir: str) -> None:
    """Many tasks read every record of a log once, in offset order within each task."""
    write(numbers(spark, 20_000), data_dir, numPartitions=3, batchBytes=2000)

    cut = read(spark, data_dir, minPartitions=7)
    small = read(spark, data_dir, maxRecordsPerPartition=3000)

    assert cut.rdd.getNumPartitions() >= 7
    assert cut.select("partition", "offset").distinct().count() == cut.count() == 20_000
    assert max(small.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()) <= 3000
    assert small.select("partition", "offset").distinct().count() == 20_000


def test_each_row_may_name_its_topic(spark: SparkSession, data_dir: str) -> None:
    """Rows are written to the topic in their column; the option ``topic`` overrides it."""
    rows = spark.range(10).selectExpr(
        "concat('topic', id % 2) AS topic", "cast(id AS string) AS value", "0 AS partition"
    )
    write(rows, data_dir, topic=None)
    write(rows, data_dir, topic="all")

    assert read(spark, data_dir, "topic0,topic1").groupBy("topic").count().orderBy(
        "topic"
    ).collect() == [("topic0", 5), ("topic1", 5)]
    assert read(spark, data_dir, "all").count() == 10


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_survives_a_round_trip(spark: SparkSession, data_dir: str, codec: str) -> None:
    """A topic with a compression type has batches of that codec, which are readable."""
    write(numbers(spark, 500), data_dir, **{"topic.compression.type": codec})

    with tidelog.open_read_only(f"{data_dir}/t-0") as log:
        codecs = {int(code) for piece in log.pieces() for code in piece.batches.codec}

    assert codecs == {int(tidelog.Codec.named(codec))}
    assert read(spark, data_dir).select("value").distinct().count() == 500


def test_a_write_leaves_no_staged_files(spark: SparkSession, data_dir: str) -> None:
    """Neither a commit nor a failed job leaves staged files."""
    write(numbers(spark, 10), data_dir)
    failing = spark.range(10).selectExpr("CAST(raise_error('no') AS string) AS value")

    with pytest.raises(PySparkException, match="no"):
        write(failing, data_dir)

    assert list_staged(SYSTEM_FILES, data_dir) == []
    assert read(spark, data_dir).count() == 10


@pytest.mark.parametrize(
    ("expression", "options", "words"),
    [
        ("id AS value", {}, "column value must be binary or string, not bigint"),
        ("'a' AS key", {}, "there is no column value"),
        ("'a' AS value; 'b' AS carrier", {}, "column carrier is not a field of a record"),
        ("'a' AS value", {"topic": "no/name"}, "topic name 'no/name'"),
        ("'a' AS value", {"compression": "rar"}, "option compression must be none or gzip"),
        ("'a' AS value", {"numPartition": "3"}, "did you mean numPartitions?"),
    ],
)
def test_a_bad_column_or_option_fails_before_the_write_starts(
    spark: SparkSession, data_dir: str, expression: str, options: dict[str, str], words: str
) -> None:
    """A bad column or option is an error on the driver that names the remedy."""
    with pytest.raises(AnalysisException, match=words.replace("?", r"\?")):
        write(
            spark.range(1).selectExpr(*expression.split(";")), data_dir, **{"topic": "t"} | options
        )


def test_a_write_does_not_change_how_many_partitions_a_topic_has(
    spark: SparkSession, data_dir: str
) -> None:
    """A different ``numPartitions`` is an error; the same number, or none, is accepted."""
    for options in ({"numPartitions": "2"}, {"numPartitions": "2"}, {}):
        write(numbers(spark, 5), data_dir, **options)

    with pytest.raises(AnalysisException, match="topic t has 2 partitions"):
        write(numbers(spark, 5), data_dir, numPartitions="3")
    assert read(spark, data_dir).count() == 15


def test_overwriting_is_refused(spark: SparkSession, data_dir: str) -> None:
    """A log can only be appended to; overwriting would delete other writers' records."""
    rows = numbers(spark, 1).write.format("tidelog").option("topic", "t")

    with pytest.raises(AnalysisException, match="can only be appended to"):
        rows.mode("overwrite").save(data_dir)


def test_sql_finds_the_format(spark: SparkSession, data_dir: str) -> None:
    """A view over a topic is created in SQL, without import or registration."""
    write(numbers(spark, 5), data_dir)

    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW log USING tidelog OPTIONS "
        f"(path 'file:{data_dir}', subscribe 't')"
    )

    assert spark.sql("SELECT max(offset) FROM log").collect()[0][0] == 4
    assert os.path.isdir(data_dir)


def test_a_catalog_table_is_a_log(spark: SparkSession, data_dir: str) -> None:
    """``CREATE TABLE ... USING tidelog`` creates a persistent table that is read by name."""
    write(numbers(spark, 5), data_dir)
    try:
        spark.sql(f"CREATE TABLE kept USING tidelog OPTIONS (subscribe 't') LOCATION '{data_dir}'")
        write(numbers(spark, 2), data_dir)

        assert spark.table("kept").count() == 7
        assert spark.sql("SELECT max(offset) FROM kept").collect()[0][0] == 6
    finally:
        spark.sql("DROP TABLE IF EXISTS kept")
    assert read(spark, data_dir).count() == 7


def test_a_table_with_columns_has_the_options_of_its_queries(
    spark: SparkSession, data_dir: str
) -> None:
    """Spark's catalog keeps none of them; without, an error names the remedies."""
    try:
        spark.sql("CREATE TABLE declared (Value BINARY, key BINARY) USING tidelog")
        spark.sql("CREATE TABLE wrong (value BINARY, carrier STRING) USING tidelog")
        options = f"WITH (path = '{data_dir}', subscribe = 't')"
        spark.sql(
            f"INSERT INTO declared WITH (path = '{data_dir}', topic = 't') VALUES (X'31', X'6B')"
        )
        assert spark.sql(f"SELECT * FROM declared {options}").collect() == [(b"1", b"k")]
        with pytest.raises(AnalysisException, match="unknown column 'carrier'"):
            spark.sql(f"SELECT * FROM wrong {options}").collect()
        for query in ("SELECT * FROM declared", "INSERT INTO declared VALUES (X'31', X'6B')"):
            with pytest.raises(AnalysisException, match="no data directory is named"):
                spark.sql(query).collect()
    finally:
        spark.sql("DROP TABLE IF EXISTS declared")
        spark.sql("DROP TABLE IF EXISTS wrong")


def test_load_checks_options(spark: SparkSession, data_dir: str) -> None:
    """Of a stream, too, and CREATE TABLE those of a table: before any query."""
    bad = {"subscribe": "t", "minPartitions": "0"}
    for reader in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException, match="option minPartitions must be at least 1"):
            reader.format("tidelog").options(**bad).load(data_dir)
    with pytest.raises(AnalysisException, match="option numPartitions must be an integer"):
        spark.sql(
            "CREATE TABLE refused USING tidelog OPTIONS (topic 't', numPartitions 'x')"
            f" LOCATION '{data_dir}'"
        )


def test_errors_show_no_traceback(spark: SparkSession, data_dir: str) -> None:
    """Neither when a query is planned or a stream begins nor in a task."""
    write(numbers(spark, 1), data_dir)
    no_topic = spark.sql("SELECT 'v' AS value, CAST(null AS string) AS topic")

    def run_to(topic: str, **options: str) -> None:
        stream = spark.readStream.format("tidelog").option("subscribe", "t")
        rows = stream.options(startingOffsets="earliest", **options).load(data_dir)
        sink = rows.select("value").writeStream.format("tidelog").option("topic", topic)
        sink = sink.option("checkpointLocation", f"{data_dir}-{topic[:1]}")
        sink.trigger(availableNow=True).start(data_dir).awaitTermination(60)

    for fails, words in (
        (lambda: read(spark, data_dir, minPartition="1"), "unknown option minpartition; did you"),
        (lambda: read(spark, data_dir, "nope").count(), "no topic nope in"),
        (lambda: write(numbers(spark, 1), data_dir, "no/name"), "topic name 'no/name'"),
        (lambda: write(no_topic, data_dir, topic=None), "a row has null in column topic"),
        (lambda: run_to("other", endingOffsets="latest"), "endingOffsets is not supported for"),
        (lambda: run_to("no/name"), "topic name 'no/name'"),
    ):
        with pytest.raises(PySparkException, match=words) as caught:
            fails()
        assert "Traceback" not in str(caught.value)
        assert '.py", line' not in str(caught.value)


def test_a_data_frame_keeps_the_offsets_of_its_first_query(
    spark: SparkSession, data_dir: str
) -> None:
    """As docs/spark.md says; once they are deleted, the error names the remedy.

    Spark 4.0 plans each of its queries again. A new ``load()`` and a table in the catalog see what
    is there now.
    """
    write(numbers(spark, 5), data_dir)
    kept = read(spark, data_dir)
    try:
        spark.sql(f"CREATE TABLE now USING tidelog OPTIONS (subscribe 't') LOCATION '{data_dir}'")
        assert (kept.count(), spark.table("now").count()) == (5, 5)
        write(numbers(spark, 2), data_dir)
        assert (kept.count(), spark.table("now").count()) == (5 if KEEPS_PLANS else 7, 7)
        assert read(spark, data_dir).count() == 7
        with tidelog.open(data_dir) as directory:
            directory.partition("t", 0).log.maybe_increment_log_start_offset(4)

        if KEEPS_PLANS:
            with pytest.raises(PySparkException, match=r"call load\(\) again"):
                kept.count()
        else:
            assert kept.count() == 3
        assert (read(spark, data_dir).count(), spark.table("now").count()) == (3, 3)
    finally:
        spark.sql("DROP TABLE IF EXISTS now")


def test_a_thread_writes_once_the_session_is_active_in_it(
    spark: SparkSession, data_dir: str
) -> None:
    """``use_in_thread`` makes it so; without it Spark does not find the sink."""
    rows = numbers(spark, 3)

    def write_prepared() -> None:
        use_in_thread(spark)
        write(rows, data_dir)

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
            pool.submit(write, rows, data_dir).result()
        pool.submit(write_prepared).result()
    assert read(spark, data_dir).count() == 3


def test_timestamps_and_isolation_bound_a_read(spark: SparkSession, data_dir: str) -> None:
    """Timestamps select records; a start later than all is an error or the end, by strategy."""
    rows = spark.range(5).selectExpr(
        "cast(id AS string) AS value", "timestamp_millis(1700000000000 + id * 1000) AS timestamp"
    )
    write(rows.coalesce(1), data_dir)
    committed = {"kafka.isolation.level": "read_committed", "kafka.bootstrap.servers": "none:1"}
    window: dict[str, Any] = {
        "startingTimestamp": 1_700_000_001_000,
        "endingTimestamp": 1_700_000_003_000,
    }
    late: dict[str, Any] = {"startingTimestamp": 1_800_000_000_000}

    found = read(spark, data_dir, **window, **committed).collect()

    assert sorted(row.offset for row in found) == [1, 2]
    assert read(spark, data_dir, **late, startingOffsetsByTimestampStrategy="latest").count() == 0
    with pytest.raises(AnalysisException, match="no record at or after timestamp"):
        read(spark, data_dir, **late).count()


def test_lost_offsets_fail_a_read_unless_data_loss_is_accepted(
    spark: SparkSession, data_dir: str
) -> None:
    """Offsets deleted by delete-records are an error with range and cause, or are skipped."""
    write(numbers(spark, 10), data_dir)
    with tidelog.open(data_dir) as directory:
        directory.partition("t", 0).log.maybe_increment_log_start_offset(4)
    wanted = {"startingOffsets": '{"t":{"0":1}}'}

    with pytest.raises(AnalysisException, match=r"t-0 has no offsets \[1, 4\): delete-records"):
        read(spark, data_dir, **wanted).count()
    assert read(spark, data_dir, **wanted, failOnDataLoss="false").count() == 6
