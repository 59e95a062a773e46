"""The file ``bootstrap.checkpoint``: what a new cluster knows when its first controller starts.

The controller copies these records into its empty ``__cluster_metadata`` in one metadata
transaction, before a broker looks at any log. Kafka: ``BootstrapDirectory``, ``BatchFileWriter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.messages.message_table import messages_of
from tidelog.codec.messages.message_writer import with_version, write_message
from tidelog.codec.uuid_text import format_uuid
from tidelog.codec.varint import write_unsigned_varint
from tidelog.datadir.cluster_metadata.metadata_records import FRAME_VERSION, ResourceType
from tidelog.records.builder import build_batch
from tidelog.records.control import CONTROL_KEY, ControlKey, ControlType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"

FEATURES: Final[Mapping[str, int]] = {
    "metadata.version": 30,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels that Kafka 4.3.1 gives a new cluster, without ``eligible.leader.replicas.version``.

With that, the first registration of a broker counts as an unclean shutdown, and each partition
would get its leader by an unclean election.
"""

NO_LEADER: Final = -1
_RECORDS_A_BATCH: Final = 1000
_TOPIC, _PARTITION, _CONFIG, _FEATURE, _PRODUCER_IDS = 2, 3, 4, 12, 15
WRITTEN_TYPES: Final = frozenset({_TOPIC, _PARTITION, _CONFIG, _FEATURE, _PRODUCER_IDS})
"""The types of the records that ``bootstrap_records`` returns."""


class PartitionToRegister(NamedTuple):
    """A partition whose log lies in the data directory of this id.

    ``leader_epoch`` is the latest of its log; the broker gets a higher one when it is elected.
    """

    number: int
    directory_id: UUID
    leader_epoch: int


class TopicToRegister(NamedTuple):
    """A topic with the settings that differ from the defaults."""

    name: str
    topic_id: UUID
    config: Mapping[str, str]
    partitions: Sequence[PartitionToRegister]


def bootstrap_records(
    topics: Iterable[TopicToRegister], node_id: int, next_producer_id: int
) -> Iterator[bytes]:
    """Yield the records of a cluster in which one node has the only replica of every partition.

    No partition has a leader: the node becomes it when it registers. ``next_producer_id`` is the
    first producer id that the cluster may assign; 0: all.
    """
    for name, level in FEATURES.items():
        yield _record(_FEATURE, 0, {"name": name, "featureLevel": level})
    for topic in topics:
        topic_id = format_uuid(topic.topic_id)
        yield _record(_TOPIC, 0, {"name": topic.name, "topicId": topic_id})
        for key, value in sorted(topic.config.items()):
            owner = {"resourceType": int(ResourceType.TOPIC), "resourceName": topic.name}
            yield _record(_CONFIG, 0, {**owner, "name": key, "value": value})
        for partition in topic.partitions:
            yield _record(_PARTITION, 1, _partition(partition, topic_id, node_id))
    if next_producer_id:
        ids = {"brokerId": node_id, "brokerEpoch": -1, "nextProducerId": next_producer_id}
        yield _record(_PRODUCER_IDS, 0, ids)


def _partition(partition: PartitionToRegister, topic_id: str, node_id: int) -> dict[str, Any]:
    return {
        "partitionId": partition.number,
        "topicId": topic_id,
        "replicas": [node_id],
        "isr": [node_id],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": NO_LEADER,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": 0,
        "directories": [format_uuid(partition.directory_id)],
    }


def bootstrap_file(records: Iterable[bytes], now_ms: int) -> bytes:
    """Return the bytes of a file with these records, between a header and a footer."""
    values = list(records)
    starts = range(0, len(values), _RECORDS_A_BATCH)
    header = {"lastContainedLogTimestamp": 0}
    batches = [_control(ControlType.SNAPSHOT_HEADER, header, 0, now_ms)]
    for start in starts:
        rows = [(now_ms, None, value, ()) for value in values[start : start + _RECORDS_A_BATCH]]
        batches.append(build_batch(rows, base_offset=start + 1, leader_epoch=0))
    batches.append(_control(ControlType.SNAPSHOT_FOOTER, {}, len(values) + 1, now_ms))
    return b"".join(batches)


def _control(kind: ControlType, values: Mapping[str, int], offset: int, now_ms: int) -> bytes:
    key = CONTROL_KEY.pack(ControlKey(0, kind))
    value = with_version(0, write_message(messages_of("control")[kind, 0], values))
    rows = [(now_ms, key, value, ())]
    return build_batch(rows, base_offset=offset, leader_epoch=0, control=True)


def _record(number: int, version: int, values: Mapping[str, Any]) -> bytes:
    out = bytearray()
    for head in (FRAME_VERSION, number, version):
        write_unsigned_varint(out, head)
    return bytes(out) + write_message(messages_of("metadata")[number, version], values)
