"""``NewRecord``, a record that a program appends to a topic.

Kafka: ``ProducerRecord``, without the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidelog.records.record import Header


class NewRecord(NamedTuple):
    """A record to append; offset and leader epoch are assigned by the log.

    Attributes:
        key: bytes, or None for no key. A compacted topic requires a key.
        value: bytes, or None for null, which is a tombstone in a compacted topic.
        headers: pairs of name (text) and value (bytes, or None for null), in order; names may
            repeat.
        timestamp: ms since the epoch, -1 for no timestamp; None: the time of the append.
        partition: number of the partition, from 0; None: chosen by the key, as Kafka's producers
            do, and without a key by the writer.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: int | None = None
