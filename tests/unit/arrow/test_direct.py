"""Columns straight from plain batches, and what is left to the decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidelog.arrow.direct import MOST_ROWS, Wanted, direct_columns
from tidelog.codec.compression import Codec
from tidelog.kernels.runtime import gate
from tidelog.records.batch import TimestampType
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.memory import walk

RECORDS = [(5, b"key", None, ()), (7, None, b"value", (("h", b"x"),)), (9, b"", b"v", ())]
ALL = ("offset", "timestamp", "key", "value")
EVERY_OFFSET = (0, 1 << 62)

pytestmark = pytest.mark.usefixtures("kernels")


def columns(data: bytes, names: Any = ALL, offsets: tuple[int, int] = EVERY_OFFSET) -> Any:
    source = np.frombuffer(data, np.uint8)
    return direct_columns(source, walk(source).batches, Wanted(names, *offsets))


def test_each_wanted_column_holds_what_the_records_hold() -> None:
    """Nulls, empty values and times in microseconds, of several batches side by side."""
    data = build_batch(RECORDS) + build_batch(RECORDS[:1], BatchSpec(base_offset=3))

    count, made = columns(data)

    assert count == 4
    assert made["offset"].to_pylist() == [0, 1, 2, 3]
    assert made["timestamp"].cast("int64").to_pylist() == [5000, 7000, 9000, 5000]
    assert made["key"].to_pylist() == [b"key", None, b"", b"key"]
    assert made["value"].to_pylist() == [None, b"value", b"v", None]
    assert made["key"].null_count == 1


def test_only_what_is_wanted_is_made() -> None:
    """A column that nobody asked for is not there; one without nulls has no bitmap."""
    _, made = columns(build_batch(RECORDS[2:]), ("key",))

    assert list(made) == ["key"]
    assert made["key"].buffers()[0] is None


@pytest.mark.parametrize(
    ("names", "offsets"), [(("headers",), EVERY_OFFSET), (ALL, (1, 9)), (ALL, (0, 2))]
)
def test_headers_and_the_ends_of_a_range_are_left_to_the_decoder(
    names: tuple[str, ...], offsets: tuple[int, int]
) -> None:
    """Records with headers that are wanted, or not all wanted themselves, are not taken."""
    assert columns(build_batch(RECORDS), names, offsets) is None


@pytest.mark.parametrize(
    "spec",
    [
        BatchSpec(codec=Codec.LZ4),
        BatchSpec(timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=5),
    ],
)
def test_unusual_batches_are_left_to_the_decoder(spec: BatchSpec) -> None:
    """Compressed batches are not taken, nor append time where its type is wanted."""
    assert columns(build_batch(RECORDS, spec), ("offset", "timestampType")) is None


def test_more_rows_than_a_table_takes_are_left_to_the_decoder() -> None:
    """The decoder cuts a batch of very many records; a topic's name, for each row, takes room."""
    batch = build_batch([(1, None, None, ())] * (MOST_ROWS // 4))

    assert columns(batch * 4, ("key",)) is not None
    assert columns(batch * 4 + build_batch(RECORDS[:1]), ("key",)) is None


def test_work_left_to_the_decoder_is_not_counted_as_done() -> None:
    """Plain code is used until its own work pays for loading kernels, not the half of it."""
    gate.force(None)
    before = gate._GATE._plain_bytes

    columns(build_batch(RECORDS))

    assert gate._GATE._plain_bytes == before


def test_a_damaged_batch_is_left_to_the_decoder() -> None:
    """What does not read as records is not taken, so that the decoder's error says why."""
    data = bytearray(build_batch(RECORDS))
    data[61] = 0x7F

    assert columns(bytes(data)) is None
