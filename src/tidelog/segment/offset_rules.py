"""Which offsets a batch may state, given the segment that it lies in and the batch before it.

A batch's CRC does not cover its base offset, so a flipped bit there is found by nothing else. Owns
the rules alone. Must not know files. Kafka has no such rules: a log that breaks one makes its start
fail, loses a segment whole, or is deleted whole; or nothing is noticed at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.records.array_rows import every, increases
from tidelog.records.batch import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from tidelog.records.memory import BatchColumns

GREATEST_OFFSET: Final = INT64_MAX - 1
"""The last record of a log may have it: the log end behind it is the last number there is."""


def are_usual(batches: BatchColumns, base_offset: int, before: int) -> bool:
    """Say, in few passes, whether all offsets are as they should be: possible, and not too far.

    Args:
        batches: some of a segment, in the order of the file.
        base_offset: of the segment.
        before: last offset of the batch before them; below ``base_offset`` if there is none.
    """
    if not len(batches):
        return True
    first, last = batches.base_offset, batches.last_offset
    reach = min(base_offset + INT32_MAX, GREATEST_OFFSET)
    is_within = max(base_offset, before + 1) <= last.item(0) and last.item(-1) <= reach
    return is_within and increases(last) and every(first <= last) and every(first >= 0)


def first_impossible(batches: BatchColumns, base_offset: int, before: int) -> int | None:
    """Return the index of the first batch whose offsets cannot be; arguments as ``are_usual``.

    They are negative, or run backwards, end below the segment's base offset, do not end behind
    the batch before, or end so high that no number is left for the log's end.
    """
    first, last = batches.base_offset, batches.last_offset
    is_bad = (first < 0) | (last < first) | (last < base_offset) | (last > GREATEST_OFFSET)
    is_bad |= last <= np.concatenate(([before], last[:-1]))
    return int(is_bad.argmax()) if is_bad.any() else None


def first_too_far(batches: BatchColumns, base_offset: int) -> int | None:
    """Return the index of the first batch whose last offset is no int32 above ``base_offset``."""
    is_far = batches.last_offset > min(base_offset + INT32_MAX, INT64_MAX)
    return int(is_far.argmax()) if is_far.any() else None


def reason_of(batches: BatchColumns, index: int, base_offset: int | None = None) -> str:
    """Say what is wrong with the offsets of one batch, in a segment if that is known."""
    stated = f"{int(batches.base_offset[index])} to {int(batches.last_offset[index])}"
    within = "" if base_offset is None else f" in the segment that starts at {base_offset}"
    behind = f", behind {int(batches.last_offset[index - 1])}" if index else ""
    return f"a batch states offsets {stated}{within}{behind}"
