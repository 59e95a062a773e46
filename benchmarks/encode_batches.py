"""How fast do columns become batches, against the builder that makes one batch at a time?

Times cover splitting, writing and CRC of 16 KB batches, no codec. The reference builds one batch in
plain code repeatedly. Goals: 40 times as fast with 100-byte values, 10 times with 1 KB, where
memory is the limit: a plain copy of the same bytes shows that limit.

    .venv/bin/python benchmarks/encode_batches.py
"""

from __future__ import annotations

import sys

import numpy as np
from measure import Goals, Timing, heading, measure
from sample import FIRST_TIMESTAMP, KEY_BYTES, Records, encode, make_records

from tidelog.kernels import rows
from tidelog.kernels.encode_kernel import cut_batches, write_batches
from tidelog.records.builder import build_batch

SEED = 20130101
BATCH_BYTES = 16 << 10
GOALS = {100: 40.0, 1_000: 10.0}


def main() -> int:
    """Print ns a record and MB/s for each size; return 1 if a goal is missed."""
    heading(__doc__.splitlines()[0], SEED)
    goals = Goals()
    for total_bytes, location in ((1 << 20, "in cache"), (64 << 20, "from memory")):
        for value_bytes in (100, 1_000):
            records = make_records(total_bytes, value_bytes, SEED)
            print(f"{records.record_count} records of {value_bytes} B, {location}; ns a record:")
            compare(records, value_bytes, goals)
    return goals.status


def compare(records: Records, value_bytes: int, goals: Goals) -> None:
    """Time the steps of encoding these records."""
    data, table, order = records
    out, batches = encode(records, BATCH_BYTES)
    cut = np.empty((rows.BATCH_COLUMNS, batches.shape[1]), np.int64)
    parts = (data, data, data, table, order, batches)
    one = [
        (FIRST_TIMESTAMP, b"k" * KEY_BYTES, b"v" * value_bytes, ())
        for _ in range(int(batches[rows.RECORDS_COUNT, 0]))
    ]
    timings = measure(
        {
            "cut": lambda: cut_batches(data, table, order, BATCH_BYTES, 0, cut),
            "write": lambda: write_batches(*parts, False, out),
            "write and CRC": lambda: write_batches(*parts, True, out),
            "plain copy": lambda: np.copyto(out[: data.size], data),
            "builder": lambda: build_batch(one),
        }
    )
    builder = Timing(*(seconds * records.record_count / len(one) for seconds in timings["builder"]))
    whole = Timing(*map(sum, zip(timings["cut"], timings["write and CRC"], strict=True)))
    for name, timing in {**timings, "builder": builder, "cut, write, CRC": whole}.items():
        print(f"  {name:16} {timing.per(records.record_count)}")
    print(f"  MB/s of batches  {whole.rate(out.size)}")
    goals.at_least(GOALS[value_bytes], "against the builder", whole, builder)


if __name__ == "__main__":
    sys.exit(main())
