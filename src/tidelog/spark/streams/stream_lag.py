"""How far a stream is behind the latest offsets, from the progress that Spark reports.

It uses none of Spark's classes, so it can be tested without a session.
Spark: ``KafkaMicroBatchStream.metrics``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.uuid_text import parse_uuid
from tidelog.errors import InvalidArgument
from tidelog.manager.metrics.metric import Metric, metrics_of, tags_of
from tidelog.spark.read.stream_offsets import StreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from tidelog.segment.filenames import TopicPartition

GROUP: Final = "tidelog"
TYPE: Final = "Streams"
_OF_KAFKA: Final = "KafkaV2["
"""The description of Spark's Kafka source, whose offsets look like ours, begins with it."""


@dataclass(frozen=True)
class StreamProgress:
    """What a stream has come to with a batch.

    ``ends`` are the next offsets to read of the partitions of all its sources, ``behind`` how many
    offsets lie from there to the latest one, as of when the batch was planned. ``rows`` is the
    number of records of the batch, ``duration_ms`` how long it took. ``topic_ids`` are those of the
    topics that it read.
    """

    query_id: str
    query: str
    batch_id: int
    rows: int
    duration_ms: int
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    behind: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> StreamProgress | None:
        """Return what a progress, as Spark's JSON has it, says; None without topics' offsets."""
        ends: dict[TopicPartition, int] = {}
        behind: dict[TopicPartition, int] = {}
        ids: dict[str, UUID] = {}
        rows = 0
        for source in progress["sources"]:
            is_of_kafka = str(source.get("description")).startswith(_OF_KAFKA)
            found = None if is_of_kafka else _read_offset(source["endOffset"])
            if found is None:
                continue
            end, latest = found.offsets, topic_offsets(source.get("latestOffset")) or {}
            rows += int(source["numInputRows"])
            ends |= end
            for name, text in found.topic_ids.items():
                with suppress(InvalidArgument):  # another source's words
                    ids[name] = parse_uuid(text)
            behind |= {key: max(latest.get(key, offset) - offset, 0) for key, offset in end.items()}
        if not ends:
            return None
        query_id = str(progress["id"])
        return cls(
            query_id,
            progress.get("name") or query_id,
            int(progress["batchId"]),
            rows,
            int(progress.get("batchDuration") or 0),
            ends,
            behind,
            ids,
        )

    @property
    def max_behind(self) -> int:
        """``maxOffsetsBehindLatest`` of Spark's Kafka source."""
        return max(self.behind.values())

    @property
    def min_behind(self) -> int:
        """``minOffsetsBehindLatest`` of Spark's Kafka source."""
        return min(self.behind.values())

    @property
    def avg_behind(self) -> float:
        """``avgOffsetsBehindLatest`` of Spark's Kafka source."""
        return sum(self.behind.values()) / len(self.behind)

    def metrics(self, directory: str) -> Iterator[Metric]:
        """Yield gauges of the stream, and of each partition that it reads."""
        tags = (("logDirectory", directory), ("queryId", self.query_id), ("query", self.query))
        for key, lag in sorted(self.behind.items()):
            yield Metric(GROUP, TYPE, "OffsetsBehindLatest", (*tags, *tags_of(key)), lag)
        of_stream = {
            "MaxOffsetsBehindLatest": self.max_behind,
            "MinOffsetsBehindLatest": self.min_behind,
            "AvgOffsetsBehindLatest": self.avg_behind,
            "LastReadBatchId": self.batch_id,
            "LastReadBatchRecords": self.rows,
            "LastReadBatchMs": self.duration_ms,
        }
        yield from metrics_of(GROUP, TYPE, tags, of_stream)


def topic_offsets(text: object) -> Mapping[TopicPartition, int] | None:
    """Return the offsets in the form of Spark's Kafka source; None for any other source's."""
    found = _read_offset(text)
    return None if found is None else found.offsets


def _read_offset(text: object) -> StreamOffset | None:
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    if not isinstance(value, dict) or not all(map(_is_topic, value.values())):
        return None
    found = StreamOffset.from_json(value)
    return found if found.offsets else None


def _is_topic(partitions: object) -> bool:
    return isinstance(partitions, dict) and all(
        isinstance(number, str) and number.isdecimal() and type(offset) is int
        for number, offset in partitions.items()
    )
