"""The columns of a system table, and the values in them, from the declaration of a row."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tidelog.codec.shown_rows import Batches, Named, PartitionNumber, Time, TimeOrMinus1
from tidelog.explain.tables.system_table import Column, ColumnType, cells_of, columns_of


class Inner(NamedTuple):
    """A row within."""

    name: Annotated[str, "Its name."]


class Facts(NamedTuple):
    """A row."""

    partition: PartitionNumber
    size_bytes: Annotated[int, "Its size; 0: nothing."]
    ratio: Annotated[float | None, "A ratio."]
    is_new: Annotated[bool, Named("new"), "Whether it is new."]
    first: Annotated[TimeOrMinus1, "When it began; -1: not known."]
    last: Annotated[Time, "When it ended."]
    codecs: Annotated[Batches, "Batches by codec."]
    config: Annotated[dict[str, Annotated[str, "Value."]], "Settings by name."]
    inner: Annotated[Inner, "Is an object, so not in a column."]


FACTS = Facts(3, 5, None, True, -1, 7, {"none": 2}, {"a": "b"}, Inner("x"))


def test_each_plain_value_has_a_column() -> None:
    """The text is the same without its full stop; a time may be null where JSON has -1."""
    assert columns_of(Facts) == (
        Column("partition", ColumnType.INT, "number of the partition"),
        Column("sizeBytes", ColumnType.LONG, "its size; 0: nothing"),
        Column("ratio", ColumnType.DOUBLE, "a ratio", True),
        Column("new", ColumnType.BOOLEAN, "whether it is new"),
        Column("first", ColumnType.TIME, "when it began; null: not known", True),
        Column("last", ColumnType.TIME, "when it ended"),
        Column("codecs", ColumnType.COUNTS, "batches by codec"),
        Column("config", ColumnType.TEXTS, "settings by name"),
    )
    assert cells_of(FACTS) == [3, 5, None, True, None, 7, {"none": 2}, {"a": "b"}]


def test_a_table_may_have_some_columns_in_its_own_order() -> None:
    """Also with null where the row itself always has a value."""
    chosen = columns_of(Facts, "sizeBytes", "partition", nullable=("partition",))

    assert chosen == (
        Column("sizeBytes", ColumnType.LONG, "its size; 0: nothing"),
        Column("partition", ColumnType.INT, "number of the partition", True),
    )
    assert cells_of(FACTS, chosen) == [5, 3]
