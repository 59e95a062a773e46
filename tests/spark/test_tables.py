"""Rows go to the table that a statement names, or the statement is refused with the cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from tests.machinery.scale import scaled

from tidelog.spark.releases import spark_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.conftest import Enumerated

pytestmark = pytest.mark.spark

COLUMNS = "key, value, topic, partition, CAST(NULL AS BIGINT) offset, timestamp, timestampType"
NO_ROW = (b"k", b"v", None, None, None, None, None)
UNCHANGED = "the rows have the columns of a table as they were read"
APPEND_ONLY = "a log can only be appended to"
SPARKS_OWN = "does not support|not supported|cannot be found"


class Form(NamedTuple):
    """A way to write rows of table ``src`` to table ``dst``, and the reason why it is refused."""

    name: str
    write: Callable[[SparkSession, str], Any]
    refusal: str | None = None


def sql(text: str, refusal: str | None = None) -> Form:
    """Return the form of a statement; ``PATH`` in it is the data directory."""
    return Form(text, lambda spark, path: spark.sql(text.replace("PATH", path)), refusal)


def frame(name: str, write: Callable[[DataFrame, str], Any], refusal: str | None = None) -> Form:
    """Return the form of a call that writes the DataFrame of the table ``src``."""
    return Form(name, lambda spark, path: write(spark.table("src"), path), refusal)


def null_offsets(rows: DataFrame) -> DataFrame:
    return rows.withColumn("offset", sf.lit(None).cast("long"))


def stream_to_table(spark: SparkSession, path: str) -> None:
    writer = spark.readStream.table("src").writeStream.option("checkpointLocation", f"{path}_ck")
    writer.trigger(availableNow=True).toTable("dst").awaitTermination()


def of_its_schema(spark: SparkSession, _path: str) -> None:
    rows = spark.createDataFrame([NO_ROW] * 5, spark.table("src").schema)
    rows.writeTo("dst").append()


OF_FEW_COLUMNS = [
    sql("INSERT INTO dst BY NAME SELECT value, key FROM src"),
    sql("INSERT INTO dst (key, value) SELECT key, value FROM src"),
    sql("INSERT INTO dst WITH (path = 'PATH', topic = 'dst') (value) SELECT value FROM src"),
]
"""Spark 4.0 refuses them: it inserts rows only with all columns of a table."""
FORMS = [
    *(OF_FEW_COLUMNS if spark_release() >= (4, 1) else []),
    sql(f"INSERT INTO dst SELECT {COLUMNS} FROM src"),
    sql("INSERT INTO dst SELECT * FROM src"),
    sql("INSERT INTO dst TABLE src"),
    sql(f"INSERT INTO dst SELECT {COLUMNS} FROM kept"),
    sql("INSERT INTO dst SELECT * FROM seen"),
    sql("INSERT INTO dst SELECT * FROM reads"),
    sql("INSERT INTO dst SELECT s.* FROM src s LEFT JOIN dst d ON s.key = d.value"),
    sql("INSERT INTO dst SELECT * FROM (SELECT * FROM src WHERE false UNION ALL TABLE src)"),
    sql(
        "FROM src INSERT INTO dst SELECT * WHERE offset < 2"
        " INSERT INTO dst SELECT * WHERE offset > 1"
    ),
    frame("insertInto", lambda rows, _: rows.write.insertInto("dst")),
    frame("insertInto, offset null", lambda rows, _: null_offsets(rows).write.insertInto("dst")),
    frame("writeTo.append", lambda rows, _: rows.writeTo("dst").append()),
    frame("writeTo.append, null", lambda rows, _: null_offsets(rows).writeTo("dst").append()),
    frame(
        "saveAsTable",
        lambda rows, _: rows.write.format("tidelog").mode("append").saveAsTable("dst"),
    ),
    frame(
        "save",
        lambda rows, path: rows.write.format("tidelog").mode("append").save(path, topic="dst"),
    ),
    Form("createDataFrame(src.schema)", of_its_schema),
    sql("INSERT OVERWRITE dst SELECT * FROM src", APPEND_ONLY),
    sql("INSERT INTO dst REPLACE WHERE offset = 1 SELECT * FROM src", SPARKS_OWN),
    sql("INSERT INTO tidelog.`PATH` SELECT * FROM src", SPARKS_OWN),
    sql("MERGE INTO dst USING src ON dst.key = src.key WHEN NOT MATCHED THEN INSERT *", SPARKS_OWN),
    sql("UPDATE dst SET value = key", SPARKS_OWN),
    sql("DELETE FROM dst WHERE offset = 1", SPARKS_OWN),
    sql("TRUNCATE TABLE dst", SPARKS_OWN),
    sql(f"INSERT INTO src SELECT {COLUMNS} FROM src", UNCHANGED),
    sql("INSERT INTO src SELECT * FROM src", UNCHANGED),
    sql("CREATE TABLE made USING tidelog LOCATION 'PATH' AS SELECT * FROM src", UNCHANGED),
    sql("CREATE TABLE made USING tidelog AS SELECT key, value FROM src", "no data directory"),
    sql("INSERT INTO made_of_src SELECT * FROM src", UNCHANGED),
    sql("INSERT INTO dst SELECT * FROM made_of_src", "no data directory is named"),
    frame("writeTo.create", lambda r, _: r.writeTo("made").using("tidelog").create(), UNCHANGED),
    frame(
        "saveAsTable, overwrite",
        lambda r, _: r.write.format("tidelog").mode("overwrite").saveAsTable("dst"),
        APPEND_ONLY,
    ),
    frame("insertInto, over", lambda r, _: r.write.insertInto("dst", overwrite=True), APPEND_ONLY),
    frame("overwritePartitions", lambda r, _: r.writeTo("dst").overwritePartitions(), SPARKS_OWN),
    frame("replace", lambda r, _: r.writeTo("dst").using("tidelog").replace(), APPEND_ONLY),
    Form("toTable", stream_to_table, "toTable is not supported"),
]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Create ``src`` with 5 records and ``dst`` with 3, and views and copies of ``src``."""
    path = str(tmp_path / "data")
    for topic, count in (("src", 5), ("dst", 3)):
        rows = spark.range(count).selectExpr("cast(id AS string) key", f"'{topic}' value")
        rows.write.format("tidelog").mode("append").save(path, topic=topic)
    make_tables(spark, path)
    writer = spark.table("src").write.format("tidelog").options(topic="other", path=path)
    writer.mode("append").saveAsTable("made_of_src")
    spark.sql(f"CREATE TABLE kept USING parquet LOCATION '{tmp_path}/kept' AS SELECT * FROM src")
    spark.sql("CREATE VIEW seen AS SELECT * FROM src")
    spark.sql(f"CREATE TABLE reads USING tidelog OPTIONS (subscribe 'src') LOCATION '{path}'")
    yield path
    spark.sql("DROP VIEW seen")
    for name in ("src", "dst", "made_of_src", "kept", "reads", "made"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def make_tables(spark: SparkSession, path: str) -> None:
    """Create ``src`` and ``dst`` where they are not: a refused REPLACE TABLE drops its table."""
    for topic in ("src", "dst"):
        options = f"subscribe '{topic}', topic '{topic}'"
        create = f"CREATE TABLE IF NOT EXISTS {topic} USING tidelog OPTIONS ({options})"
        spark.sql(f"{create} LOCATION '{path}'")


def check(spark: SparkSession, path: str, forms: list[Form]) -> None:
    def counts() -> tuple[int, ...]:
        source = spark.read.format("tidelog")
        return tuple(source.load(path, subscribe=name).count() for name in ("src", "dst", "other"))

    before = counts()
    for form in forms:
        make_tables(spark, path)
        if form.refusal is None:
            form.write(spark, path)
            before = (before[0], before[1] + 5, before[2])
        else:
            with pytest.raises(PySparkException, match=re.compile(form.refusal, re.DOTALL)):
                form.write(spark, path)
        assert counts() == before, form.name


def test_rows_go_to_the_table_that_the_statement_names(
    spark: SparkSession, tables: str, enumerated: Enumerated
) -> None:
    """Spark passes the options of a table with its columns, and those of a query with its rows."""
    sample = FORMS[:: len(FORMS) // 6]
    check(spark, tables, sample)
    enumerated("statements", len(sample), at_least=6)


@pytest.mark.slow
def test_rows_go_to_the_table_that_any_statement_names(
    spark: SparkSession, tables: str, enumerated: Enumerated
) -> None:
    """Every form of a write in SQL and in Python, of rows read from a table, a view or a copy."""
    for _ in range(scaled(1)):
        check(spark, tables, FORMS)
    refused = 0 if spark_release() >= (4, 1) else len(OF_FEW_COLUMNS)
    enumerated("statements", len(FORMS), at_least=38 - refused)


def test_a_session_of_any_kind_keeps_the_target(
    spark: SparkSession, tmp_path: Path, enumerated: Enumerated
) -> None:
    """Settings about the types of columns do not change which topic is written."""
    tried = 0
    names = ("spark.sql.preserveCharVarcharTypeInfo", "spark.sql.legacy.charVarcharAsString")
    for name in names:
        path = str(tmp_path / str(tried))
        spark.conf.set(name, "true")
        try:
            rows = spark.range(5).selectExpr("cast(id AS string) value")
            rows.write.format("tidelog").mode("append").save(path, topic="src")
            make_tables(spark, path)
            spark.sql("INSERT INTO dst SELECT * FROM src")
            assert spark.table("dst").count() == spark.table("src").count() == 5
        finally:
            spark.conf.unset(name)
            for table in ("src", "dst"):
                spark.sql(f"DROP TABLE IF EXISTS {table}")
        tried += 1
    enumerated("settings", tried, at_least=2)


def test_a_table_keeps_the_location_that_it_was_created_with(
    spark: SparkSession, tables: str, tmp_path: Path
) -> None:
    """Spark accepts others without passing them on; dropping the table deletes no record."""
    elsewhere = str(tmp_path / "elsewhere")
    rows = spark.range(7).selectExpr("cast(id AS string) value")
    rows.write.format("tidelog").mode("append").save(elsewhere, topic="dst")

    spark.sql(f"ALTER TABLE dst SET LOCATION '{elsewhere}'")
    spark.sql("ALTER TABLE dst SET TBLPROPERTIES ('subscribe' = 'src', 'topic' = 'src')")
    spark.sql("INSERT INTO dst VALUES (NULL, X'01', NULL, NULL, NULL, NULL, NULL)")

    assert spark.table("dst").count() == 4
    spark.sql("DROP TABLE dst")
    source = spark.read.format("tidelog")
    counts = [source.load(path, subscribe="dst").count() for path in (tables, elsewhere)]
    assert counts == [4, 7]
