"""The offset of a stream as JSON, in the form of Spark's Kafka source, and what we add to it.

Owns that form: ``{"topic":{"0":23}}``, each offset the next one to read. Two kinds of entries are
ours; no topic has such a name, and who reads Kafka's form finds no partition, or a start, in them:

* ``"topic#<id>": {}`` names the topic's id, so that a topic deleted and made again is noticed,
  also over a restart;
* ``"topic#start": {"0": 7}``, in the end of the first batch, says where that batch began: Spark
  asks for the initial offset anew when it repeats that batch after a restart.

Must not know logs. Spark: ``KafkaSourceOffset`` and ``KafkaSourceInitialOffsetWriter``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARK: Final = "#"
_START: Final = "start"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each partition, the ids of topics, and where the first batch began."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    begun: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> StreamOffset:
        """Read what ``to_json`` or Spark's Kafka source wrote."""
        offsets: dict[TopicPartition, int] = {}
        begun: dict[TopicPartition, int] = {}
        topic_ids: dict[str, str] = {}
        for name, partitions in value.items():
            topic, mark, extra = name.partition(_MARK)
            target = begun if mark and extra == _START else offsets
            target |= {TopicPartition(topic, int(n)): offset for n, offset in partitions.items()}
            if mark and extra != _START:
                topic_ids[topic] = extra
        return cls(offsets, topic_ids, begun)

    def to_json(self) -> Json:
        """Return a form that JSON has; topics and partitions in order."""
        value = self.plain()
        value |= {f"{topic}{_MARK}{_START}": of for topic, of in _nested(self.begun).items()}
        value |= {f"{topic}{_MARK}{text}": {} for topic, text in sorted(self.topic_ids.items())}
        return value

    def plain(self) -> Json:
        """Return the offsets alone, just as Spark's Kafka source writes them."""
        return _nested(self.offsets)

    def is_at(self, other: StreamOffset) -> bool:
        """Return whether both are the same place in the same topics."""
        return self.offsets == other.offsets and self.topic_ids == other.topic_ids


def _nested(offsets: Mapping[TopicPartition, int]) -> Json:
    value: Json = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    return value
