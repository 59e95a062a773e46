"""Records checked as a leader checks them.

Owns the record rules of an append over many batches in one call. Must not know batch headers,
settings or clocks: limits come as numbers. Kafka: ``LogValidator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernels.record import area_status, read_record, record_bounds
from tidelog.kernels.rows import (
    AREA_ATTRIBUTES,
    AREA_BASE_TIMESTAMP,
    AREA_COLUMNS,
    AREA_COUNT,
    AREA_END,
    AREA_MAX_TIMESTAMP,
    AREA_START,
    BAD_ARGUMENT,
    BAD_TIMESTAMP,
    BYTES_LEFT_OVER,
    LOG_APPEND_TIME,
    MISSING_RECORDS,
    NULL_KEY,
    OK,
    VALID_COLUMNS,
    VALID_IS_DENSE,
    VALID_MAX_TIMESTAMP,
)
from tidelog.kernels.runtime.intrinsics import add64, address_of
from tidelog.kernels.runtime.jit import BYTES, TABLE, WRITABLE_TABLE, inlined, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class RecordRules(NamedTuple):
    """What holds for every record of an area: the topic's rules and the area's own."""

    need_key: bool
    not_before_ms: int
    not_after_ms: int
    use_append_time: bool
    says_append_time: bool


@inlined
def _record_status(key_size: int, timestamp: int, rules: RecordRules) -> int:
    """Return the first rule that a well-formed record breaks, OK if it breaks none."""
    if rules.need_key and key_size < 0:
        return NULL_KEY
    if rules.use_append_time or timestamp == -1:
        return BAD_TIMESTAMP if rules.says_append_time else OK
    is_allowed = rules.not_before_ms <= timestamp <= rules.not_after_ms
    return OK if is_allowed else BAD_TIMESTAMP


@inlined
def check_records(
    at: int, end: int, count: int, base_timestamp: int, append_timestamp: int, rules: RecordRules
) -> tuple[int, int, int, int]:
    """Check the records at these addresses.

    Returns a status, the index of the bad record, the greatest timestamp, 1 for dense offsets.
    """
    greatest = -1
    is_dense = 1
    for index in range(count):
        if at == end:
            return MISSING_RECORDS, index, 0, 0
        status, record, at = record_bounds(at, end)
        if status != OK:
            return status, index, 0, 0
        status, places = read_record(record, at)
        if status != OK:
            return status, index, 0, 0
        timestamp = add64(base_timestamp, places.timestamp_delta)
        if rules.says_append_time:
            timestamp = append_timestamp
        status = _record_status(places.key_size, timestamp, rules)
        if status != OK:
            return status, index, 0, 0
        greatest = max(greatest, timestamp)
        if places.offset_delta != index:
            is_dense = 0
    status = BYTES_LEFT_OVER if count > 0 and at != end else OK
    return status, count, greatest, is_dense


@kernel(f"UniTuple(int64, 3)({BYTES}, {TABLE}, boolean, int64, int64, boolean, {WRITABLE_TABLE})")
def validate_records(
    data: npt.NDArray[np.uint8],
    areas: npt.NDArray[np.int64],
    need_key: bool,  # noqa: FBT001 - numba takes arguments by position
    not_before_ms: int,
    not_after_ms: int,
    use_append_time: bool,  # noqa: FBT001 - as above
    out: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Check every record of ``areas``; fill a column of ``out`` (``VALID_COLUMNS``) for each area.

    Args:
        data: the bytes.
        areas: a column for each record area.
        need_key: whether a null key is an error (compacted topics).
        not_before_ms: least timestamp allowed; -1, no timestamp, always is.
        not_after_ms: greatest timestamp allowed.
        use_append_time: the topic's timestamps are append times, so records' own do not matter.
        out: where to put each area's greatest timestamp and whether its offsets are dense.

    Returns the status of the first bad record, its area and its index therein; OK, the number of
    areas and 0 if there is none. The caller finds out in plain code what else is wrong.
    Source: Kafka LogValidator.validateRecord and validateTimestamp.
    """
    if areas.shape[0] < AREA_COLUMNS or out.shape[0] < VALID_COLUMNS:
        return BAD_ARGUMENT, 0, 0
    if out.shape[1] < areas.shape[1]:
        return BAD_ARGUMENT, 0, 0
    first = address_of(data)
    for area in range(areas.shape[1]):
        start, end = areas[AREA_START, area], areas[AREA_END, area]
        count = areas[AREA_COUNT, area]
        status = area_status(start, end, data.size, count, count)
        if status != OK:
            return status, area, 0
        says_append_time = areas[AREA_ATTRIBUTES, area] & LOG_APPEND_TIME != 0
        status, index, greatest, is_dense = check_records(
            first + start,
            first + end,
            count,
            areas[AREA_BASE_TIMESTAMP, area],
            areas[AREA_MAX_TIMESTAMP, area],
            RecordRules(need_key, not_before_ms, not_after_ms, use_append_time, says_append_time),
        )
        if status != OK:
            return status, area, index
        out[VALID_MAX_TIMESTAMP, area] = greatest
        out[VALID_IS_DENSE, area] = is_dense
    return OK, areas.shape[1], 0
