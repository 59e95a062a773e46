"""The records of ``__cluster_metadata`` that name topics, settings and feature levels.

A value is a frame version, the number of a message and its version, three unsigned varints, then
the message in Kafka's flexible encoding. Kafka: ``MetadataRecordSerde`` and
``org.apache.kafka.common.metadata``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.codec.flexible import FlexibleReader
from tidelog.codec.layout import Layout, Wire
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable

FRAME_VERSION: Final = 1


class RecordType(IntEnum):
    """The numbers of the messages that are read; all others are passed over."""

    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    REMOVE_TOPIC = 9
    FEATURE_LEVEL = 12
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25


class ResourceType(IntEnum):
    """What a setting belongs to. Source: Kafka ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    """The name is a node id, or empty for all brokers of the cluster."""


class PartitionRecordHead(NamedTuple):
    """The first fields of a PartitionRecord; replicas, leader and epochs follow."""

    partition_id: Annotated[int, Wire("i", "Number of the partition.")]
    topic_id: Annotated[bytes, Wire("16s", "Id of its topic.")]


class ConfigRecordHead(NamedTuple):
    """The first field of a ConfigRecord; name of the resource, key and value follow as text."""

    resource_type: Annotated[int, Wire("b", "2 topic, 4 broker; others are passed over.")]


class FeatureLevelTail(NamedTuple):
    """The field behind the name in a FeatureLevelRecord."""

    feature_level: Annotated[int, Wire("h", "Level in force in the cluster; 0: off.")]


PARTITION_RECORD_HEAD = Layout(PartitionRecordHead)
CONFIG_RECORD_HEAD = Layout(ConfigRecordHead)
FEATURE_LEVEL_TAIL = Layout(FeatureLevelTail)
assert PARTITION_RECORD_HEAD.size == 20
assert CONFIG_RECORD_HEAD.size == 1
assert FEATURE_LEVEL_TAIL.size == 2


class TopicRecord(NamedTuple):
    """A topic was created."""

    name: str
    topic_id: UUID


class PartitionRecord(NamedTuple):
    """A partition was created, or described in a snapshot."""

    topic_id: UUID
    partition: int


class ConfigRecord(NamedTuple):
    """A setting was set; ``value`` None: it was taken back."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class RemoveTopicRecord(NamedTuple):
    """A topic was deleted, with its settings."""

    topic_id: UUID


class FeatureLevelRecord(NamedTuple):
    """A feature of the cluster has this level from here on."""

    name: str
    level: int


class TransactionRecord(NamedTuple):
    """The records between ``BEGIN`` and ``END`` hold together; ``ABORT`` drops them."""

    type: RecordType


MetadataRecord: TypeAlias = (
    TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | TransactionRecord
)


def record_type(value: bytes | None) -> int:
    """Return the number of the message in a value; InvalidRecord if it is null or cut short."""
    if value is None:
        raise InvalidRecord("a metadata record has no value")
    reader = FlexibleReader(value, "a metadata record")
    reader.unsigned()
    return reader.unsigned()


def unpack_metadata_record(value: bytes | None) -> MetadataRecord | None:
    """Return the record in a value; None for a message that is not read here.

    Unknown tagged fields are skipped. Raises InvalidRecord: the value is malformed, or it holds one
    of the messages above in a version that is not known, so that what it changes is not known.
    """
    if value is None:
        raise InvalidRecord("a metadata record has no value")
    reader = FlexibleReader(value, "a metadata record")
    frame = reader.unsigned()
    if frame != FRAME_VERSION:
        raise InvalidRecord(f"a metadata record has frame version {frame}, not {FRAME_VERSION}")
    number, version = reader.unsigned(), reader.unsigned()
    read = _READERS.get(number)
    if read is None:
        return None
    if number == RecordType.PARTITION:
        return _partition(reader)  # what later versions add follows the head
    if version:
        name = RecordType(number).name
        raise InvalidRecord(f"a metadata record of type {name} has version {version}, not 0")
    found = read(reader)
    reader.skip_tags()
    if not reader.is_at_end:
        raise InvalidRecord("a metadata record is followed by other bytes")
    return found


def _topic(reader: FlexibleReader) -> TopicRecord:
    return TopicRecord(reader.exact_string(), _id(reader))


def _partition(reader: FlexibleReader) -> PartitionRecord:
    head = reader.fixed(PARTITION_RECORD_HEAD)
    return PartitionRecord(UUID(bytes=head.topic_id), head.partition_id)


def _config(reader: FlexibleReader) -> ConfigRecord:
    kind = reader.fixed(CONFIG_RECORD_HEAD).resource_type
    return ConfigRecord(
        kind, reader.exact_string(), reader.exact_string(), reader.nullable_string()
    )


def _remove_topic(reader: FlexibleReader) -> RemoveTopicRecord:
    return RemoveTopicRecord(_id(reader))


def _feature_level(reader: FlexibleReader) -> FeatureLevelRecord:
    name = reader.exact_string()
    return FeatureLevelRecord(name, reader.fixed(FEATURE_LEVEL_TAIL).feature_level)


def _id(reader: FlexibleReader) -> UUID:
    found = reader.uuid()
    if found == ZERO_ID:
        raise InvalidRecord("a metadata record has the zero id for a topic")
    return found


_READERS: Final[dict[int, Callable[[FlexibleReader], MetadataRecord]]] = {
    RecordType.TOPIC: _topic,
    RecordType.PARTITION: _partition,
    RecordType.CONFIG: _config,
    RecordType.REMOVE_TOPIC: _remove_topic,
    RecordType.FEATURE_LEVEL: _feature_level,
    RecordType.BEGIN_TRANSACTION: lambda _: TransactionRecord(RecordType.BEGIN_TRANSACTION),
    RecordType.END_TRANSACTION: lambda _: TransactionRecord(RecordType.END_TRANSACTION),
    RecordType.ABORT_TRANSACTION: lambda _: TransactionRecord(RecordType.ABORT_TRANSACTION),
}
KNOWN_TYPES: Final = tuple(sorted(_READERS))
