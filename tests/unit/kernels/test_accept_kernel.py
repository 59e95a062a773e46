"""The fast path of an append: ordinary client batches, checked in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.codec.compression import Codec
from tidelog.kernels import rows
from tidelog.kernels.accept_kernel import accept_batches
from tidelog.records.batch import BATCH_HEADER, LOG_OVERHEAD, BatchFlags
from tidelog.records.builder import BatchSpec, build_batch, pack_batch
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.fields import SequenceFields

RECORDS = [(1_000, b"key", b"value", ()), (1_005, None, b"value", (("h", b"x"),))]
PRODUCER: SequenceFields = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 4}


def accepted(
    kernel: Any, data: bytes, rules: tuple[Any, ...] = (False, 0, 2_000)
) -> tuple[Any, Any]:
    out = np.zeros((rows.BATCH_COLUMNS, 1), np.int64)
    return kernel(np.frombuffer(data, np.uint8), False, *rules, out), out


def repacked(**fields: int) -> bytes:
    data = build_batch(RECORDS)
    header = BATCH_HEADER.unpack(data)._replace(**fields)
    return pack_batch(header, data[BATCH_HEADER.size :])


NOTHING = pack_batch(
    BATCH_HEADER.unpack(build_batch(RECORDS))._replace(
        length=BATCH_HEADER.size - LOG_OVERHEAD,
        records_count=0,
        last_offset_delta=-1,
        max_timestamp=-1,
    ),
    b"",
)
"""A batch that says of itself, truly, that it has no records."""


@pytest.mark.parametrize(
    "fields",
    [{}, PRODUCER, {**PRODUCER, "base_sequence": 0}, {**PRODUCER, "transactional": True}],
)
def test_an_ordinary_batch_is_accepted_with_its_header(
    run: Callable[[Any], Any], fields: dict[str, Any]
) -> None:
    """A whole, uncompressed, dense batch within the limits is accepted, with its header row."""
    data = build_batch(RECORDS, **fields)

    is_taken, row = accepted(run(accept_batches), data)

    assert is_taken
    assert row.tolist() == walk(data).batches.array.tolist()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        build_batch(RECORDS)[:-1],
        build_batch(RECORDS) + b"\x00",
        build_batch(RECORDS) * 2,
        build_batch(RECORDS)[:-1] + b"?",
        build_batch(RECORDS, codec=Codec.ZSTD),
        build_batch(RECORDS, BatchSpec(base_offset=1)),
        repacked(base_offset=1, last_offset_delta=0),
        repacked(attributes=BatchFlags.LOG_APPEND_TIME),
        repacked(attributes=BatchFlags.CONTROL),
        repacked(last_offset_delta=2),
        repacked(records_count=1),
        repacked(records_count=3),
        repacked(records_count=0, last_offset_delta=-1),
        NOTHING,
        repacked(producer_id=0),
        repacked(max_timestamp=1_004),
        repacked(max_timestamp=1_006),
    ],
    ids=[
        "nothing",
        "cut off",
        "a byte more",
        "two",
        "wrong CRC",
        "compressed",
        "other offset",
        "other offset, though the last is right",
        "append time",
        "control",
        "a gap at the end",
        "fewer counted",
        "more counted",
        "none counted",
        "no records",
        "no sequence",
        "later than said",
        "earlier than said",
    ],
)
def test_an_unusual_batch_is_not_accepted(run: Callable[[Any], Any], data: bytes) -> None:
    """A batch that is invalid or merely unusual is left to plain code."""
    assert not accepted(run(accept_batches), data)[0]


@pytest.mark.parametrize("rules", [(True, 0, 2_000), (False, 1_001, 2_000), (False, 0, 1_004)])
def test_records_that_break_a_rule_are_not_accepted(run: Callable[[Any], Any], rules: Any) -> None:
    """A missing key, or a timestamp outside the limits, is not accepted."""
    assert not accepted(run(accept_batches), build_batch(RECORDS), rules)[0]


def test_offsets_with_a_gap_are_not_accepted(
    run: Callable[[Any], Any], record: Callable[..., bytes]
) -> None:
    """A gap would leave the log with an offset that has no record."""
    header = BATCH_HEADER.unpack(build_batch(RECORDS))
    area = record(0, 0) + record(5, 2)
    whole = header._replace(length=BATCH_HEADER.size - 12 + len(area))

    assert not accepted(run(accept_batches), pack_batch(whole, area))[0]


def test_each_column_takes_one_batch(run: Callable[[Any], Any]) -> None:
    """As many batches as columns are accepted, and no other number; each has its header."""
    batches = [build_batch(RECORDS), build_batch(RECORDS[:1], **PRODUCER), build_batch(RECORDS)]
    data = b"".join(batches)

    found = {}
    for columns in range(5):
        out = np.zeros((rows.BATCH_COLUMNS, columns), np.int64)
        found[columns] = run(accept_batches)(
            np.frombuffer(data, np.uint8), False, False, 0, 2_000, out
        )
        if columns == 3:
            assert out.tolist() == walk(data).batches.array.tolist()

    assert found == {0: False, 1: False, 2: False, 3: True, 4: False}
    out = walk(data + batches[0]).batches.array.copy()  # a header from before does not count
    assert not run(accept_batches)(np.frombuffer(data, np.uint8), False, False, 0, 2_000, out)
    none = out[:, :0]
    assert not run(accept_batches)(np.frombuffer(b"", np.uint8), False, False, 0, 2_000, none)


@pytest.mark.parametrize("at", range(3))
def test_one_unusual_batch_is_enough_to_refuse_all(run: Callable[[Any], Any], at: int) -> None:
    """Wherever it is among the others."""
    batches = [build_batch(RECORDS)] * 3
    batches[at] = repacked(max_timestamp=1_004)
    out = np.zeros((rows.BATCH_COLUMNS, 3), np.int64)

    data = np.frombuffer(b"".join(batches), np.uint8)

    assert not run(accept_batches)(data, False, False, 0, 2_000, out)


def test_of_a_compressed_batch_only_the_header_is_checked(run: Callable[[Any], Any]) -> None:
    """It is accepted where the topic takes any codec; its records are left to the caller."""
    plain, packed = build_batch(RECORDS), build_batch(RECORDS, codec=Codec.LZ4)
    late = pack_batch(BATCH_HEADER.unpack(packed)._replace(max_timestamp=9), packed[61:])
    found = {}
    wrong = packed + repacked(max_timestamp=1_004)
    cases = ("mixed", plain + packed + late, 3), ("cut", packed[:-1], 1), ("wrong", wrong, 2)
    for name, data, count in cases:
        out = np.zeros((rows.BATCH_COLUMNS, count), np.int64)
        array = np.frombuffer(data, np.uint8)
        found[name] = [run(accept_batches)(array, one, False, 0, 2_000, out) for one in (1, 0)]

    assert found.pop("mixed") == [True, False]
    assert [*found.values()] == [[False, False]] * 2
