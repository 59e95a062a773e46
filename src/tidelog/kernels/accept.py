"""The usual append, one plain batch of a client, checked in one call.

Owns the decision that nothing at all is wrong or unusual with it. Whatever else there is to say is
left to plain code, which looks again. Kafka: ``LogValidator``, the case of in-place assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels.record import area_status
from tidelog.kernels.rows import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    HEADER_BYTES,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    OK,
    POSITION,
    PRODUCER_ID,
    RECORDS_COUNT,
    SIZE,
    UNUSUAL_FLAGS,
)
from tidelog.kernels.runtime.intrinsics import address_of
from tidelog.kernels.runtime.jit import BYTES, WRITABLE_TABLE, kernel
from tidelog.kernels.scan import walk_batches
from tidelog.kernels.validate import RecordRules, check_records

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@kernel(f"boolean({BYTES}, boolean, int64, int64, {WRITABLE_TABLE})")
def accept_batch(
    data: npt.NDArray[np.uint8],
    need_key: bool,  # noqa: FBT001 - numba takes arguments by position
    not_before_ms: int,
    not_after_ms: int,
    out: npt.NDArray[np.int64],
) -> bool:
    """Say whether ``data`` is one batch that a leader takes as it is but for its offsets and epoch.

    That is: whole, of magic 2, with its CRC; no codec, control records or append time; offsets
    0, 1, 2 up to the count; a sequence if there is a producer; records that keep the rules (as for
    ``validate_records``), the greatest of whose timestamps is the one in the header. ``out`` has
    one column, which gets the header as ``walk_batches`` fills it.
    """
    if out.shape[1] != 1:
        return False
    count, end, status = walk_batches(data, 0, data.size, True, out)
    if count != 1 or end != data.size or status != OK:
        return False
    records, start = out[RECORDS_COUNT, 0], out[POSITION, 0] + HEADER_BYTES
    if out[BASE_OFFSET, 0] != 0 or records <= 0 or out[LAST_OFFSET, 0] != records - 1:
        return False
    if out[ATTRIBUTES, 0] & UNUSUAL_FLAGS:
        return False
    if out[PRODUCER_ID, 0] >= 0 and out[BASE_SEQUENCE, 0] < 0:
        return False
    if area_status(start, out[SIZE, 0], data.size, records, records) != OK:
        return False
    first = address_of(data)
    base_timestamp = out[BASE_TIMESTAMP, 0]
    rules = RecordRules(need_key, not_before_ms, not_after_ms, False, False)
    status, _, greatest, is_dense = check_records(
        first + start, first + end, records, base_timestamp, 0, rules
    )
    return status == OK and is_dense == 1 and greatest == out[MAX_TIMESTAMP, 0]
