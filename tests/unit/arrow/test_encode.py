"""Arrow tables as record batches and back: what a log keeps of a table."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.record_values import iterate

from tidelog.arrow.batch_form import BatchForm
from tidelog.arrow.encode import TopicEncoder
from tidelog.arrow.schema import HEADERS_TYPE, TIMESTAMP_TYPE
from tidelog.codec.compression import Codec
from tidelog.errors import (
    InvalidArgument,
    InvalidRecord,
    InvalidTimestamp,
    UnknownTopicOrPartition,
)
from tidelog.kernels.runtime import gate
from tidelog.records.memory import walk
from tidelog.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Enumerated

    from tidelog.records.record import Record

PLAIN = BatchForm()
NOW_MS = 1_700_000_000_000
MAYBE_BYTES = st.none() | st.binary(max_size=30)
MAYBE_HEADERS = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=6), "value": MAYBE_BYTES}), max_size=3
)
ROW = st.fixed_dictionaries(
    {
        "key": MAYBE_BYTES,
        "value": MAYBE_BYTES,
        "headers": MAYBE_HEADERS,
        "timestamp": st.none() | st.integers(-1, 2**40).map(lambda ms: ms * 1000),
        "partition": st.none() | st.integers(0, 2),
    }
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("timestamp", TIMESTAMP_TYPE),
        ("partition", pa.int32()),
    ]
)


@pytest.fixture(params=[False, True], ids=["plain", "kernels"], autouse=True, scope="module")
def _kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    gate.force(request.param)
    yield
    gate.force(None)


def encode(
    *tables: pa.RecordBatch, partitions: int = 3, form: BatchForm = PLAIN, first: int = 0
) -> dict[int, bytes]:
    """Return the bytes for each partition."""
    encoder = TopicEncoder(partitions, form, first)
    out = dict.fromkeys(range(partitions), b"")
    for table in tables:
        for part in encoder.encode(table, NOW_MS):
            out[part.partition] += bytes(part.data)
    return out


def records(data: bytes) -> list[Record]:
    found = walk(data, check_crc=True)
    assert (found.error, found.next_position) == (None, len(data))
    return list(iterate(data, found.batches))


def as_row(record: Record) -> tuple[Any, ...]:
    return record.timestamp, record.key, record.value, record.headers


def expected(row: dict[str, Any]) -> tuple[Any, ...]:
    timestamp = NOW_MS if row["timestamp"] is None else row["timestamp"] // 1000
    headers = tuple((pair["key"], pair["value"]) for pair in row["headers"] or ())
    return timestamp, row["key"], row["value"], headers


@settings(max_examples=60, deadline=None)
@given(
    given_rows=st.lists(ROW, max_size=30),
    codec=st.sampled_from(Codec),
    batch_bytes=st.integers(80, 400),
    cut=st.integers(0, 30),
)
def test_each_row_becomes_one_record_of_its_partition(
    given_rows: list[dict[str, Any]], codec: Codec, batch_bytes: int, cut: int
) -> None:
    """Rows keep key, value, headers and time, and their order within their partition."""
    for number, row in enumerate(given_rows):
        row["timestamp"] = number * 1000  # distinguishes the rows
    table = pa.RecordBatch.from_pylist(given_rows, SCHEMA)
    form = BatchForm(codec, batch_bytes=batch_bytes)

    made = {p: records(data) for p, data in encode(table[:cut], table[cut:], form=form).items()}

    for partition, found in made.items():
        assert [record.offset for record in found] == list(range(len(found)))
        numbers = [record.timestamp for record in found]
        assert numbers == sorted(set(numbers))
        assert [expected(given_rows[number]) for number in numbers] == [*map(as_row, found)]
        assert all(wished(given_rows[number]) in (None, partition) for number in numbers)
    assert sum(map(len, made.values())) == len(given_rows)


def wished(row: dict[str, Any]) -> int | None:
    if row["partition"] is None and row["key"] is not None:
        return partition_for_key(row["key"], 3)
    partition: int | None = row["partition"]
    return partition


@settings(max_examples=60, deadline=None)
@given(given_rows=st.lists(ROW, max_size=30), codec=st.sampled_from(Codec), cut=st.integers(0, 30))
def test_plain_code_and_kernels_produce_the_same_bytes(
    given_rows: list[dict[str, Any]], codec: Codec, cut: int
) -> None:
    """The content of a batch does not depend on whether there is a compiler."""
    table = pa.RecordBatch.from_pylist(given_rows, SCHEMA)[cut:]
    form = BatchForm(codec, batch_bytes=200)
    made = []

    for choice in (False, True):
        gate.force(choice)
        made.append(encode(table, form=form))

    assert made[0] == made[1]


def test_batches_have_at_most_the_configured_bytes() -> None:
    """A batch is closed before it exceeds ``batch_bytes``; a larger record has its own."""
    values = [bytes(100)] * 5 + [bytes(1000)] + [bytes(100)]
    table = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})

    data = encode(table, partitions=1, form=BatchForm(batch_bytes=300))[0]

    batches = walk(data).batches
    assert batches.records_count.tolist() == [2, 2, 1, 1, 1]
    assert [size <= 300 for size in batches.size.tolist()] == [True, True, True, False, True]


def test_rows_without_a_key_fill_one_partition_after_another() -> None:
    """They stay with a partition for a batch's bytes, and continue there with the next table."""
    table = pa.RecordBatch.from_pydict({"value": pa.array([bytes(91)] * 4, pa.binary())})
    form = BatchForm(batch_bytes=200)

    made = encode(table, table, table, form=form, first=1)

    assert {p: len(records(data)) for p, data in made.items()} == {0: 4, 1: 4, 2: 4}
    assert len(records(encode(table[:2], form=form, first=1)[1])) == 2


def test_text_is_stored_as_utf8() -> None:
    """Keys and values may be text."""
    table = pa.RecordBatch.from_pydict({"key": ["ключ", None], "value": ["v", "größe"]})

    made = records(encode(table, partitions=1)[0])

    assert [(r.key, r.value) for r in made] == [("ключ".encode(), b"v"), (None, "größe".encode())]


def test_a_table_of_values_is_enough() -> None:
    """Without the other columns, records have no key, no headers, and the current time."""
    table = pa.RecordBatch.from_pydict({"value": pa.array([b"v", None], pa.binary())})

    made = records(encode(table, partitions=1)[0])

    assert [as_row(record) for record in made] == [
        (NOW_MS, None, b"v", ()),
        (NOW_MS, None, None, ()),
    ]


def test_timestamps_are_stored_in_milliseconds_and_null_is_now() -> None:
    """Microseconds are truncated, null is the current time, and -1 ms means no timestamp."""
    times = pa.array([1_234_999, None, -1000], TIMESTAMP_TYPE)
    table = pa.RecordBatch.from_pydict({"timestamp": times})

    assert [r.timestamp for r in records(encode(table, partitions=1)[0])] == [1234, NOW_MS, -1]


@pytest.mark.parametrize(
    ("unit", "number"),
    [("s", 1), ("ms", 1234), ("us", 1_234_999), ("ns", 1_234_999_999)],
)
@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "GMT", "+05:30", "America/New_York"])
def test_timestamps_may_have_any_unit_and_time_zone(unit: str, number: int, zone: str) -> None:
    """A zone says how an instant is shown, so the instant is stored; no number is lost by its unit.

    A zone is part of Arrow's type: a Spark session sends timestamps with its own.
    """
    times = pa.array([0, number, None], pa.timestamp(unit, zone))[1:]
    table = pa.RecordBatch.from_pydict({"timestamp": times})

    found = [record.timestamp for record in records(encode(table, partitions=1)[0])]

    assert found == [1000 if unit == "s" else 1234, NOW_MS]


TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string()),
    pa.dictionary(pa.uint32(), pa.string_view()),
]
BYTES = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int32(), pa.binary()),
    pa.dictionary(pa.uint32(), pa.binary_view()),
    pa.binary(2),
]


def test_text_and_bytes_of_any_arrow_type_make_the_same_batches(enumerated: Enumerated) -> None:
    """Large, view, fixed and dictionary types are stored like plain ones, sliced or not."""
    values = ["", None, "k1", "", "k2", None, "k1"]
    sized = [value and value.encode() for value in ["k1", None, "k1", "k2", "k2", None, "k1"]]
    tried = 0
    for kind in (*TEXTS, *BYTES):
        is_sized = pa.types.is_fixed_size_binary(kind)
        plain = pa.array(sized if is_sized else values, pa.binary() if is_sized else None)
        array = plain.cast(pa.binary()).cast(kind) if kind in BYTES else plain.cast(kind)
        for start in (0, 3):
            found, expected = (
                pa.RecordBatch.from_pydict({"key": each[start:], "value": each[start:]})
                for each in (array, plain)
            )
            assert encode(found) == encode(expected), (kind, start)
            tried += 1

    enumerated("types and slices of text and bytes", tried, at_least=18)


def test_headers_of_any_arrow_type_make_the_same_batches(enumerated: Enumerated) -> None:
    """A session with ``useLargeVarTypes`` sends lists of structs of large types."""
    rows = [None, [{"key": "a", "value": b"1"}, {"key": "", "value": None}], [], None]
    expected = pa.RecordBatch.from_pydict({"headers": pa.array(rows, HEADERS_TYPE)[1:]})
    tried = 0
    for text, data, many in product(TEXTS[:3], BYTES[:3], (pa.list_, pa.large_list)):
        kind = many(pa.struct([("key", text), ("value", data)]))
        table = pa.RecordBatch.from_pydict({"headers": pa.array(rows, kind)[1:]})
        assert encode(table) == encode(expected), kind
        tried += 1

    enumerated("types of headers", tried, at_least=18)


def test_what_lies_under_null_headers_does_not_count() -> None:
    """Arrow may keep values of a list that is null, as where a condition has made it so."""
    pairs = [{"key": "a", "value": b"1"}, {"key": None, "value": b"2"}, None]
    ends = pa.array([0, 1, 3], pa.int32())
    under = pa.ListArray.from_arrays(
        ends, pa.array(pairs, HEADERS_TYPE.value_type), mask=pa.array([False, True])
    )
    plain = pa.array([pairs[:1], None], HEADERS_TYPE)

    found, expected = (
        encode(pa.RecordBatch.from_pydict({"headers": each.cast(HEADERS_TYPE)}))
        for each in (under, plain)
    )

    assert found == expected


def test_a_table_without_rows_produces_nothing() -> None:
    """Without rows there are no batches."""
    assert encode(pa.RecordBatch.from_pylist([], SCHEMA)) == {0: b"", 1: b"", 2: b""}


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"value": pa.array([1])}, InvalidArgument, "text or binary, not int64"),
        ({"partition": pa.array([3])}, UnknownTopicOrPartition, "partition 3; the topic has 3"),
        ({"partition": pa.array([-1])}, UnknownTopicOrPartition, "partition -1"),
        ({"partition": pa.array([2**63], pa.uint64())}, UnknownTopicOrPartition, "no topic has"),
        ({"partition": pa.array(["a"])}, InvalidArgument, "partitions must be integers"),
        ({"timestamp": pa.array([1])}, InvalidArgument, "timestamps must have a time zone"),
        (
            {"timestamp": pa.array([1], pa.timestamp("us"))},
            InvalidArgument,
            "timestamps must have a time zone",
        ),
        (
            {"timestamp": pa.array([2**62], pa.timestamp("s", "UTC"))},
            InvalidTimestamp,
            "too far away for ms",
        ),
        (
            {"timestamp": pa.array([-(2**63)], pa.timestamp("s", "UTC"))},
            InvalidTimestamp,
            "too far away for ms",
        ),
        ({"timestamp": pa.array([-2000], TIMESTAMP_TYPE)}, InvalidTimestamp, "before 1970"),
        ({"headers": pa.array([["a"]])}, InvalidArgument, "headers must be"),
        (
            {"headers": pa.array([[{"key": None, "value": b""}]], HEADERS_TYPE)},
            InvalidRecord,
            "a header has no name",
        ),
    ],
)
def test_rows_that_are_not_valid_records_are_rejected(
    columns: dict[str, pa.Array], error: type[Exception], words: str
) -> None:
    """A column of a wrong type, or a row that no log accepts, is an error with the reason."""
    with pytest.raises(error, match=words):
        encode(pa.RecordBatch.from_pydict(columns))
