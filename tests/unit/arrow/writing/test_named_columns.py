"""Tables with any columns: some become the key and the time, the others the value."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.csv
import pytest

from tidelog.arrow.writing.named_columns import with_named_columns
from tidelog.errors import InvalidArgument

ORDERS = b"""id,topic,paid,offset
17,shoes,2026-11-20 10:00:00,1.5
18,hats,,
"""


def orders() -> pa.RecordBatchReader:
    """Return two rows of a CSV, with names that are fields of a record elsewhere."""
    return pyarrow.csv.open_csv(io.BytesIO(ORDERS))


def test_all_other_columns_become_one_object() -> None:
    """Also those named as fields; whole numbers are text as keys, times in the object."""
    assert with_named_columns(orders(), key="id", timestamp=None).read_all().to_pylist() == [
        {"key": "17", "json": {"topic": "shoes", "paid": "2026-11-20 10:00:00", "offset": 1.5}},
        {"key": "18", "json": {"topic": "hats", "paid": None, "offset": None}},
    ]
    both = with_named_columns(orders(), key="topic", timestamp="paid")
    assert both.schema.names == ["key", "timestamp", "json"]
    assert both.read_all()["key"].to_pylist() == ["shoes", "hats"]


def test_without_names_rows_are_as_they_are() -> None:
    """They have the columns of records themselves."""
    rows = orders()
    assert with_named_columns(rows, key=None, timestamp=None) is rows


def test_a_name_is_that_of_one_column() -> None:
    """And the value has to be made of others."""
    with pytest.raises(InvalidArgument, match="key='ID' must name one column, not 0; columns: id,"):
        with_named_columns(orders(), key="ID", timestamp=None)
    twice = pa.table([[1], [2]], names=["id", "id"]).to_reader()
    with pytest.raises(InvalidArgument, match="timestamp='id' must name one column, not 2"):
        with_named_columns(twice, key=None, timestamp="id")
    alone = pa.table({"id": [1]}).to_reader()
    with pytest.raises(InvalidArgument, match="no column is left for the value beside id"):
        with_named_columns(alone, key="id", timestamp=None)


def test_a_column_json_beside_a_named_key_is_refused() -> None:
    """Without the name it is the value, with it a member: nobody means ``{"json": ...}``."""
    rows = pa.table({"k": ["a"], "t": [1], "json": [{"a": 1}]})
    hint = "rename column 'k' to key and column 't' to timestamp, and give neither"
    with pytest.raises(InvalidArgument, match=hint):
        with_named_columns(rows.to_reader(), key="k", timestamp="t")
    found = with_named_columns(rows.to_reader(), key="k", timestamp=None).read_all()
    assert found["json"].to_pylist() == [{"t": 1, "json": {"a": 1}}]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.timestamp("s"), 10**15, r"column c of timestamp\[s\] has a time that no calendar has"),
        (pa.timestamp("us", "Nowhere/X"), 1, "column c: Cannot locate or parse timezone"),
        (pa.month_day_nano_interval(), (1, 2, 3), "column c: Unsupported cast"),
    ],
)
def test_a_time_that_is_no_text_is_refused(kind: pa.DataType, value: object, reason: str) -> None:
    """Arrow makes another text of the first one, and raises errors of its own of the others."""
    table = pa.table({"id": ["a"], "c": pa.array([value], kind)})
    with pytest.raises(InvalidArgument, match=reason):
        with_named_columns(table.to_reader(), key="id", timestamp=None).read_all()


def test_columns_may_have_types_of_which_python_makes_no_arrays() -> None:
    """As unions, or a dictionary of times, which pandas makes of a categorical."""
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    times = pa.array([None], pa.timestamp("us")).dictionary_encode()
    table = pa.table({"id": ["a"], "u": union, "t": times})

    found = with_named_columns(table.to_reader(), key="id", timestamp=None).read_all()

    assert found["json"].to_pylist() == [{"u": 1, "t": None}]


def test_an_index_without_a_name_is_no_member() -> None:
    """A frame of pandas has such a column once it is filtered, and no user has named it."""
    told = json.dumps({"index_columns": ["__index_level_0__"]})
    table = pa.table({"id": ["a"], "n": [1], "__index_level_0__": [7]})
    table = table.replace_schema_metadata({"pandas": told})

    found = with_named_columns(table.to_reader(), key="id", timestamp=None).read_all()

    assert found.to_pylist() == [{"key": "a", "json": {"n": 1}}]


def test_a_column_may_be_both_key_and_timestamp() -> None:
    """As the hour in a table with a row for each hour."""
    table = pa.table({"hour": [3_600_000], "n": [1]})

    found = with_named_columns(table.to_reader(), key="hour", timestamp="hour").read_all()

    assert found.to_pylist() == [{"key": "3600000", "timestamp": 3_600_000, "json": {"n": 1}}]


def test_two_members_of_one_name_are_refused() -> None:
    """A CSV may have them; of two members of JSON, readers keep one."""
    table = pa.table([["a"], [1], [2]], names=["id", "n", "n"])

    with pytest.raises(InvalidArgument, match="several columns are named n: rename all but one"):
        with_named_columns(table.to_reader(), key="id", timestamp=None)
