"""What the data source refuses before it makes a writer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.types import StructType

source = pytest.importorskip("tidelog.spark.source")
catalog_table = pytest.importorskip("tidelog.spark.catalog_table")
types = pytest.importorskip("pyspark.sql.types")


LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
"""The key by which Spark counts a length as part of a column's type."""


def rewritten(schema: StructType) -> StructType:
    """Return the columns of rows that Spark has fitted to the table with this schema."""
    made: StructType = types.StructType.fromJson(schema.jsonValue())
    for column in made.fields:
        column.metadata.pop(LENGTH, None)
        column.metadata.pop("__qualified_access_only", None)
    return made


def table(**options: str) -> StructType:
    made: StructType = catalog_table.columns_with_options(options, has_headers=False)
    return made


def test_an_insert_has_the_options_of_its_table(tmp_path: Path) -> None:
    """They come with the columns that Spark has fitted to the table."""
    schema = table(path=str(tmp_path), topic="t", subscribe="t", **{"config.retention.ms": "-1"})
    writer = source.LogSource({}).writer(rewritten(schema), False)

    assert writer._options.topic == "t"
    assert writer._options.topic_config == {"retention.ms": "-1"}


def test_rows_with_the_columns_of_a_read_do_not_name_their_table(tmp_path: Path) -> None:
    """Their options are those of the table that was read: a write would append to its topic."""
    schema = table(path=str(tmp_path), topic="t", subscribe="t")

    with pytest.raises(InvalidArgument, match="as they were read, so Spark does not say"):
        source.LogSource({}).writer(schema, False)


def test_tables_differ_in_type_so_that_spark_fits_rows_of_one_to_another(tmp_path: Path) -> None:
    """Spark leaves the columns of a query as they are where names and types are the same."""
    schemas = [table(path=str(tmp_path), topic=topic, subscribe=topic) for topic in "abc"]

    lengths = {schema["topic"].metadata[LENGTH] for schema in schemas}

    assert len(lengths) == 3
    for length in lengths:
        assert 249 <= int(length.removeprefix("varchar(").removesuffix(")")) < 1 << 16


def test_a_table_of_an_earlier_version_is_read_and_not_written(tmp_path: Path) -> None:
    """It has options and no mark, so a write to it looks like one to the table read."""
    options = {"path": str(tmp_path), "topic": "t", "subscribe": "t"}
    schema = columns({"key": types.BinaryType(), "value": types.BinaryType()})
    schema.fields[0].metadata = {"tidelog.options": json.dumps(options)}

    assert catalog_table.options_in(schema) == options
    with pytest.raises(InvalidArgument, match=r"an earlier version .* drop the table"):
        source.LogSource({}).writer(schema, False)


def test_a_table_made_of_a_query_does_not_read_the_table_of_the_query(tmp_path: Path) -> None:
    """Spark copies the columns of the query, without what marks them as columns of that table."""
    schema = table(path=str(tmp_path), topic="t", subscribe="t")
    del schema["topic"].metadata["__qualified_access_only"]

    with pytest.raises(InvalidArgument, match="no data directory is named"):
        source.LogSource({}).reader(schema)


def test_a_load_takes_nothing_from_the_table_whose_columns_it_names(tmp_path: Path) -> None:
    """``.schema(table.schema).load(path)`` names columns only."""
    schema = table(path=str(tmp_path / "table"), subscribe="t")
    reader = source.LogSource({"path": str(tmp_path), "subscribePattern": "u"}).reader(schema)

    assert (reader._options.paths, reader._options.choice.topics) == ((str(tmp_path),), ())


def test_a_save_takes_nothing_from_the_table_that_its_rows_come_from(tmp_path: Path) -> None:
    """Spark keeps a column's metadata in what is selected from a table."""
    schema = table(path=str(tmp_path / "table"), topic="t", txnId="x")
    given = {"path": str(tmp_path / "other"), "topic": "u"}
    writer = source.LogSource(given).writer(schema, False)

    assert (writer._options.topic, writer._options.txn_id) == ("u", None)


@pytest.mark.parametrize("options", [{}, {"topic": "u"}])
def test_create_table_as_select_is_refused(tmp_path: Path, options: dict[str, str]) -> None:
    """Spark passes nothing of the new table, and perhaps the options of the one that is read."""
    topic = table(path=str(tmp_path), topic="t")["topic"]
    value = types.StructField("value", types.StringType())
    for schema, words in (
        (types.StructType([topic, value]), "does not say which table"),
        (types.StructType([value]), "no data directory is named"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            source.LogSource(options).writer(schema, False)


def test_overwriting_is_refused() -> None:
    """It would delete the records of others."""
    with pytest.raises(InvalidArgument, match="can only be appended to"):
        source.LogSource({}).writer(types.StructType([]), True)


def columns(ddl: dict[str, object]) -> StructType:
    fields = [types.StructField(name, kind) for name, kind in ddl.items()]
    made: StructType = types.StructType(fields)
    return made


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
