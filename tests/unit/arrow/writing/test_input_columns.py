"""The columns of a table that become the fields of a record."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tidelog.arrow.record_tables import timestamps
from tidelog.arrow.schema import HEADER_TYPE, SCHEMA_WITH_HEADERS
from tidelog.arrow.writing.input_columns import arrow_columns, select_columns, split_by_topic
from tidelog.errors import InvalidArgument, InvalidTimestamp

SCHEMA = pa.schema(
    [
        ("Value", pa.large_string()),
        ("KEY", pa.dictionary(pa.int32(), pa.binary_view())),
        ("topic", pa.string_view()),
        ("partition", pa.int64()),
        ("timestamp", pa.timestamp("ns", "Europe/Paris")),
        ("headers", pa.large_list(HEADER_TYPE)),
        ("offset", pa.int64()),
    ]
)


def test_columns_are_found_by_name_in_any_case() -> None:
    """Text and bytes of any type, times of any unit and zone."""
    found = arrow_columns(SCHEMA, has_topic=False)

    assert found == {
        "value": 0,
        "key": 1,
        "topic": 2,
        "partition": 3,
        "timestamp": 4,
        "headers": 5,
    }


def test_what_was_read_can_be_written() -> None:
    """The log assigns offset and timestamp type again."""
    found = arrow_columns(SCHEMA_WITH_HEADERS, has_topic=True)

    assert set(found) == {"key", "value", "partition", "timestamp", "headers"}


def _as_pandas(names: list[str], indexes: list[object]) -> pa.Schema:
    """Return a schema as that of a frame, whose metadata lists the columns of its index."""
    told = json.dumps({"index_columns": indexes})
    return pa.schema([(name, pa.string()) for name in names], metadata={"pandas": told})


def test_an_index_without_a_name_is_ignored() -> None:
    """A frame of pandas has such a column once it is filtered or sorted."""
    unnamed = ["__index_level_0__", "value", "__index_level_1__", "key"]
    schema = _as_pandas(unnamed, ["__index_level_0__", "__index_level_1__"])

    assert arrow_columns(schema, has_topic=True) == {"value": 1, "key": 3}
    assert arrow_columns(_as_pandas(["value"], [{"kind": "range"}]), has_topic=True) == {"value": 0}


def test_an_index_with_a_name_is_a_column() -> None:
    """One that is a field of a record is written, any other is refused, as it is data."""
    assert arrow_columns(_as_pandas(["value", "key"], ["key"]), has_topic=True)["key"] == 1
    with pytest.raises(InvalidArgument, match="column sensor is not a field of a record"):
        arrow_columns(_as_pandas(["value", "sensor"], ["sensor"]), has_topic=True)
    with pytest.raises(InvalidArgument, match="column __index_level_0__ is not a field"):
        arrow_columns(_as_pandas(["value", "__index_level_0__"], []), has_topic=True)


def test_a_column_of_nulls_may_be_any() -> None:
    """Pandas and Polars have no type for a column without values."""
    schema = pa.schema([(name, pa.null()) for name in SCHEMA_WITH_HEADERS.names])

    assert set(arrow_columns(schema, has_topic=False)) >= {"key", "value", "topic", "headers"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": pa.int64()}, "column value must be binary or string, not int"),
        ({"key": pa.binary()}, "no column value"),
        ({"value": pa.string(), "price": pa.int64()}, "column price is not a field of a record"),
        ({"value": pa.string(), "partition": pa.float64()}, "column partition must be integer"),
        (
            {"value": pa.string(), "timestamp": pa.string()},
            "must be timestamp or integer, not string; cast it",
        ),
        (
            {"value": pa.string(), "headers": pa.list_(pa.struct({"key": "str", "val": "binary"}))},
            r"must be list<element: struct<key: string, value: binary>>, not list<.* val: binary>>",
        ),
        ({"value": pa.string()}, "no topic is named: give topic, or add a column topic"),
        ({"value": pa.string(), "VALUE": pa.string()}, "columns value and VALUE are the same"),
    ],
)
def test_other_columns_are_refused(columns: dict[str, pa.DataType], words: str) -> None:
    """A missing, unknown, mistyped or repeated column is an error that names the remedy."""
    with pytest.raises(InvalidArgument, match=words):
        arrow_columns(pa.schema(list(columns.items())), has_topic=False)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([86_400_000, None]),
        pa.array([86_400_000, None], pa.uint64()),
        pa.array([86_400, None], pa.timestamp("s")),
        pa.array([86_400, None], pa.timestamp("s", "Asia/Tokyo")),
        pa.array([1, None], pa.date32()),
    ],
    ids=["milliseconds", "unsigned", "no-zone", "zone", "date"],
)
def test_times_without_a_zone_are_in_utc(times: pa.Array) -> None:
    """As in the arguments of commands, so that the times of a CSV need no cast."""
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"], "timestamp": times})

    columns = arrow_columns(batch.schema, has_topic=True)
    found = timestamps(select_columns(batch, columns).column("timestamp"), now_ms=7)

    assert found.tolist() == [86_400_000, 7]


def test_a_time_that_no_timestamp_can_be_is_refused() -> None:
    """Instead of an error of Arrow."""
    batch = pa.RecordBatch.from_pydict({"timestamp": pa.array([2**64 - 1], pa.uint64())})
    with pytest.raises(InvalidTimestamp, match="a timestamp is no number of ms"):
        select_columns(batch, {"timestamp": 0})


def test_rows_are_split_by_topic() -> None:
    """Rows of each topic stay in order; the column is dropped."""
    table = pa.RecordBatch.from_pydict({"topic": ["a", "b", "a"], "value": ["1", "2", "3"]})

    split = split_by_topic(table)

    assert {topic: rows.to_pydict() for topic, rows in split.items()} == {
        "a": {"value": ["1", "3"]},
        "b": {"value": ["2"]},
    }


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()])
def test_rows_with_large_text_are_split_by_topic(kind: pa.DataType) -> None:
    """A session with ``useLargeVarTypes`` sends large types; Arrow filters no views."""
    names = pa.array(["a", "b", "a"], kind)
    table = pa.RecordBatch.from_pydict({"topic": names, "value": names})

    split = split_by_topic(select_columns(table, {"topic": 0, "value": 1}))

    assert {topic: rows.to_pydict() for topic, rows in split.items()} == {
        "a": {"value": ["a", "a"]},
        "b": {"value": ["b"]},
    }


def test_a_row_without_topic_is_refused() -> None:
    """A null topic is an error, since there is no default."""
    table = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": ["1", "2"]})

    with pytest.raises(InvalidArgument, match="null in column topic"):
        split_by_topic(table)


def test_columns_are_renamed_to_the_fields_of_a_record() -> None:
    """The selected columns have the names of fields, whatever case the DataFrame uses."""
    table = pa.RecordBatch.from_pydict({"offset": [7], "VALUE": ["v"]})

    assert select_columns(table, {"value": 1}).to_pydict() == {"value": ["v"]}
