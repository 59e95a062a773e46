"""Counts of what was appended and rejected since the start. Kafka: ``BrokerTopicMetrics``.

The counts only grow; rates are left to what scrapes them.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.manager.metrics.metric import Metric
from tidelog.records.validation.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUP: Final = "kafka.server"
_TYPE: Final = "BrokerTopicMetrics"


class Counters:
    """Counts by name and topic. ``_lock`` guards them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, str | None], int] = {}
        for name in _NAMES:
            self._counts[name, None] = 0
        self._waiters = {"CommitsForOthersCount": 0, "CommitsRefusedCount": 0}

    def appended(self, topic: str, records: int, size_bytes: int) -> None:
        """Count an append."""
        self._add("MessagesInPerSec", topic, records)
        self._add("BytesInPerSec", topic, size_bytes)

    def rejected(self, topic: str, kind: Rejection, count: int) -> None:
        """Count what an append was rejected for: bytes by topic and in all, records in all."""
        by_topic = topic if kind is Rejection.BYTES_REJECTED else None
        self._add(_REJECTED[kind], by_topic, count)

    def committed_for_others(self, *, refused: bool) -> None:
        """Count a transaction that another process waited for."""
        with self._lock:
            self._waiters["CommitsRefusedCount" if refused else "CommitsForOthersCount"] += 1

    def forget(self, topic: str) -> None:
        """Drop the counts of a deleted topic."""
        with self._lock:
            for key in [key for key in self._counts if key[1] == topic]:
                del self._counts[key]

    def metrics(self) -> Iterator[Metric]:
        """Yield all counts."""
        with self._lock:
            counts = sorted(self._counts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
            waiters = dict(self._waiters)
        for (name, topic), count in counts:
            tags = () if topic is None else (("topic", topic),)
            yield Metric(_GROUP, _TYPE, name, tags, count, "counter")
        for name, count in waiters.items():
            yield Metric("tidelog", "LogManager", name, (), count, "counter")

    def _add(self, name: str, topic: str | None, count: int) -> None:
        with self._lock:
            for key in {(name, None), (name, topic)}:
                self._counts[key] = self._counts.get(key, 0) + count


_REJECTED: Final = {
    Rejection.BYTES_REJECTED: "BytesRejectedPerSec",
    Rejection.NO_KEY_COMPACTED_TOPIC: "NoKeyCompactedTopicRecordsPerSec",
    Rejection.INVALID_MAGIC_NUMBER: "InvalidMagicNumberRecordsPerSec",
    Rejection.INVALID_MESSAGE_CRC: "InvalidMessageCrcRecordsPerSec",
    Rejection.INVALID_OFFSET_OR_SEQUENCE: "InvalidOffsetOrSequenceRecordsPerSec",
}
_NAMES: Final = (
    "MessagesInPerSec",
    "BytesInPerSec",
    *_REJECTED.values(),
)
