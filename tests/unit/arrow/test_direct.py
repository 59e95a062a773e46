"""Columns built straight from plain batches, and cases left to the decoder."""

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


def test_each_selected_column_has_the_content_of_the_records() -> None:
    """This covers nulls, empty values and times in microseconds, across several batches."""
    data = build_batch(RECORDS) + build_batch(RECORDS[:1], BatchSpec(base_offset=3))

    count, made = columns(data)

    assert count == 4
    assert made["offset"].to_pylist() == [0, 1, 2, 3]
    assert made["timestamp"].cast("int64").to_pylist() == [5000, 7000, 9000, 5000]
    assert made["key"].to_pylist() == [b"key", None, b"", b"key"]
    assert made["value"].to_pylist() == [None, b"value", b"v", None]
    assert made["key"].null_count == 1


def test_only_selected_columns_are_built() -> None:
    """A column that was not selected is missing; one without nulls has no bitmap."""
    _, made = columns(build_batch(RECORDS[2:]), ("key",))

    assert list(made) == ["key"]
    assert made["key"].buffers()[0] is None


@pytest.mark.parametrize(
    ("names", "offsets"), [(("headers",), EVERY_OFFSET), (ALL, (1, 9)), (ALL, (0, 2))]
)
def test_headers_and_the_ends_of_a_range_are_left_to_the_decoder(
    names: tuple[str, ...], offsets: tuple[int, int]
) -> None:
    """Selected headers, and batches only partly in the range, are not handled here."""
    assert columns(build_batch(RECORDS), names, offsets) is None


@pytest.mark.parametrize(
    "spec",
    [
        BatchSpec(codec=Codec.LZ4),
        BatchSpec(timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=5),
    ],
)
def test_unusual_batches_are_left_to_the_decoder(spec: BatchSpec) -> None:
    """Compressed batches are, and so is append time if its type is selected."""
    assert columns(build_batch(RECORDS, spec), ("offset", "timestampType")) is None


def test_more_rows_than_a_table_takes_are_left_to_the_decoder() -> None:
    """The decoder splits a batch of very many records, whose topic names need space."""
    batch = build_batch([(1, None, None, ())] * (MOST_ROWS // 4))

    assert columns(batch * 4, ("key",)) is not None
    assert columns(batch * 4 + build_batch(RECORDS[:1]), ("key",)) is None


def test_work_left_to_the_decoder_is_not_counted_as_done() -> None:
    """Plain code is used until its own work, not half of it, pays for loading kernels."""
    gate.force(None)
    before = gate._GATE._plain_bytes

    columns(build_batch(RECORDS))

    assert gate._GATE._plain_bytes == before


def test_a_damaged_batch_is_left_to_the_decoder() -> None:
    """Malformed records are left to the decoder, whose error gives the reason."""
    data = bytearray(build_batch(RECORDS))
    data[61] = 0x7F

    assert columns(bytes(data)) is None
