"""The fast path of an append: ordinary client batches, checked in a single call.

A batch that is invalid, or needs anything besides offsets and a leader epoch, is left to plain
code, which checks it again and reports the reason. No kernel decompresses: the records of
compressed batches are left to the caller. Kafka: ``LogValidator``, the case of in-place
assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernels.record_kernel import area_status
from tidelog.kernels.rows import (
    ANY_OFFSET,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CODEC_BITS,
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
from tidelog.kernels.scan_kernel import walk_batches
from tidelog.kernels.validate_kernel import RecordRules, check_records

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@kernel(f"boolean({BYTES}, boolean, boolean, int64, int64, {WRITABLE_TABLE})")
def accept_batches(
    data: npt.NDArray[np.uint8],
    is_any_codec: bool,  # noqa: FBT001 - numba takes arguments by position
    need_key: bool,  # noqa: FBT001 - as above
    not_before_ms: int,
    not_after_ms: int,
    out: npt.NDArray[np.int64],
) -> bool:
    """Return whether ``data`` is batches that lack only their offsets and leader epoch.

    There is one for each column of ``out``, which is filled with the header as in ``walk_batches``.
    Each batch is whole, of magic 2, and its CRC matches; it has no control records or append time;
    its offsets are 0, 1, 2 up to the count; it has a sequence if it has a producer; its records
    follow the rules of ``validate_records``, and their greatest timestamp is the one in the header.
    With ``is_any_codec`` it may be compressed: then its records were not looked at.
    """
    wanted = out.shape[1]
    count, end, _ = walk_batches(data, 0, data.size, True, ANY_OFFSET, 0, out)
    if wanted == 0 or count != wanted or end != data.size:
        return False
    rules = RecordRules(need_key, not_before_ms, not_after_ms, False, False)
    first = address_of(data)
    for each in range(wanted):
        records, start = out[RECORDS_COUNT, each], out[POSITION, each] + HEADER_BYTES
        stop = out[POSITION, each] + out[SIZE, each]
        if out[BASE_OFFSET, each] != 0 or records <= 0 or out[LAST_OFFSET, each] != records - 1:
            return False
        if out[ATTRIBUTES, each] & UNUSUAL_FLAGS:
            return False
        if out[PRODUCER_ID, each] >= 0 and out[BASE_SEQUENCE, each] < 0:
            return False
        if out[ATTRIBUTES, each] & CODEC_BITS:
            if not is_any_codec:
                return False
            continue
        if area_status(start, stop, data.size, records, records) != OK:
            return False
        status, _, greatest, is_dense = check_records(
            first + start, first + stop, records, out[BASE_TIMESTAMP, each], 0, rules
        )
        if status != OK or is_dense != 1 or greatest != out[MAX_TIMESTAMP, each]:
            return False
    return True
