"""The positions of consumer groups, kept as Kafka keeps them: records of ``__consumer_offsets``.

A position is the offset of the next record that a group reads of a partition. The positions of a
group are in the one partition of that topic that its name determines; the newest record of a key
counts. Kafka: ``OffsetMetadataManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.messages.keyed_message import read_keyed, write_key, write_value
from tidelog.codec.messages.message_reader import read_values, split_version
from tidelog.codec.messages.message_table import nearest
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.errors import InvalidRecord
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from tidelog.records.builder import RecordFields
    from tidelog.records.record import Record

OFFSETS_TOPIC: Final = "__consumer_offsets"

_NUMBER: Final = 1
"""Of the message OffsetCommit among those of the topic."""
GROUP_NUMBER: Final = 2
"""Of the message GroupMetadata."""
_OLD_NUMBER: Final = 0
CONSUMERS: Final = "consumer"
"""The protocol of groups whose members have partitions, and the family of its messages."""
_NO_TIME: Final = -1
_SUBSCRIPTION: Final = 0
_ASSIGNMENT: Final = 1
_WRITTEN_VERSION: Final = 4
"""The one that Kafka 4.3.1 writes; it has the topic's id."""
_EXPIRING_VERSION: Final = 1
"""The only one that says when a position expires, and what Kafka writes of such a one."""


class Position(NamedTuple):
    """The offset of the next record to read; ``leader_epoch`` of the last one read, -1 unknown.

    ``topic_id`` is that of the topic when it was committed, None where that is not known.
    ``commit_time_ms`` is when. ``expire_time_ms`` is when it expires, if the client has said that;
    None: as all others do.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    topic_id: UUID | None
    expire_time_ms: int | None = None


class Committed(NamedTuple):
    """A record of the topic: where a group is in a partition; None: that was taken back."""

    group: str
    key: TopicPartition
    position: Position | None


class StoredGroup(NamedTuple):
    """A group with its members as a record of the topic has it; ``values`` None: it is deleted."""

    group: str
    values: dict[str, Any] | None

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that its members have, if they are consumers."""
        if self.values is None or self.values["protocolType"] != CONSUMERS:
            return frozenset()
        sent = (member["assignment"] for member in self.values["members"])
        return frozenset(key for data in sent for key in assigned_partitions(data))


def lag_of(offset: int, high_watermark: int, log_end_offset: int) -> int:
    """Return how far a position is behind the high watermark; negative beyond the end of the log.

    Kafka's tool shows a negative lag there, too. A position between the two is none: the high
    watermark in the files of a log that is being written is some seconds old.
    """
    lag = high_watermark - offset
    return lag if offset > log_end_offset else max(lag, 0)


def partition_of_group(group: str, partitions: int) -> int:
    """Return the partition of the topic, of this number of partitions, that holds a group.

    Source: Kafka ``GroupCoordinatorService.partitionFor``, by Java's hash of the name's UTF-16.
    """
    units = group.encode("utf-16-be")
    found = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFFFFFF
    return (found & 0x7FFFFFFF) % partitions


def position_key(group: str, key: TopicPartition) -> bytes:
    """Return the key of the record of a group's position in a partition."""
    values = {"group": group, "topic": key.topic, "partition": key.partition}
    return write_key("group", _NUMBER, values)


def position_value(position: Position) -> bytes:
    """Return the value of the record of a position."""
    values = {
        "offset": position.offset,
        "leaderEpoch": position.leader_epoch,
        "metadata": position.metadata,
        "commitTimestamp": position.commit_time_ms,
        "topicId": ZERO_ID if position.topic_id is None else position.topic_id,
        "expireTimestamp": position.expire_time_ms,
    }
    version = _WRITTEN_VERSION if position.expire_time_ms is None else _EXPIRING_VERSION
    return write_value("group", _NUMBER, version, values)


def position_records(
    group: str, positions: Mapping[TopicPartition, Position]
) -> list[RecordFields]:
    """Return the records of a group's positions, in order of topics and partitions."""
    return [
        (one.commit_time_ms, position_key(group, key), position_value(one), ())
        for key, one in sorted(positions.items())
    ]


def removal_records(
    group: str, keys: Iterable[TopicPartition], now_ms: int, *, is_whole: bool = False
) -> list[RecordFields]:
    """Return the records that take positions of a group back; ``is_whole``: and the group."""
    taken: list[RecordFields] = [
        (now_ms, position_key(group, key), None, ()) for key in sorted(keys)
    ]
    return [*taken, group_removal(group, now_ms)] if is_whole else taken


def group_removal(group: str, now_ms: int) -> RecordFields:
    """Return the record that takes a group back, with its members; its positions stay."""
    return (now_ms, group_key(group), None, ())


def group_key(group: str) -> bytes:
    """Return the key of the record of a group, which says who its members are."""
    return write_key("group", GROUP_NUMBER, {"group": group})


def read_committed_position(record: Record) -> Committed | None:
    """Return the position that a record of the topic holds; None for a record of another kind.

    Raises InvalidRecord for one that is malformed, or of a version that is not known.
    """
    numbers = (_OLD_NUMBER, _NUMBER)
    found = read_keyed("group", numbers, record.key, record.value, value_number=_NUMBER)
    if found is None:
        return None
    where = found.key["group"], TopicPartition(found.key["topic"], found.key["partition"])
    value = found.value
    if value is None:
        return Committed(*where, None)
    topic_id, expire_time_ms = value.get("topicId", ZERO_ID), value.get("expireTimestamp", _NO_TIME)
    position = Position(
        value["offset"],
        value.get("leaderEpoch", -1),
        value["metadata"],
        value["commitTimestamp"],
        None if topic_id == ZERO_ID else topic_id,
        None if expire_time_ms == _NO_TIME else expire_time_ms,
    )
    return Committed(*where, position)


def read_group(record: Record) -> StoredGroup | None:
    """Return the group that a record of the topic holds; None for a record of another kind.

    Raises InvalidRecord as ``read_committed_position``.
    """
    found = read_keyed("group", (GROUP_NUMBER,), record.key, record.value)
    return None if found is None else StoredGroup(found.key["group"], found.value)


def subscribed_topics(protocol_type: str | None, data: bytes) -> frozenset[str] | None:
    """Return the topics that a member reads, by what it has sent; None: it does not say that."""
    values = _sent(_SUBSCRIPTION, data) if protocol_type == CONSUMERS else None
    return None if values is None else frozenset(values["topics"])


def assigned_partitions(data: bytes) -> list[TopicPartition]:
    """Return the partitions that the leader of a group has sent for a member."""
    values = _sent(_ASSIGNMENT, data) or {"assignedPartitions": []}
    return [
        TopicPartition(one["topic"], number)
        for one in values["assignedPartitions"]
        for number in one["partitions"]
    ]


def _sent(number: int, data: bytes) -> dict[str, Any] | None:
    """Return a message of members; None where it is malformed, as no broker looks at it."""
    try:
        version, rest = split_version(data)
        return read_values(nearest(CONSUMERS, number, version), rest)[0]
    except InvalidRecord:
        return None
