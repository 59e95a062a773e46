"""The partition of each row of a table, chosen as Kafka's producers do.

Kafka: ``DefaultPartitioner``, ``BuiltInPartitioner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidelog.errors import InvalidArgument, UnknownTopicOrPartition
from tidelog.kernels import rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidelog.arrow.buffers import Ints
    from tidelog.records.bulk_builder import RecordSource

    Partitions = NDArray[np.int32]

_RECORD_OVERHEAD: Final = 9
"""Bytes of a small record besides its value."""


class Partitioner:
    """Assigns rows to partitions of one topic; remembers the current one for rows without a key.

    A row goes to the partition in its column ``partition``; else to the murmur2 hash of its key;
    else, without a key, to one partition until it has received ``batch_bytes``, then to the next.

    Args:
        partitions: number of partitions of the topic.
        batch_bytes: bytes after which rows without a key move on to the next partition.
        first: the partition at which they start.
    """

    def __init__(self, partitions: int, batch_bytes: int, first: int = 0) -> None:
        self._partitions = partitions
        self._batch_bytes = batch_bytes
        self._sticky = first
        self._filled = 0

    def assign(self, records: RecordSource, requested: pa.Array) -> Partitions:
        """Return the partition of each row; ``requested`` is null where the row names none.

        Raises:
            UnknownTopicOrPartition: a row names a partition that the topic does not have.
        """
        chosen = self._requested(requested)
        open_rows = np.flatnonzero(chosen < 0)
        if len(open_rows):
            by_key = records.partitions_of_keys(self._partitions)
            chosen[open_rows] = by_key[open_rows]
            self._spread(records, chosen)
        return chosen

    def _requested(self, requested: pa.Array) -> Partitions:
        if requested.null_count == len(requested):
            return np.full(len(requested), -1, np.int32)
        if not pa.types.is_integer(requested.type):
            raise InvalidArgument(f"partitions must be integers, not {requested.type}")
        try:
            numbers = requested.cast(pa.int64()).fill_null(-1).to_numpy()
        except pa.ArrowInvalid as error:
            text = f"a row names a partition that no topic has: {error}"
            raise UnknownTopicOrPartition(text) from None
        is_absent = (numbers >= self._partitions) | (numbers < -1)
        is_absent |= (numbers == -1) & requested.is_valid().to_numpy(zero_copy_only=False)
        if is_absent.any():
            number = int(numbers[int(np.argmax(is_absent))])
            text = f"a row names partition {number}; the topic has {self._partitions}"
            raise UnknownTopicOrPartition(text)
        chosen: Partitions = numbers.astype(np.int32)
        return chosen

    def _spread(self, records: RecordSource, chosen: Partitions) -> None:
        """Assign rows without a partition to one partition after another, by bytes."""
        keyless = np.flatnonzero(chosen < 0)
        if not len(keyless):
            return
        sizes = np.maximum(records.table[rows.VALUE_SIZE][keyless], 0) + _RECORD_OVERHEAD
        ends = self._filled + np.cumsum(sizes)
        turns = (ends - sizes) // self._batch_bytes
        chosen[keyless] = (self._sticky + turns) % self._partitions
        moved, self._filled = divmod(int(ends[-1]), self._batch_bytes)
        self._sticky = (self._sticky + moved) % self._partitions


def rows_by_partition(chosen: Partitions, partitions: int) -> list[Ints]:
    """Return, for each partition, the indices of its rows, in their order."""
    # NumPy sorts numbers of 16 bits by radix, ten times as fast as wider ones.
    narrow = chosen.astype(np.uint16) if partitions <= 1 << 16 else chosen
    order = np.argsort(narrow, kind="stable")
    ends = np.cumsum(np.bincount(chosen, minlength=partitions))
    return np.split(order, ends[:-1])
