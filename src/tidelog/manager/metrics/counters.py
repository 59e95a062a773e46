"""Counts of what was appended and rejected since the start. Kafka: ``BrokerTopicMetrics``.

The counts only grow; rates are left to what scrapes them. ``has_refused_settings``: the last reload
of settings was refused, so the settings in force differ from the file's.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.manager.metrics.metric import Metric, metrics_of
from tidelog.records.validation.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKER_TOPIC_METRICS: Final = ("kafka.server", "BrokerTopicMetrics")


class Counters:
    """Counts by name and topic. ``_lock`` guards them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.has_refused_settings = False
        self._counts: dict[tuple[str, str | None], int] = {}
        for name in _REJECTED.values():
            self._counts[name, None] = 0
        # Apart from the others, and not added up: each append is counted.
        self._appended: dict[str, list[int]] = {}
        """The records and bytes of each topic."""
        self._forgotten = [0, 0]
        """Those of topics that were deleted."""
        self._waiters = {"CommitsForOthersCount": 0, "CommitsRefusedCount": 0}
        self._commits = {(name, origin): 0 for name in _COMMITS for origin in _ORIGINS}

    def appended(self, topic: str, records: int, size_bytes: int) -> None:
        """Count an append."""
        with self._lock:
            found = self._appended.get(topic)
            if found is None:
                found = self._appended[topic] = [0, 0]
            found[0] += records
            found[1] += size_bytes

    def rejected(self, topic: str, kind: Rejection, count: int) -> None:
        """Count what an append was rejected for: bytes by topic and in all, records in all."""
        by_topic = topic if kind is Rejection.BYTES_REJECTED else None
        self._add(by_topic, _REJECTED[kind], count)

    def committed_for_others(self, *, refused: bool) -> None:
        """Count a transaction that another process waited for."""
        with self._lock:
            self._waiters["CommitsRefusedCount" if refused else "CommitsForOthersCount"] += 1

    def committed(self, records: int, size_bytes: int, time_ms: int, *, is_stream: bool) -> None:
        """Count a transaction that was committed, and how long that took."""
        with self._lock:
            for name, count in zip(_COMMITS, (1, records, size_bytes, time_ms, 0), strict=True):
                self._commits[name, _ORIGINS[is_stream]] += count

    def skipped(self, *, is_stream: bool) -> None:
        """Count a transaction that had been committed before."""
        with self._lock:
            self._commits["SkippedCount", _ORIGINS[is_stream]] += 1

    def forget(self, topic: str) -> None:
        """Drop the counts of a deleted topic."""
        with self._lock:
            for key in [key for key in self._counts if key[1] == topic]:
                del self._counts[key]
            gone = self._appended.pop(topic, (0, 0))
            self._forgotten = [sum(both) for both in zip(self._forgotten, gone, strict=True)]

    def metrics(self) -> Iterator[Metric]:
        """Yield all counts."""
        with self._lock:
            found = self._counts | self._appended_counts()
            waiters, commits = dict(self._waiters), dict(self._commits)
        by_name = sorted(found.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        for (name, topic), count in by_name:
            tags = () if topic is None else (("topic", topic),)
            yield Metric(*BROKER_TOPIC_METRICS, name, tags, count, "counter")
        yield from metrics_of("tidelog", "LogManager", (), waiters, "counter")
        is_refused = int(self.has_refused_settings)
        yield Metric("tidelog", "LogManager", "SettingsNotTaken", (), is_refused)
        for (name, origin), count in commits.items():
            yield Metric("tidelog", "Transactions", name, (("origin", origin),), count, "counter")

    def _appended_counts(self) -> dict[tuple[str, str | None], int]:
        found: dict[tuple[str, str | None], int] = {}
        for at, name in enumerate(_APPENDED):
            of_topics = {topic: counts[at] for topic, counts in self._appended.items()}
            found[name, None] = self._forgotten[at] + sum(of_topics.values())
            found |= {(name, topic): count for topic, count in of_topics.items()}
        return found

    def _add(self, topic: str | None, name: str, count: int) -> None:
        """Add to a count: in all, and of a topic."""
        with self._lock:
            for key in {(name, None), (name, topic)}:
                self._counts[key] = self._counts.get(key, 0) + count


_COMMITS: Final = ("CommittedCount", "Records", "Bytes", "CommitTimeMs", "SkippedCount")
_ORIGINS: Final = ("transaction", "stream")
"""A transaction is of a stream if it is one of its micro-batches."""

_REJECTED: Final = {
    Rejection.BYTES_REJECTED: "BytesRejectedPerSec",
    Rejection.NO_KEY_COMPACTED_TOPIC: "NoKeyCompactedTopicRecordsPerSec",
    Rejection.INVALID_MAGIC_NUMBER: "InvalidMagicNumberRecordsPerSec",
    Rejection.INVALID_MESSAGE_CRC: "InvalidMessageCrcRecordsPerSec",
    Rejection.INVALID_OFFSET_OR_SEQUENCE: "InvalidOffsetOrSequenceRecordsPerSec",
}
_APPENDED: Final = ("MessagesInPerSec", "BytesInPerSec")
