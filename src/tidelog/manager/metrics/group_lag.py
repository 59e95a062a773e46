"""How far consumer groups are behind, as a metric of each group, topic and partition.

Kafka's brokers have no such metric; its name and labels are those of kafka_exporter, which
dashboards know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaStorageError
from tidelog.manager.consumer_groups import Groups, is_of_live_topic
from tidelog.manager.metrics.metric import Metric, tags_of
from tidelog.readonly.group_positions import lag_of
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.manager.log_registry import LogRegistry
    from tidelog.manager.partition import Partition
    from tidelog.manager.topics.topics import Topics


class GroupLag:
    """The lags of all groups, as ``tidelog groups`` has them. Any thread may use it.

    A lag is the number of offsets from the committed position to the high watermark, see
    ``lag_of``. Only logs that are open count, and none is loaded for it.
    """

    def __init__(self, registry: LogRegistry, topics: Topics) -> None:
        self._registry: Final = registry
        self._topics: Final = topics
        # Not the groups that a broker asks: the first look reads all of ``__consumer_offsets`` with
        # a lock held, for which the broker's event loop would have to wait.
        self._groups: Final = Groups(topics.all, self._partition)

    def metrics(self) -> Iterator[Metric]:
        """Yield the lag of each position, by group and partition; reads what was committed since.

        Positions in a topic that was deleted, and those that cannot be read, are left out.
        """
        positions = self._groups.positions(where_readable=True)
        topics, logs = self._topics.all(), self._registry.logs()
        ends = {key: (log.high_watermark, log.log_end_offset) for key, log in logs.items()}
        for group, found in sorted(positions.items()):
            for key, position in sorted(found.items()):
                if key in ends and is_of_live_topic(key, position, topics):
                    tags = (("consumergroup", group), *tags_of(key))
                    lag = lag_of(position.offset, *ends[key])
                    yield Metric("kafka", "consumergroup", "lag", tags, lag)

    def _partition(self, topic: str, number: int) -> Partition:
        """Return a partition that is in service; raise KafkaStorageError for another one."""
        found = self._registry.partition(TopicPartition(topic, number))
        if found is None:
            raise KafkaStorageError(f"{topic}-{number} is not loaded")
        return found
