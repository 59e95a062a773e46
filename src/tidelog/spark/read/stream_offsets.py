"""The offset of a stream as JSON, in the form of Spark's Kafka source with three additions.

The form is ``{"topic":{"0":23}}``, where each offset is the next one to read. Three kinds of
entries are our own. Topic names cannot contain ``#``, so they collide with no topic:

* ``"topic#<id>": {}`` holds the topic's id, by which a topic that was deleted and recreated is
  detected, also across a restart;
* ``"topic#start": {"0": 7}``, in the end of the first batch, holds where that batch began: Spark
  asks for the initial offset again when it repeats that batch after a restart;
* ``"topic#epoch-5": {"0": 12}`` holds where a leader epoch of the records that were read begins, by
  which those are distinguished from others that have the same offsets since the log was restored.

Spark: ``KafkaSourceOffset`` and ``KafkaSourceInitialOffsetWriter``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tidelog.segment.filenames import TopicPartition
from tidelog.spark.options.offset_choice import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.readonly.epoch_lineage import Epochs

_START: Final = "start"
_EPOCH: Final = "epoch-"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each partition, the topic ids, and where the first batch began.

    ``first_start`` is set only in the end of a query's first batch, and in that of a batch of which
    the plan did not know whether it was the first. ``epochs`` are those of the records below the
    offsets, see ``lineage``; partitions of which none is known are left out.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    first_start: Mapping[TopicPartition, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> StreamOffset:
        """Parse the JSON value that ``to_json`` or Spark's Kafka source produced."""
        offsets: dict[TopicPartition, int] = {}
        first_start: dict[TopicPartition, int] = {}
        topic_ids: dict[str, str] = {}
        epochs: dict[TopicPartition, list[tuple[int, int]]] = {}
        for name, partitions in value.items():
            topic, _, suffix = name.partition(SEPARATOR)
            found = {TopicPartition(topic, int(n)): offset for n, offset in partitions.items()}
            if not suffix:
                offsets |= found
            elif suffix == _START:
                first_start |= found
            elif suffix.startswith(_EPOCH):
                epoch = int(suffix.removeprefix(_EPOCH))
                for partition, start in found.items():
                    epochs.setdefault(partition, []).append((epoch, start))
            else:
                topic_ids[topic] = suffix
        lineages = {partition: tuple(sorted(some)) for partition, some in epochs.items()}
        return cls(offsets, topic_ids, first_start, lineages)

    def to_json(self) -> Json:
        """Return a JSON value, with topics and partitions in order."""
        starts, ids = _nested(self.first_start).items(), sorted(self.topic_ids.items())
        value = self.plain()
        value |= {f"{topic}{SEPARATOR}{_START}": offsets for topic, offsets in starts}
        value |= {f"{topic}{SEPARATOR}{topic_id}": {} for topic, topic_id in ids}
        for partition, epochs in sorted(self.epochs.items()):
            for epoch, start in epochs:
                name = f"{partition.topic}{SEPARATOR}{_EPOCH}{epoch}"
                value.setdefault(name, {})[str(partition.partition)] = start
        return value

    def plain(self) -> Json:
        """Return the offsets without our additions, exactly as Spark's Kafka source writes them."""
        return _nested(self.offsets)

    def read_again(self, starts: Mapping[TopicPartition, int]) -> StreamOffset:
        """Return the offset with other offsets of some partitions."""
        return replace(self, offsets={**self.offsets, **starts}) if starts else self

    def is_at(self, other: StreamOffset) -> bool:
        """Return whether both hold the same offsets of the same topics."""
        return self.offsets == other.offsets and self.topic_ids == other.topic_ids


def _nested(offsets: Mapping[TopicPartition, int]) -> Json:
    value: Json = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    return value
