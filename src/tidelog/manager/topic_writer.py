"""Records to the partitions of a topic, gathered into batches.

Owns which partition a record goes to and when a batch is full. Must not know where records come
from. Kafka's producer does the same: ``RecordAccumulator`` and ``BuiltInPartitioner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import Codec
from tidelog.errors import UnknownTopicOrPartition
from tidelog.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from tidelog.env.clock import Clock
    from tidelog.manager.data_directory import DataDirectory
    from tidelog.records.builder import NewRecord as BuilderRecord
    from tidelog.records.json_form import NewRecord

BATCH_BYTES: Final = 64 << 10
"""Bytes of keys, values and headers after which a batch is appended."""

_RECORD_OVERHEAD: Final = 21
"""Most bytes that a record needs besides its key, value and headers."""


class TopicWriter:
    """Appends records to one topic; used by one thread. ``flush`` appends what was gathered.

    A record goes to its own ``partition`` if it names one, else where Kafka's producers send its
    key; one without a key joins the batch that is being filled, which moves on when it is full.
    ``records`` counts what was appended.
    """

    def __init__(
        self, directory: DataDirectory, topic: str, *, clock: Clock, codec: Codec = Codec.NONE
    ) -> None:
        self._partitions = {part.partition: part for part in directory.partitions(topic)}
        self._numbers = sorted(self._partitions)
        self._topic = topic
        self._clock = clock
        self._codec = codec
        self._batches: dict[int, list[BuilderRecord]] = {n: [] for n in self._numbers}
        self._sizes = dict.fromkeys(self._numbers, 0)
        self._turn = 0
        self.records = 0

    def append(self, record: NewRecord) -> None:
        """Take one record; errors as ``Log.append_records`` when it fills a batch.

        Raises:
            UnknownTopicOrPartition: the record names a partition that the topic does not have.
        """
        number = self._number_of(record)
        timestamp = self._clock.now_ms() if record.timestamp is None else record.timestamp
        size = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
        size += sum(len(name) + len(value or b"") + 10 for name, value in record.headers)
        if self._sizes[number] and self._sizes[number] + size > BATCH_BYTES:
            self._append_batch(number)
        self._batches[number].append((timestamp, record.key, record.value, record.headers))
        self._sizes[number] += size

    def flush(self) -> None:
        """Append what was gathered and make everything durable."""
        for number in self._numbers:
            self._append_batch(number)
            self._partitions[number].log.flush()

    def _number_of(self, record: NewRecord) -> int:
        number = record.partition
        if number is None:
            if record.key is None:
                return self._numbers[self._turn]
            number = partition_for_key(record.key, self._numbers[-1] + 1)
        if number not in self._partitions:
            raise UnknownTopicOrPartition(f"there is no partition {self._topic}-{number}")
        return number

    def _append_batch(self, number: int) -> None:
        batch, self._batches[number], self._sizes[number] = self._batches[number], [], 0
        if batch:
            self._partitions[number].append_records(batch, codec=self._codec)
            self.records += len(batch)
        if number == self._numbers[self._turn]:
            self._turn = (self._turn + 1) % len(self._numbers)
