"""Topics by their ids. Kafka: ``MetadataCache``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.manager.log_manager import LogManager


class TopicNames:
    """Finds the name of the topic that has an id now. Any thread may use it."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._names: dict[UUID, str] = {}

    def of_id(self, topic_id: UUID) -> str | None:
        """Return the name; None if no topic has this id."""
        name = self._names.get(topic_id)
        if name is not None and self._has(name, topic_id):
            return name
        topics = self._manager.topics()
        self._names = {topic.topic_id: name for name, topic in topics.items()}
        return self._names.get(topic_id)

    def _has(self, name: str, topic_id: UUID) -> bool:
        try:
            return self._manager.topic(name).topic_id == topic_id
        except UnknownTopicOrPartition:
            return False
