"""Records extracted to columns in one pass, compared with decoding and gathering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.extract import MOST_MILLIS, UNUSUAL, extract

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ONE_HEADER = b"\x02\x02h\x02x"
EVERY_OFFSET = (-(2**63), 2**63 - 1)


class Room(NamedTuple):
    """Rows and bytes that the columns have room for; 0 rows means omitted."""

    numbers: int = 8
    keys: int = 8
    values: int = 8
    data: int = 200


class Out(NamedTuple):
    """The arrays that the kernel fills."""

    offsets: Any
    micros: Any
    key_ends: Any
    keys: Any
    key_valid: Any
    value_ends: Any
    values: Any
    value_valid: Any


def new_out(room: Room) -> Out:
    numbers = (np.full(room.numbers, -99, np.int64) for _ in range(2))
    pieces = (
        np.full(size, fill, kind)
        for count in (room.keys, room.values)
        for size, fill, kind in (
            (count, -99, np.int32),
            (room.data if count else 0, 9, np.uint8),
            (count, 9, np.uint8),
        )
    )
    return Out(*numbers, *pieces)


def extracted(
    kernel: Callable[..., int],
    source: tuple[Any, Any],
    room: Room = Room(),  # noqa: B008 - a value that nobody changes
    offsets: tuple[int, int] = EVERY_OFFSET,
    *,
    refuse_headers: bool = False,
) -> tuple[int, Out]:
    out = new_out(room)
    return int(kernel(*source, *offsets, refuse_headers, *out)), out


def test_columns_hold_what_the_records_hold(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """Offsets, microseconds, contiguous bytes, their ends, and which are null."""
    first = record(0, 0, b"key", b"value", ONE_HEADER)
    source = areas_of(
        [(2, first + record(-5, 1, None, b"")), (1, record(2, 3, b"k", None))],
        base_offset=100,
        base_timestamp=1_000,
    )

    count, out = extracted(run(extract), source)

    assert count == 3
    assert out.offsets[:4].tolist() == [100, 101, 103, -99]
    assert out.micros[:4].tolist() == [1_000_000, 995_000, 1_002_000, -99]
    assert out.key_ends[:5].tolist() == [0, 3, 3, 4, -99]
    assert out.keys[:4].tobytes() == b"keyk"
    assert out.key_valid[:4].tolist() == [1, 0, 1, 9]
    assert out.value_ends[:5].tolist() == [0, 5, 5, 5, -99]
    assert out.values[:5].tobytes() == b"value"
    assert out.value_valid[:4].tolist() == [1, 1, 0, 9]


def test_columns_without_room_are_not_wanted(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """Each column can be omitted, and the others are the same."""
    source = areas_of([(1, record(0, 7, b"key", b"value"))])

    for room in (Room(0), Room(keys=0), Room(values=0), Room(0, 0, 0)):
        count, out = extracted(run(extract), source, room)
        assert count == 1
        assert out.offsets[:1].tolist() == [7][: room.numbers]
        assert out.keys[:3].tobytes() == b"key"[: room.keys]
        assert out.values[:5].tobytes() == b"value"[: room.values]


def test_append_time_is_every_record_s_time(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """With LogAppendTime every record has the batch's greatest timestamp, whatever its delta."""
    source = areas_of([(1, record(1))], attributes=rows.LOG_APPEND_TIME, max_timestamp=77)

    _, out = extracted(run(extract), source)

    assert out.micros[0] == 77_000


@pytest.mark.parametrize("room", [Room(1), Room(keys=2), Room(values=2), Room(data=9)])
def test_columns_too_small_are_not_overrun(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    room: Room,
) -> None:
    """Records are unusual if their rows or bytes do not fit."""
    source = areas_of([(1, record(0, 0, b"k", b"value")), (1, record(0, 1, b"k", b"value"))])

    count, _ = extracted(run(extract), source, room)

    assert count == UNUSUAL


@pytest.mark.parametrize("room", [Room(0, 2, 0, 9), Room(0, 0, 2, 9)])
def test_the_greatest_count_there_is_does_not_overrun(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    room: Room,
) -> None:
    """The greatest int64 as a count is too great for any column and does not overflow."""
    source = areas_of([(2**63 - 1, record() * 3)])

    count, out = extracted(run(extract), source, room)

    assert count == UNUSUAL
    assert out.keys.tobytes() + out.values.tobytes() == b"\x09" * 9


@pytest.mark.parametrize("offsets", [(8, 9), (0, 7)])
def test_an_offset_outside_the_range_is_unusual(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    offsets: tuple[int, int],
) -> None:
    """A record below the start offset, or at or beyond the end offset, is left to the caller."""
    source = areas_of([(1, record(0, 7))])

    count, _ = extracted(run(extract), source, offsets=offsets)

    assert count == UNUSUAL


def test_headers_are_unusual_where_they_are_refused(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """Headers have no column here, so where they are wanted a record must have none."""
    source = areas_of([(1, record(headers=ONE_HEADER))])

    assert extracted(run(extract), source, refuse_headers=True)[0] == UNUSUAL
    assert extracted(run(extract), source)[0] == 1


@pytest.mark.parametrize("millis", [MOST_MILLIS + 1, -MOST_MILLIS - 1])
def test_a_time_beyond_microseconds_is_unusual(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    millis: int,
) -> None:
    """A timestamp beyond int64 microseconds is left to the caller, unless the column is omitted."""
    source = areas_of([(1, record())], base_timestamp=millis)

    assert extracted(run(extract), source)[0] == UNUSUAL
    assert extracted(run(extract), source, Room(0))[0] == 1


def test_damaged_bytes_are_unusual_or_read_as_records(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    rng: random.Random,
) -> None:
    """Whatever the bytes, the kernel stays inside them and takes all records or none."""
    good = record(0, 0, b"key", b"value", ONE_HEADER) + record(1, 1, b"k", b"v")
    for _ in range(300):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] = rng.randrange(256)
        source = areas_of([(2, bytes(bad[: rng.randrange(1, len(bad) + 1)]))])

        assert extracted(run(extract), source)[0] in {2, UNUSUAL}


def test_a_count_that_does_not_fit_is_unusual(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """Missing records, bytes left over and areas outside the data are left to the caller."""
    for count in (-1, 1, 3):
        source = areas_of([(count, record() + record())])
        assert extracted(run(extract), source)[0] == UNUSUAL
    data, areas = areas_of([(2, record() + record())])
    areas[rows.AREA_END] += 1_000
    assert extracted(run(extract), (data, areas))[0] == UNUSUAL
