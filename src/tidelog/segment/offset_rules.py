"""Which offsets a batch may have, given its segment and the batch before it.

A batch's CRC does not cover its base offset, so nothing else detects a flipped bit there. Kafka has
no such rules: depending on the bit, the broker does not start, or drops the segment or the whole
log, or does not notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.records.array_rows import every, increases
from tidelog.records.batch import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from tidelog.records.memory import BatchColumns

GREATEST_OFFSET: Final = INT64_MAX - 1
"""The greatest offset of a record: the log end offset after it must still fit in 64 bits."""


def are_usual(batches: BatchColumns, base_offset: int, before: int) -> bool:
    """Return whether all offsets are possible and fit the segment; a fast check.

    Args:
        batches: batches of one segment, in file order.
        base_offset: of the segment.
        before: last offset of the preceding batch; below ``base_offset`` if there is none.
    """
    if not len(batches):
        return True
    first, last = batches.base_offset, batches.last_offset
    reach = min(base_offset + INT32_MAX, GREATEST_OFFSET)
    is_within = max(base_offset, before + 1) <= last.item(0) and last.item(-1) <= reach
    return is_within and increases(last) and every(first <= last) and every(first >= 0)


def first_impossible(batches: BatchColumns, base_offset: int, before: int) -> int | None:
    """Return the index of the first batch with impossible offsets; arguments as ``are_usual``.

    Offsets are impossible if they are negative, decrease within the batch, end below the
    segment's base offset, do not end after the preceding batch, or leave no room for a log end.
    """
    first, last = batches.base_offset, batches.last_offset
    is_bad = (first < 0) | (last < first) | (last < base_offset) | (last > GREATEST_OFFSET)
    is_bad |= last <= np.concatenate(([before], last[:-1]))
    return int(is_bad.argmax()) if is_bad.any() else None


def first_too_far(batches: BatchColumns, base_offset: int) -> int | None:
    """Return the index of the first batch whose relative last offset is not an int32."""
    is_far = batches.last_offset > min(base_offset + INT32_MAX, INT64_MAX)
    return int(is_far.argmax()) if is_far.any() else None


def reason_of(batches: BatchColumns, index: int, base_offset: int | None = None) -> str:
    """Describe the problem with one batch's offsets, and name its segment if that is known."""
    stated = f"{int(batches.base_offset[index])} to {int(batches.last_offset[index])}"
    within = "" if base_offset is None else f" in the segment that starts at {base_offset}"
    after = f", after {int(batches.last_offset[index - 1])}" if index else ""
    return f"batch has impossible offsets {stated}{within}{after}"
