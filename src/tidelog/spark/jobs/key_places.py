"""Where records lie, and where the hash of their keys puts them.

When partitions are added to a topic, Kafka's producers send most keys to other partitions, and the
records that are there stay. So the records of a key that are out of place are older than those in
place.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.arrow.record_tables import record_source
from tidelog.records.partitioner import HASHES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from tidelog.arrow.row_partitions import Partitions


class KeyPlaces(NamedTuple):
    """Of each record the hash of its key, its partition, and whether it is out of place.

    The hash is -1 without a key; such a record is never out of place.
    """

    hashes: Partitions
    partitions: Partitions
    is_out: NDArray[np.bool_]

    @classmethod
    def of(cls, records: pa.RecordBatch, count: int) -> KeyPlaces:
        """Return those of records of a topic of ``count`` partitions, by ``key``, ``partition``."""
        hashes = record_source(records.select(["key"]), now_ms=0).partitions_of_keys(HASHES)
        partitions = records.column("partition").to_numpy()
        return cls(hashes, partitions, (hashes >= 0) & (hashes % count != partitions))


class OutOfPlace(NamedTuple):
    """How many records are out of place, their last partition, and what explains their places.

    A topic of n partitions puts a key into partition p if n > p divides the hash minus p; ``step``
    is the greatest common divisor of these differences.
    """

    records: int = 0
    last_partition: int = 0
    step: int = 0

    @classmethod
    def of(cls, places: KeyPlaces) -> OutOfPlace:
        """Return those of some records."""
        if not places.is_out.any():
            return cls()
        partitions = places.partitions[places.is_out].astype(np.int64)
        step = np.gcd.reduce(places.hashes[places.is_out] - partitions)
        return cls(len(partitions), int(partitions.max()), int(step))

    def unordered(self, count: int) -> int:
        """Return how many of them, of a topic of ``count`` partitions, may be in the wrong order.

        That is 0 where one smaller number of partitions explains the place of every key: all old
        records of a key are in one partition then. Otherwise partitions were added several times,
        or another partitioner was used.
        """
        earlier = range(self.last_partition + 1, count)
        return 0 if any(self.step % number == 0 for number in earlier) else self.records


def all_of(found: Iterable[OutOfPlace]) -> OutOfPlace:
    """Return those of several sets of records together."""
    parts = list(found)
    return OutOfPlace(
        sum(one.records for one in parts),
        max((one.last_partition for one in parts), default=0),
        gcd(*(one.step for one in parts)),
    )
