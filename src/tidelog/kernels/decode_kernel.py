"""Records decoded to columns: offset, timestamp, and the positions of key, value and headers.

One call decodes any number of uncompressed record areas; batch headers and codecs are the caller's
concern. Kafka: the iterators of ``DefaultRecordBatch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels.record_kernel import area_status, read_record, record_bounds
from tidelog.kernels.rows import (
    AREA,
    AREA_ATTRIBUTES,
    AREA_BASE_OFFSET,
    AREA_BASE_TIMESTAMP,
    AREA_COLUMNS,
    AREA_COUNT,
    AREA_END,
    AREA_MAX_TIMESTAMP,
    AREA_START,
    BAD_ARGUMENT,
    BYTES_LEFT_OVER,
    HEADERS_AT,
    HEADERS_COUNT,
    KEY_AT,
    KEY_SIZE,
    LOG_APPEND_TIME,
    MISSING_RECORDS,
    OFFSET,
    OK,
    RECORD_COLUMNS,
    TIMESTAMP,
    VALUE_AT,
    VALUE_SIZE,
)
from tidelog.kernels.runtime.intrinsics import add64, address_of
from tidelog.kernels.runtime.jit import BYTES, TABLE, WRITABLE_TABLE, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@kernel(f"UniTuple(int64, 4)({BYTES}, {TABLE}, {WRITABLE_TABLE})")
def decode_records(
    data: npt.NDArray[np.uint8], areas: npt.NDArray[np.int64], out: npt.NDArray[np.int64]
) -> tuple[int, int, int, int]:
    """Fill one column of ``out`` for each record of ``areas``, in order.

    Returns the number of records, a status, and the area and the position in ``data`` where
    decoding stopped. On OK the area is the number of areas. On FULL it is the area to continue
    with, none of whose records are counted. Otherwise it is the area of the malformed record, whose
    position is returned; the records before it are in ``out``.
    """
    if areas.shape[0] < AREA_COLUMNS or out.shape[0] < RECORD_COLUMNS:
        return 0, BAD_ARGUMENT, 0, 0
    first = address_of(data)
    row = 0
    for area in range(areas.shape[1]):
        start = areas[AREA_START, area]
        count = areas[AREA_COUNT, area]
        status = area_status(start, areas[AREA_END, area], data.size, count, out.shape[1] - row)
        if status != OK:
            return row, status, area, start
        at = first + start
        area_end = first + areas[AREA_END, area]
        base_offset = areas[AREA_BASE_OFFSET, area]
        base_timestamp = areas[AREA_BASE_TIMESTAMP, area]
        is_append_time = areas[AREA_ATTRIBUTES, area] & LOG_APPEND_TIME
        for _ in range(count):
            if at == area_end:
                return row, MISSING_RECORDS, area, at - first
            status, record, end = record_bounds(at, area_end)
            if status != OK:
                return row, status, area, at - first
            status, span = read_record(record, end)
            if status != OK:
                return row, status, area, at - first
            timestamp = add64(base_timestamp, span.timestamp_delta)
            out[OFFSET, row] = add64(base_offset, span.offset_delta)
            out[TIMESTAMP, row] = areas[AREA_MAX_TIMESTAMP, area] if is_append_time else timestamp
            out[KEY_AT, row] = span.key_at - first
            out[KEY_SIZE, row] = span.key_size
            out[VALUE_AT, row] = span.value_at - first
            out[VALUE_SIZE, row] = span.value_size
            out[HEADERS_AT, row] = span.headers_at - first
            out[HEADERS_COUNT, row] = span.headers_count
            out[AREA, row] = area
            row += 1
            at = end
        if count > 0 and at != area_end:
            return row, BYTES_LEFT_OVER, area, at - first
    return row, OK, areas.shape[1], 0
