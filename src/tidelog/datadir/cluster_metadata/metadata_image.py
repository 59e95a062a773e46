"""The state that the records of ``__cluster_metadata`` add up to.

Kafka: ``MetadataImage`` and ``MetadataDelta``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.datadir.cluster_metadata.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RecordType,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
    TransactionRecord,
)
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from tidelog.datadir.cluster_metadata.metadata_records import MetadataRecord

ALL_BROKERS: Final = ""
"""The name of the resource that stands for all brokers of the cluster."""

_RESOURCE_TYPES: Final = frozenset(ResourceType)


class Resource(NamedTuple):
    """What a setting belongs to: a topic by name, or a broker by node id."""

    type: int
    name: str


class RecordedSetting(NamedTuple):
    """A setting as the metadata has it; ``value`` None: it was taken back.

    ``end_offset`` is the exclusive end of the batch that set it last; 0 for one of a snapshot.
    """

    value: str | None
    end_offset: int


@dataclass
class RecordedTopic:
    """A topic as the metadata has it; ``end_offset`` as of ``RecordedSetting``."""

    name: str
    end_offset: int
    partitions: set[int] = field(default_factory=set)


class MetadataImage:
    """Topics, settings and feature levels; ``apply`` takes one record after another.

    The records of a metadata transaction are applied at its end, and dropped if it is aborted or
    has no end.
    """

    def __init__(self) -> None:
        self.topics: dict[UUID, RecordedTopic] = {}
        self.settings: dict[Resource, dict[str, RecordedSetting]] = {}
        self.features: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}
        self._transaction: list[MetadataRecord] | None = None

    def apply(self, record: MetadataRecord, end_offset: int) -> None:
        """Apply a record of a batch that ends before ``end_offset``; 0 for one of a snapshot.

        Raises InvalidRecord: it contradicts what was applied before.
        """
        if isinstance(record, TransactionRecord):
            self._transact(record.type, end_offset)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply(record, end_offset)

    def name_of(self, topic_id: UUID) -> str | None:
        """Return the name of a topic; None if it is not in the metadata."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.name

    def id_of(self, name: str) -> UUID | None:
        """Return the id of a topic; None if it is not in the metadata."""
        return self._ids.get(name)

    def settings_of(self, resource: Resource) -> Mapping[str, RecordedSetting]:
        """Return the settings of a resource by name."""
        return self.settings.get(resource, {})

    def proven_end(self, topic_ids: Collection[UUID]) -> int:
        """Return the end of what is known to be committed, given topics that lie on disk.

        A broker creates the directory of a partition only when the record of its topic is
        committed; then all records before are committed, too.
        """
        found = (self.topics[one].end_offset for one in topic_ids if one in self.topics)
        return max(found, default=0)

    def _transact(self, type_: RecordType, end_offset: int) -> None:
        if (type_ is RecordType.BEGIN_TRANSACTION) != (self._transaction is None):
            raise InvalidRecord(f"a metadata record of type {type_.name} is out of place")
        records, self._transaction = self._transaction, None
        if type_ is RecordType.BEGIN_TRANSACTION:
            self._transaction = []
        elif type_ is RecordType.END_TRANSACTION:
            for record in records or ():
                self._apply(record, end_offset)

    def _apply(self, record: MetadataRecord, end_offset: int) -> None:
        if isinstance(record, ConfigRecord):
            self._set(record, end_offset)
        elif isinstance(record, TopicRecord):
            self._create(record, end_offset)
        elif isinstance(record, PartitionRecord):
            topic = self.topics.get(record.topic_id)
            if topic is not None:
                topic.partitions.add(record.partition)
        elif isinstance(record, RemoveTopicRecord):
            self._remove(record.topic_id)
        elif isinstance(record, FeatureLevelRecord):
            self.features[record.name] = record.level

    def _set(self, record: ConfigRecord, end_offset: int) -> None:
        if record.resource_type in _RESOURCE_TYPES:
            resource = Resource(record.resource_type, record.resource_name)
            setting = RecordedSetting(record.value, end_offset)
            self.settings.setdefault(resource, {})[record.name] = setting

    def _create(self, record: TopicRecord, end_offset: int) -> None:
        if self._ids.get(record.name, record.topic_id) != record.topic_id:
            raise InvalidRecord(f"metadata names two topics {record.name}")
        if self.name_of(record.topic_id) not in {None, record.name}:
            raise InvalidRecord(f"metadata names two topics with id {record.topic_id}")
        self._ids[record.name] = record.topic_id
        self.topics[record.topic_id] = RecordedTopic(record.name, end_offset)

    def _remove(self, topic_id: UUID) -> None:
        topic = self.topics.pop(topic_id, None)
        if topic is not None:
            del self._ids[topic.name]
            self.settings.pop(Resource(ResourceType.TOPIC, topic.name), None)
