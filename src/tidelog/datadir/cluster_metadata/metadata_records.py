"""The records of ``__cluster_metadata`` that name topics, settings and feature levels.

A value is a frame version, the number of a message and its version, three unsigned varints, then
the message in Kafka's flexible encoding. Kafka: ``MetadataRecordSerde`` and
``org.apache.kafka.common.metadata``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tidelog.codec.messages.message_reader import read_values
from tidelog.codec.messages.message_table import Message, fields_of, messages_of
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.codec.varint import read_unsigned_varint
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

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


class Framed(NamedTuple):
    """A message as it lies in a value."""

    number: int
    version: int
    data: bytes


def unpack_frame(value: bytes | None) -> Framed:
    """Return the message in a value.

    Raises InvalidRecord if the value is null or cut short, or of another frame version.
    """
    if value is None:
        raise InvalidRecord("a metadata record has no value")
    frame, at = read_unsigned_varint(value, 0)
    if frame != FRAME_VERSION:
        raise InvalidRecord(f"a metadata record has frame version {frame}, not {FRAME_VERSION}")
    number, at = read_unsigned_varint(value, at)
    version, at = read_unsigned_varint(value, at)
    return Framed(number, version, value[at:])


def unpack_metadata_record(value: bytes | None) -> MetadataRecord | None:
    """Return the record in a value; None for a message that is not read here.

    Unknown tagged fields are skipped. Raises InvalidRecord: the value is malformed, or it holds one
    of the messages above in a version that is not known, so that what it changes is not known.
    """
    number, version, data = unpack_frame(value)
    make = _MAKERS.get(number)
    if make is None:
        return None
    if number == RecordType.PARTITION:  # what later versions add follows the head
        return make(read_values(_PARTITION_HEAD, data)[0])
    if version:
        name = RecordType(number).name
        raise InvalidRecord(f"a metadata record of type {name} has version {version}, not 0")
    fields, end = read_values(messages_of("metadata")[number, 0], data)
    if end < len(data):
        raise InvalidRecord("a metadata record is followed by other bytes")
    if fields.get("topicId") == ZERO_ID:
        raise InvalidRecord("a metadata record has the zero id for a topic")
    return make(fields)


_PARTITION_HEAD: Final = Message(
    "PARTITION_RECORD", is_flexible=False, fields=fields_of("partitionId int32, topicId uuid")
)
_MAKERS: Final[dict[int, Callable[[dict[str, Any]], MetadataRecord]]] = {
    RecordType.TOPIC: lambda found: TopicRecord(found["name"], found["topicId"]),
    RecordType.PARTITION: lambda found: PartitionRecord(found["topicId"], found["partitionId"]),
    RecordType.CONFIG: lambda found: ConfigRecord(*found.values()),
    RecordType.REMOVE_TOPIC: lambda found: RemoveTopicRecord(found["topicId"]),
    RecordType.FEATURE_LEVEL: lambda found: FeatureLevelRecord(*found.values()),
    RecordType.BEGIN_TRANSACTION: lambda _: TransactionRecord(RecordType.BEGIN_TRANSACTION),
    RecordType.END_TRANSACTION: lambda _: TransactionRecord(RecordType.END_TRANSACTION),
    RecordType.ABORT_TRANSACTION: lambda _: TransactionRecord(RecordType.ABORT_TRANSACTION),
}
KNOWN_TYPES: Final = tuple(sorted(_MAKERS))
