"""How fast do the kernels decode, validate and gather records, against plain code?

The references are the plain twins that short commands use, over one batch in a hundred of the
same bytes. Goals: 50 times as fast for decoding and validating; 3 times as fast as NumPy for
gathering.

    .venv/bin/python benchmarks/record_kernels.py
"""

from __future__ import annotations

import sys

import numpy as np
from measure import Goals, Timing, heading, measure
from sample import Batches, make_batches

from tidelog.arrow.buffers import Slots, gather_plain
from tidelog.kernels import rows
from tidelog.kernels.decode_kernel import decode_records
from tidelog.kernels.gather import gather
from tidelog.kernels.runtime import gate
from tidelog.kernels.validate_kernel import validate_records
from tidelog.records.decoding.record_areas import decode_areas

SEED = 20130101
BATCH_BYTES = 16 << 10
GOAL = 50.0
GATHER_GOAL = 3.0
LIMITS = (0, 2**62)


def main() -> int:
    """Print ns a record for each kernel and size; return 1 if a goal is missed."""
    heading(__doc__.splitlines()[0], SEED)
    goals = Goals()
    gate.force(False)  # the reference is plain code; the kernels are called by name
    for total_bytes, location in ((1 << 20, "in cache"), (64 << 20, "from memory")):
        for value_bytes in (100, 1_000):
            batches = make_batches(total_bytes, value_bytes, SEED, BATCH_BYTES)
            print(f"{batches.records} records of {value_bytes} B, {location}; ns a record:")
            compare(batches, goals)
    return goals.status


def compare(batches: Batches, goals: Goals) -> None:
    """Time the kernels over these batches."""
    data, areas, count = batches.data, batches.areas, batches.records
    table = np.empty((rows.RECORD_COLUMNS, count), np.int64)
    checked = np.empty((rows.VALID_COLUMNS, areas.shape[1]), np.int64)
    few = np.ascontiguousarray(areas[:, : max(areas.shape[1] // 100, 1)])
    few_count = int(few[rows.AREA_COUNT].sum())
    timings = measure(
        {
            "decode": lambda: decode_records(data, areas, table),
            "validate": lambda: validate_records(data, areas, True, *LIMITS, False, checked),
            "plain decode": lambda: decode_areas(data, few, few[rows.AREA_START]),
        }
    )
    plain = timings["plain decode"]
    plain = Timing(*(seconds * count / few_count for seconds in plain))
    gathering = gather_timings(data, table)
    for name, timing in {**timings, "plain decode": plain, **gathering}.items():
        print(f"  {name:14} {timing.per(count)}")
    goals.at_least(GOAL, "decode against plain", timings["decode"], plain)
    goals.at_least(GOAL, "validate against plain", timings["validate"], plain)
    goals.at_least(
        GATHER_GOAL,
        "gather against NumPy",
        gathering["gather values"],
        gathering["NumPy gathers"],
    )


def gather_timings(data: np.ndarray, table: np.ndarray) -> dict[str, Timing]:
    """Time the kernel over all values, and NumPy over a tenth of them."""
    at, size = table[rows.VALUE_AT], table[rows.VALUE_SIZE]
    count = len(at)
    room = int(size.sum())
    slots = Slots(
        np.empty(count + 1, np.int32), np.empty(room, np.uint8), np.empty(count, np.uint8)
    )
    part = count // 10
    part_slots = Slots(slots.offsets[: part + 1], slots.data, slots.valid[:part])
    timings = measure(
        {
            "gather values": lambda: gather(data, at, size, *slots),
            "NumPy gathers": lambda: gather_plain(data, at[:part], size[:part], part_slots),
        },
        rounds=5,
    )
    timings["NumPy gathers"] = Timing(*(s * count / part for s in timings["NumPy gathers"]))
    return timings


if __name__ == "__main__":
    sys.exit(main())
