"""How fast is a walk over batch headers with every CRC, against one CRC over the same bytes?

The reference is a single call of the crc32c package over the whole buffer, which reads no headers
and loses no time between batches. Goal: at least half as fast, for every size of batch.

    .venv/bin/python benchmarks/scan_batches.py
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import crc32c
import numpy as np
from measure import Goals, heading, measure
from sample import make_batches

from tidelog.kernels.rows import BATCH_COLUMNS
from tidelog.kernels.scan_kernel import walk_batches
from tidelog.records.batch import INT64_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 20130101
GOAL = 0.5
VALUE_BYTES = 100


def main() -> int:
    """Print bytes a second for each size of batch and buffer; return 1 if a goal is missed."""
    heading(__doc__.splitlines()[0], SEED)
    goals = Goals()
    for total_bytes, location in ((1 << 20, "in cache"), (64 << 20, "from memory")):
        for batch_bytes in (1 << 10, 16 << 10, 128 << 10):
            batches = make_batches(total_bytes, VALUE_BYTES, SEED, batch_bytes)
            data, count = batches.data, len(batches.columns)
            bounds = 0, INT64_MAX
            out = np.empty((BATCH_COLUMNS, count), np.int64)
            timings = measure(
                {
                    "walk": partial(walk_batches, data, 0, data.size, False, *bounds, out),
                    "walk and CRC": partial(walk_batches, data, 0, data.size, True, *bounds, out),
                    "one crc32c call": partial(crc32c.crc32c, data.data),
                    "crc32c a batch": partial(by_batch, data, batches.columns.array),
                }
            )
            print(f"{count} batches of {batch_bytes >> 10} KiB, {location}; MB/s:")
            for name, timing in timings.items():
                print(f"  {name:18} {timing.rate(data.size)}")
            print(f"  walk, ns a batch   {timings['walk'].per(count)}")
            ours, theirs = timings["walk and CRC"], timings["one crc32c call"]
            goals.at_least(GOAL, "walk and CRC against one call", ours, theirs)
    return goals.status


def by_batch(data: NDArray[np.uint8], table: NDArray[np.int64]) -> int:
    """Compute each CRC from Python, as without a kernel; return all of them combined."""
    view = data.data
    combined = 0
    for at, size in zip(table[0].tolist(), table[1].tolist(), strict=True):
        combined ^= crc32c.crc32c(view[at + 21 : at + size])
    return combined


if __name__ == "__main__":
    sys.exit(main())
