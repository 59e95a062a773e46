"""What the data source refuses before it makes a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

source = pytest.importorskip("tidelog.spark.source")
catalog_table = pytest.importorskip("tidelog.spark.catalog_table")
types = pytest.importorskip("pyspark.sql.types")


def test_an_insert_has_the_options_of_its_table(tmp_path: Path) -> None:
    """They come with the schema; a row with an offset is refused, since the log assigns it."""
    options = {"path": str(tmp_path), "topic": "t", "subscribe": "t", "config.retention.ms": "-1"}
    schema = catalog_table.columns_with_options(options, has_headers=False)
    plan = source.LogSource({}).writer(schema, False)._plan

    assert plan.planned("t").is_new
    nulls = [pa.array([None], pa.int64())] * 7
    plan.check_nulls(pa.RecordBatch.from_arrays(nulls, names=schema.fieldNames()))
    nulls[4] = pa.array([1], pa.int64())
    with pytest.raises(InvalidArgument, match="a row has an offset"):
        plan.check_nulls(pa.RecordBatch.from_arrays(nulls, names=schema.fieldNames()))


def test_a_save_takes_nothing_from_the_table_that_its_rows_come_from(tmp_path: Path) -> None:
    """Spark keeps a column's metadata in what is selected from a table."""
    table = {"path": str(tmp_path / "table"), "topic": "t", "txnId": "x"}
    schema = catalog_table.columns_with_options(table, has_headers=False)
    given = {"path": str(tmp_path / "other"), "topic": "u"}
    writer = source.LogSource(given).writer(schema, False)

    assert (writer._options.topic, writer._options.txn_id) == ("u", None)
    writer._plan.check_nulls(None)


@pytest.mark.parametrize("options", [{}, {"topic": "u"}])
def test_create_table_as_select_is_refused(tmp_path: Path, options: dict[str, str]) -> None:
    """Spark passes nothing of the new table, and perhaps the options of the one that is read."""
    table = {"path": str(tmp_path), "topic": "t"}
    key = catalog_table.columns_with_options(table, has_headers=False).fields[0]
    value = types.StructField("value", types.StringType())
    for schema in (types.StructType([key, value]), types.StructType([value])):
        with pytest.raises(InvalidArgument, match="no data directory is named"):
            source.LogSource(options).writer(schema, False)


def test_overwriting_is_refused() -> None:
    """It would delete the records of others."""
    with pytest.raises(InvalidArgument, match="can only be appended to"):
        source.LogSource({}).writer(types.StructType([]), True)


def columns(ddl: dict[str, object]) -> object:
    return types.StructType([types.StructField(name, kind) for name, kind in ddl.items()])


def test_the_case_of_column_names_does_not_matter() -> None:
    """As in Spark; rows come back under the names that the user gave."""
    batch_reader = pytest.importorskip("tidelog.spark.read.batch_reader")
    chosen = columns({"OFFSET": types.LongType(), "timestamptype": types.IntegerType()})

    names = [(each.name, each.alias) for each in batch_reader.read_columns(chosen)]

    assert names == [("offset", "OFFSET"), ("timestampType", "timestamptype")]
    for ddl, words in (
        ({"Ofset": types.LongType()}, "unknown column 'Ofset'"),
        ({"KEY": types.StringType()}, "column KEY has type binary, not string"),
        ({"key": types.BinaryType(), "Key": types.BinaryType()}, "key and Key are the same"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            batch_reader.read_columns(columns(ddl))


def test_a_table_without_options_is_an_error_that_names_the_remedy() -> None:
    """Spark's catalog keeps none of a table that was created with columns, or AS SELECT."""
    schema = columns({"key": types.BinaryType(), "value": types.BinaryType()})

    named = pytest.raises(InvalidArgument, match="create it without them, as in CREATE TABLE")

    with named:
        source.LogSource({}).reader(schema)
    with named:
        source.LogSource({}).writer(schema, False)
    with named:
        source.LogSource({}).streamReader(schema).initialOffset()
