"""Records as Arrow tables with the columns of Spark's Kafka source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.old_batches import build_old
from tests.machinery.record_values import iterate

from tidelog.arrow.decode import DIRECT_ROWS, MAX_ROWS, ArrowDecoder
from tidelog.arrow.schema import COLUMNS, SCHEMA, SCHEMA_WITH_HEADERS, select
from tidelog.codec.compression import Codec
from tidelog.errors import InvalidArgument, InvalidTimestamp
from tidelog.kernels.runtime import gate
from tidelog.records.batch import TimestampType
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.builder import RecordFields

MILLIS = st.integers(-1, 253_402_300_799_000)  # what datetime takes
MAYBE_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), MAYBE_BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(MILLIS, MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1, max_size=20)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLAIN = BatchSpec()


@pytest.fixture(params=[False, True], ids=["plain", "kernels"], autouse=True, scope="module")
def _kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    gate.force(request.param)
    yield
    gate.force(None)


def tables(
    data: bytes, schema: pa.Schema = SCHEMA_WITH_HEADERS, start: int = 0, end: int | None = None
) -> list[pa.RecordBatch]:
    decoder = ArrowDecoder(schema, "flights", 3)
    return list(decoder.tables(decode(data, walk(data).batches), start, end))


def rows(data: bytes, **arguments: Any) -> list[dict[str, Any]]:
    made = tables(data, **arguments)
    for table in made:
        table.validate(full=True)
    return [row for table in made for row in table.to_pylist()]


def expected_rows(data: bytes) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "flights",
            "partition": 3,
            "offset": record.offset,
            "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
            "timestampType": int(record.timestamp_type),
            "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
        }
        for record in iterate(data, walk(data).batches)
    ]


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(RECORDS, min_size=1, max_size=3), codec=st.sampled_from(Codec))
def test_tables_have_the_content_of_the_records(
    batches: list[list[RecordFields]], codec: Codec
) -> None:
    """Each record is a row with the same offset, time, key, value and headers, nulls included."""
    data, base_offset = b"", 100
    for records in batches:
        data += build_batch(records, BatchSpec(base_offset=base_offset, codec=codec))
        base_offset += len(records)

    assert expected_rows(data) == rows(data)


def test_no_buffer_goes_beyond_its_values() -> None:
    """What follows them would be written to streams and files: other data of the process."""
    data = build_batch([(1, b"k", b"value", (("name", b"x"),)), (2, None, b"", ())])
    source = np.frombuffer(data + bytes(64), np.uint8)
    decoder = ArrowDecoder(select(["key", "value"]), "flights", 3)
    [direct] = decoder.tables_of(source, walk(data).batches, 0, 2)
    [decoded] = tables(data)

    for table in (direct, decoded):
        assert [table[name].buffers()[2].size for name in ("key", "value")] == [1, 5]
    names, values = decoded["headers"].values.flatten()
    assert (names.buffers()[2].size, values.buffers()[2].size) == (4, 1)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(RECORDS, min_size=1, max_size=3),
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
    cut=st.integers(0, 25),
)
def test_direct_and_decoded_rows_are_the_same(
    batches: list[list[RecordFields]], codec: Codec, cut: int
) -> None:
    """Rows built straight from the bytes equal the decoded ones, also at the ends of a range."""
    data, base_offset = b"", 100
    for records in batches:
        data += build_batch(records, BatchSpec(base_offset=base_offset, codec=codec))
        base_offset += len(records)
    start, end = 100 + cut // 5, max(base_offset - cut % 5, 100)

    for schema in (SCHEMA_WITH_HEADERS, SCHEMA, select(["offset", "key"]), select(["value"])):
        decoder = ArrowDecoder(schema, "flights", 3)
        source = np.frombuffer(data, np.uint8)
        made = list(decoder.tables_of(source, walk(data).batches, start, end))
        for table in made:
            table.validate(full=True)
        expected = tables(data, schema, start, end)
        assert pa.Table.from_batches(made, schema).equals(pa.Table.from_batches(expected, schema))


def test_many_small_records_become_several_tables() -> None:
    """A piece with more records than a table may have is split between batches; no row is lost."""
    batch = build_batch([(1, b"k", b"", ())] * 30_000)
    data = np.frombuffer(batch * 9, np.uint8)
    decoder = ArrowDecoder(select(["key"]), "flights", 3)

    made = list(decoder.tables_of(data, walk(data).batches, 0, 30_000))

    assert sum(len(table) for table in made) == 270_000
    assert max(len(table) for table in made) <= DIRECT_ROWS + 30_000


def test_old_batches_of_unknown_count_stay_together() -> None:
    """A wrapper has no record count; such batches among others do not each become a table."""
    wrapper = build_old(1, [(5, b"k", b"v")], base_offset=0, codec=Codec.GZIP)
    single = build_old(1, [(5, b"k", b"v")], base_offset=1, codec=Codec.NONE)
    data = np.frombuffer((wrapper + single) * 3, np.uint8)
    decoder = ArrowDecoder(select(["key"]), "flights", 3)

    made = list(decoder.tables_of(data, walk(data).batches, 0, 9))

    assert [len(table) for table in made] == [6]


def test_append_time_is_the_batches_time() -> None:
    """Records of a LogAppendTime batch have its time and timestamp type 1; types may be mixed."""
    append_time = BatchSpec(
        base_offset=1, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=5000
    )
    data = build_batch([(1, b"k", b"v", ())]) + build_batch([(2, b"k", b"v", ())], append_time)

    found = [(row["timestampType"], row["timestamp"].timestamp()) for row in rows(data)]

    assert found == [(0, 0.001), (1, 5.0)]


def test_only_the_selected_columns_are_built() -> None:
    """A table has the selected columns in the selected order, all with one schema object."""
    schema = select(["offset", "key"])
    data = build_batch([(1, b"k", b"v", ())])

    made = tables(data, schema=schema)

    assert [table.to_pydict() for table in made] == [{"offset": [0], "key": [b"k"]}]
    assert all(table.schema is schema or table.schema.equals(schema) for table in made)


def test_an_unknown_column_is_rejected() -> None:
    """Columns are selected by the names of Spark's Kafka source, each at most once."""
    for names in (["offset", "colour"], ["key", "key"]):
        with pytest.raises(InvalidArgument, match="columns of a record are"):
            select(names)


def test_types_are_those_that_spark_accepts() -> None:
    """Text and bytes have 32-bit offsets, times are microseconds in UTC; headers come last."""
    assert SCHEMA.field("topic").type == pa.string()
    assert SCHEMA.field("value").type == pa.binary()
    assert SCHEMA.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert COLUMNS[-1] == "headers"
    assert "headers" not in SCHEMA.names


def test_offsets_outside_the_range_are_omitted() -> None:
    """The end of the range is exclusive; start and end may be inside a batch."""
    data = build_batch([(1, b"k", b"%d" % n, ()) for n in range(10)])

    assert [row["offset"] for row in rows(data, start=3, end=6)] == [3, 4, 5]
    assert rows(data, start=10) == []


def test_control_records_are_not_rows() -> None:
    """The records that end a transaction are not data."""
    marker = BatchSpec(
        base_offset=1, producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    data = build_batch([(1, b"k", b"v", ())]) + build_batch([(1, b"\0\0\0\1", b"v", ())], marker)

    assert [row["offset"] for row in rows(data)] == [0]


def test_header_names_that_are_not_utf8_are_replaced() -> None:
    """Invalid bytes in a header's name become U+FFFD, as in a Java client."""
    data = build_batch([(1, None, None, (("ok", b"1"), ("bad?", b"2")))])
    damaged = data.replace(b"bad?", b"bad\xff")

    assert [h["key"] for h in rows(damaged)[0]["headers"]] == ["ok", "bad\ufffd"]


def test_many_rows_are_split_into_tables() -> None:
    """No table has more than MAX_ROWS rows, and together they have all rows, in order."""
    count = MAX_ROWS + 5
    data = build_batch([(1, None, None, ())] * count)

    made = tables(data, schema=select(["offset"]))

    assert all(table.num_rows <= MAX_ROWS for table in made)
    offsets = [n for table in made for n in table.column("offset").to_pylist()]
    assert offsets == list(range(count))


def test_large_rows_are_split_by_bytes() -> None:
    """Tables of large records stay near 4 MiB; a larger record has a table of its own."""
    data = build_batch([(1, None, bytes(1 << 20), ())] * 9)

    made = tables(data, schema=select(["value"]))

    assert [table.num_rows for table in made] == [3, 3, 3]


def test_a_time_beyond_microseconds_is_an_error() -> None:
    """A timestamp that Spark cannot represent is an error that names it, and what to do."""
    data = build_batch([(1, None, None, ()), (2**62, None, None, ())])

    words = f"timestamp {2**62} of offset 1 .* in microseconds: name .* without timestamp"
    with pytest.raises(InvalidTimestamp, match=words):
        tables(data)
    assert len(rows(data, schema=select(["offset"]))) == 2
