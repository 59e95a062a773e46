"""A leader's checks on records, for any number of batches in one call.

Kafka: ``LogValidator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernels.record_kernel import area_status, read_record, record_bounds
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
    """The rules for every record of an area: the topic's, and its batch's timestamp type."""

    need_key: bool
    not_before_ms: int
    not_after_ms: int
    use_append_time: bool
    is_append_time: bool


@inlined
def _record_status(key_size: int, timestamp: int, rules: RecordRules) -> int:
    """Return the first rule that a well-formed record breaks, or OK."""
    if rules.need_key and key_size < 0:
        return NULL_KEY
    if rules.use_append_time or timestamp == -1:
        return BAD_TIMESTAMP if rules.is_append_time else OK
    is_allowed = rules.not_before_ms <= timestamp <= rules.not_after_ms
    return OK if is_allowed else BAD_TIMESTAMP


@inlined
def check_records(
    at: int, end: int, count: int, base_timestamp: int, append_timestamp: int, rules: RecordRules
) -> tuple[int, int, int, int]:
    """Check the records between two addresses.

    Returns a status, the index of the invalid record, the greatest timestamp, and 1 if the offsets
    are dense.
    """
    greatest = -1
    is_dense = 1
    for index in range(count):
        if at == end:
            return MISSING_RECORDS, index, 0, 0
        status, record, at = record_bounds(at, end)
        if status != OK:
            return status, index, 0, 0
        status, span = read_record(record, at)
        if status != OK:
            return status, index, 0, 0
        timestamp = add64(base_timestamp, span.timestamp_delta)
        if rules.is_append_time:
            timestamp = append_timestamp
        status = _record_status(span.key_size, timestamp, rules)
        if status != OK:
            return status, index, 0, 0
        greatest = max(greatest, timestamp)
        if span.offset_delta != index:
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
        data: the bytes that the areas refer to.
        areas: one column per record area.
        need_key: whether a null key is an error (compacted topics).
        not_before_ms: least timestamp allowed; -1, no timestamp, is always allowed.
        not_after_ms: greatest timestamp allowed.
        use_append_time: whether the topic uses append times, so that the records' own do not
            matter.
        out: filled with each area's greatest timestamp and whether its offsets are dense.

    Returns the status of the first invalid record, its area and its index in the area; or OK, the
    number of areas and 0. The caller reports details from plain code. Source: Kafka
    LogValidator.validateRecord and validateTimestamp.
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
        is_append_time = areas[AREA_ATTRIBUTES, area] & LOG_APPEND_TIME != 0
        status, index, greatest, is_dense = check_records(
            first + start,
            first + end,
            count,
            areas[AREA_BASE_TIMESTAMP, area],
            areas[AREA_MAX_TIMESTAMP, area],
            RecordRules(need_key, not_before_ms, not_after_ms, use_append_time, is_append_time),
        )
        if status != OK:
            return status, area, index
        out[VALID_MAX_TIMESTAMP, area] = greatest
        out[VALID_IS_DENSE, area] = is_dense
    return OK, areas.shape[1], 0
