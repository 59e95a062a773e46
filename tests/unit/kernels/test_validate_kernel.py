"""A leader's checks on many records at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.validate_kernel import validate_records

if TYPE_CHECKING:
    from collections.abc import Callable

ANY_TIME = (-(2**63), 2**63 - 1)


def checked(
    kernel: Callable[..., Any],
    data: Any,
    areas: Any,
    *,
    need_key: bool = False,
    limits: tuple[int, int] = ANY_TIME,
    use_append_time: bool = False,
) -> tuple[tuple[int, int, int], list[list[int]]]:
    out = np.full((rows.VALID_COLUMNS, areas.shape[1]), -99, np.int64)
    found = kernel(data, areas, need_key, *limits, use_append_time, out)
    return found, out.T.tolist()


def test_valid_records_give_greatest_time_and_density(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """For each area: the greatest timestamp, and whether offset deltas are 0, 1, 2 and so on."""
    dense = record(5, 0) + record(9, 1) + record(-3, 2)
    holes = record(0, 0) + record(1, 2)
    data, areas = areas_of([(3, dense), (2, holes), (0, b"")], base_timestamp=1_000)

    found, out = checked(run(validate_records), data, areas)

    assert (found, out) == ((rows.OK, 3, 0), [[1_009, 1], [1_001, 0], [-1, 1]])


@pytest.mark.parametrize(
    ("need_key", "key", "status"),
    [
        (True, None, rows.NULL_KEY),
        (True, b"", rows.OK),
        (False, None, rows.OK),
    ],
)
def test_only_compacted_topics_need_keys(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    need_key: bool,
    key: bytes | None,
    status: int,
) -> None:
    """A null key is rejected where keys are required; an empty key never is."""
    data, areas = areas_of([(1, record()), (2, record() + record(0, 1, key))])

    (found, area, index), _ = checked(run(validate_records), data, areas, need_key=need_key)

    assert status == found
    assert status == rows.OK or (area, index) == (1, 1)


@pytest.mark.parametrize(
    ("timestamp", "use_append_time", "attributes", "status"),
    [
        (100, False, 0, rows.OK),
        (200, False, 0, rows.OK),
        (99, False, 0, rows.BAD_TIMESTAMP),
        (201, False, 0, rows.BAD_TIMESTAMP),
        (-1, False, 0, rows.OK),
        (-2, False, 0, rows.BAD_TIMESTAMP),
        (99, True, 0, rows.OK),
        (100, True, rows.LOG_APPEND_TIME, rows.BAD_TIMESTAMP),
        (-1, False, rows.LOG_APPEND_TIME, rows.BAD_TIMESTAMP),
        (150, False, rows.LOG_APPEND_TIME, rows.OK),
    ],
)
def test_timestamps_keep_to_the_limits(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    timestamp: int,
    use_append_time: bool,
    attributes: int,
    status: int,
) -> None:
    """Limits apply to CreateTime topics, except for -1; a producer may not claim append time."""
    data, areas = areas_of([(1, record(timestamp))], attributes=attributes, max_timestamp=timestamp)

    (found, *_), _ = checked(
        run(validate_records), data, areas, limits=(100, 200), use_append_time=use_append_time
    )

    assert status == found


def test_append_time_of_the_batch_is_what_is_checked(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """A LogAppendTime batch is checked by its greatest timestamp, not by its deltas."""
    data, areas = areas_of([(1, record(5))], attributes=rows.LOG_APPEND_TIME, max_timestamp=150)

    found, out = checked(run(validate_records), data, areas, limits=(100, 200))

    assert (found, out) == ((rows.OK, 1, 0), [[150, 1]])


@pytest.mark.parametrize(
    ("count", "tail", "status", "index"),
    [
        (-1, b"", rows.BAD_COUNT, 0),
        (3, b"", rows.MISSING_RECORDS, 2),
        (2, b"\0", rows.BYTES_LEFT_OVER, 2),
        (3, b"\x80", rows.BAD_VARINT, 2),
        (3, b"\x02\0", rows.BAD_VARINT, 2),
    ],
)
def test_malformed_records_are_found(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    count: int,
    tail: bytes,
    status: int,
    index: int,
) -> None:
    """Records are parsed by the decoder's rules, and the first invalid one is returned."""
    data, areas = areas_of([(1, record()), (count, record() + record(0, 1) + tail)])

    (found, area, at), _ = checked(run(validate_records), data, areas)

    assert (status, 1, index) == (found, area, at)


def test_arrays_that_do_not_fit_are_refused(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """The output needs a column for each area, and areas must be within the data."""
    data, areas = areas_of([(1, record())])
    short = np.zeros((rows.VALID_COLUMNS, 0), np.int64)

    found = run(validate_records)(data, areas, False, *ANY_TIME, False, short)
    areas[rows.AREA_END] += 1
    outside, _ = checked(run(validate_records), data, areas)

    assert (found, outside) == ((rows.BAD_ARGUMENT, 0, 0), (rows.BAD_ARGUMENT, 0, 0))
