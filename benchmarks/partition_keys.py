"""How fast are keys assigned to partitions as Kafka's producers do, against a port in Python?

The reference is aiokafka's murmur2, over some of the same keys. Goal: 100 times as fast.

    .venv/bin/python benchmarks/partition_keys.py
"""

from __future__ import annotations

import sys

import numpy as np
from aiokafka.partitioner import murmur2
from measure import Goals, Timing, heading, measure
from sample import make_records

from tidelog.kernels import rows
from tidelog.kernels.hashing.murmur import partition_keys

SEED = 20130101
PARTITIONS = 12
GOAL = 100.0
SAMPLE_KEYS = 1_000


def main() -> int:
    """Print ns a key; return 1 if the goal is missed."""
    heading(__doc__.splitlines()[0], SEED)
    goals = Goals()
    records = make_records(8 << 20, 100, SEED)
    data, count = records.data, records.record_count
    at, size = records.table[rows.KEY_AT], records.table[rows.KEY_SIZE]
    partitions = np.empty(count, np.int32)
    keys = [
        data[a : a + s].tobytes() for a, s in zip(at[:SAMPLE_KEYS], size[:SAMPLE_KEYS], strict=True)
    ]
    timings = measure(
        {
            "murmur2": lambda: partition_keys(data, at, size, PARTITIONS, partitions),
            "in Python": lambda: [(murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in keys],
        }
    )
    plain = Timing(*(seconds * count / SAMPLE_KEYS for seconds in timings["in Python"]))
    assert [(murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in keys] == partitions[
        :SAMPLE_KEYS
    ].tolist()
    print(f"{count} keys of 16 B; ns a key:")
    for name, timing in {**timings, "in Python": plain}.items():
        print(f"  {name:18} {timing.per(count)}")
    goals.at_least(GOAL, "murmur2 against Python", timings["murmur2"], plain)
    return goals.status


if __name__ == "__main__":
    sys.exit(main())
