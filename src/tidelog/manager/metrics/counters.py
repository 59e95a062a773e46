"""What has been appended and refused since the start.

Owns the counts, which only grow; rates are for whoever scrapes them. Must not know logs. Kafka:
``BrokerTopicMetrics``.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from tidelog.manager.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.errors import KafkaError

_GROUP: Final = "kafka.server"
_TYPE: Final = "BrokerTopicMetrics"


class Counters:
    """Counts by name and topic. ``_lock`` guards them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, str | None], int] = {}
        for name in _NAMES:
            self._counts[name, None] = 0

    def appended(self, topic: str, records: int, size_bytes: int) -> None:
        """Count an append."""
        self._add("MessagesInPerSec", topic, records)
        self._add("BytesInPerSec", topic, size_bytes)

    def refused(
        self, topic: str, error: KafkaError, size_bytes: int, *, is_compacted: bool
    ) -> None:
        """Count an append that was refused, by the reason."""
        if isinstance(error, (MessageTooLarge, RecordListTooLarge)):
            self._add("BytesRejectedPerSec", topic, size_bytes)
        elif isinstance(error, CorruptMessage):
            self._add("InvalidMessageCrcRecordsPerSec", None, 1)
        elif isinstance(error, InvalidRecord) and is_compacted and "key" in str(error):
            self._add("NoKeyCompactedTopicRecordsPerSec", None, 1)
        elif isinstance(error, (InvalidRecord, OutOfOrderSequenceNumber, InvalidProducerEpoch)):
            self._add("InvalidOffsetOrSequenceRecordsPerSec", None, 1)

    def forget(self, topic: str) -> None:
        """Drop the counts of a topic that was deleted."""
        with self._lock:
            for key in [key for key in self._counts if key[1] == topic]:
                del self._counts[key]

    def metrics(self) -> Iterator[Metric]:
        """Yield all counts."""
        with self._lock:
            counts = sorted(self._counts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        for (name, topic), count in counts:
            tags = () if topic is None else (("topic", topic),)
            yield Metric(_GROUP, _TYPE, name, tags, count, "counter")

    def _add(self, name: str, topic: str | None, count: int) -> None:
        with self._lock:
            for key in {(name, None), (name, topic)}:
                self._counts[key] = self._counts.get(key, 0) + count


_NAMES: Final = (
    "MessagesInPerSec",
    "BytesInPerSec",
    "BytesRejectedPerSec",
    "NoKeyCompactedTopicRecordsPerSec",
    "InvalidMagicNumberRecordsPerSec",
    "InvalidMessageCrcRecordsPerSec",
    "InvalidOffsetOrSequenceRecordsPerSec",
)
