"""Topics by their ids. Kafka: ``MetadataCache``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from tidelog.manager.log_manager import LogManager


class TopicNames:
    """Finds the names of the topics that have ids now. Any thread may use it."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._names: dict[UUID, str] = {}

    def of_ids(self, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """Return the names, without the ids that no topic has.

        Of a request all together: for ids that are not known, all topics are looked at.
        """
        wanted = set(topic_ids)
        found = self._still_named(wanted)
        if len(found) < len(wanted):
            topics = self._manager.topics()
            names = {topic.topic_id: name for name, topic in topics.items()}
            found = {one: names[one] for one in wanted if one in names}
            self._names = names  # by now another thread may have replaced it, too
        return found

    def _still_named(self, topic_ids: set[UUID]) -> dict[UUID, str]:
        found = {}
        for topic_id in topic_ids:
            name = self._names.get(topic_id)
            if name is not None and self._has(name, topic_id):
                found[topic_id] = name
        return found

    def _has(self, name: str, topic_id: UUID) -> bool:
        try:
            return self._manager.topic(name).topic_id == topic_id
        except (UnknownTopicOrPartition, KafkaStorageError):
            return False
