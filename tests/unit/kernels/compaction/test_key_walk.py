"""The log cleaner's passes over keys: bounds, limits and malformed records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.compaction.key_walk import decide_retention, find_keys, put_keys, walk_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[Any], Any]


def actions(count: int, action: int = keys.FILTER) -> Any:
    return np.full(count, action, np.int64)


def table(count: int) -> Any:
    return np.zeros((keys.KEY_COLUMNS, count), np.int64)


def test_keys_and_their_records_are_found(
    run: Run, record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """Offset, timestamp, key, value size and end of each record are found."""
    first, second = record(3, 0, b"key", b"value"), record(-2, 5, None, None)
    data, areas = areas_of([(2, first + second)], base_offset=100, base_timestamp=1000)
    out = table(4)

    count, status, _ = run(walk_keys)(data, areas, actions(1), 0, False, out)

    assert (count, status) == (2, rows.OK)
    assert out[keys.OFFSET, :2].tolist() == [100, 105]
    assert out[keys.TIMESTAMP, :2].tolist() == [1003, 998]
    assert out[keys.KEY_SIZE, :2].tolist() == [3, -1]
    assert out[keys.VALUE_SIZE, :2].tolist() == [5, -1]
    at = int(out[keys.KEY_AT, 0])
    assert data[at : at + 3].tobytes() == b"key"
    assert out[keys.END, 0] - out[keys.REST_AT, 0] == 1 + 3 + 1 + 5 + 1


@pytest.mark.parametrize(("keyed_only", "least", "found"), [(True, 0, [0]), (False, 1, [1])])
def test_unwanted_records_are_left_out(
    run: Run,
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    keyed_only: bool,
    least: int,
    found: list[int],
) -> None:
    """Records without a key, or below an offset, get no column if they are not wanted."""
    data, areas = areas_of([(2, record(0, 0, b"k") + record(0, 1, None))])
    out = table(4)

    count, _, _ = run(walk_keys)(data, areas, actions(1), least, keyed_only, out)

    assert out[keys.OFFSET, :count].tolist() == found


def test_batches_without_an_action_are_not_read(
    run: Run, record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """A batch without an action is not read, so malformed bytes in it do no harm."""
    data, areas = areas_of([(2, b"\xff" * 20), (1, record(0, 0, b"k"))])

    count, status, _ = run(walk_keys)(data, areas, np.array([0, 1]), 0, False, table(4))

    assert (count, status) == (1, rows.OK)


@pytest.mark.parametrize("cut", range(12))
def test_a_record_cut_short_has_a_negative_status(
    run: Run, record: Callable[..., bytes], areas_of: Callable[..., Any], cut: int
) -> None:
    """A record that is cut anywhere is not read beyond its end."""
    whole = record(0, 0, b"k", b"v")
    data, areas = areas_of([(1, whole[: min(cut, len(whole) - 1)])])

    _, status, _ = run(walk_keys)(data, areas, actions(1), 0, False, table(4))

    assert status < 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"", rows.BAD_VARINT),
        (b"\x01", rows.BAD_HEADERS_COUNT),
        (b"\x08", rows.BAD_HEADERS_COUNT),
        (b"\x02\x01\x00", rows.BAD_HEADER),
        (b"\x02\x02h\x7e", rows.BAD_HEADER),
        (b"\x00\x00", rows.BAD_RECORD_END),
        (b"\x02\x02h\x02x", rows.OK),
    ],
)
def test_headers_are_checked(
    run: Run,
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    headers: bytes,
    status: int,
) -> None:
    """Their number, names and sizes are, and that the record ends after them, as readers do."""
    data, areas = areas_of([(1, record(0, 0, b"k", b"v", headers=headers))])

    assert run(walk_keys)(data, areas, actions(1), 0, False, table(4))[1] == status


def test_arrays_that_do_not_fit_are_refused(run: Run) -> None:
    """Positions outside the data and tables that are too small give a status, not a crash."""
    data, state = np.zeros(10, np.uint8), np.zeros(keys.STATE_WORDS, np.int64)
    outside = table(1)
    outside[keys.KEY_AT], outside[keys.KEY_SIZE] = 8, 5
    hashes, slots = np.zeros((2, 1), np.int64), np.zeros(6, np.int64)
    bits = np.zeros(0, np.uint8)

    assert run(put_keys)(data, outside, 1, hashes, slots, bits, state)[0] == rows.BAD_ARGUMENT
    assert run(put_keys)(data, outside, 2, hashes, slots, bits, state)[0] == rows.BAD_ARGUMENT
    assert run(find_keys)(data, outside, 0, 1, hashes, slots, state) == rows.BAD_ARGUMENT
    state[keys.BITS_END] = 9
    areas = np.zeros((rows.AREA_COLUMNS, 1), np.int64)
    assert run(decide_retention)(areas, actions(1), outside, 1, bits, state, 0) == rows.BAD_ARGUMENT
    outside[keys.AREA] = 1
    state[keys.BITS_END] = 0
    assert run(decide_retention)(areas, actions(1), outside, 1, bits, state, 0) == rows.BAD_ARGUMENT
