"""Where consumer groups are in their partitions, from the files of a data directory.

Kafka: ``kafka-consumer-groups --describe``, which asks a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.shown_rows import (
    Named,
    OrMinus1,
    PartitionNumber,
    Stored,
    TimeOrMinus1,
    TopicName,
)
from tidelog.errors import UnknownTopicOrPartition
from tidelog.log.reading.committed import open_producers
from tidelog.readonly.group_positions import (
    OFFSETS_TOPIC,
    Committed,
    Position,
    StoredGroup,
    lag_of,
    read_committed_position,
    read_group,
)
from tidelog.records.isolation import ReadUpTo
from tidelog.records.known_records import known_records
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.records.record import Record


_NOWHERE: Final = Position(-1, -1, "", -1, None)
"""Where a group is that has committed nothing."""


class GroupPosition(NamedTuple):
    """A position of a group in a partition."""

    group: Annotated[str, "Name of the group."]
    topic: TopicName
    partition: PartitionNumber
    offset: Annotated[
        int | None,
        "Offset of the next record that it reads; null: a member has the partition, and the group"
        " has committed nothing there.",
    ]
    high_watermark: Annotated[
        int | None,
        "High watermark of the partition, or its log end with `tidelog groups --up-to logEnd`;"
        " null: it is not in the directory, or `isOfAnotherTopic`.",
    ]
    lag: Annotated[
        int | None,
        "Offsets from the position to the high watermark, negative for a position beyond the end"
        " of the log, as after a loss; null: not known.",
    ]
    leader_epoch: Annotated[
        OrMinus1, Stored.INT32, "Leader epoch of the last record that it has read; -1: not known."
    ]
    commit_time_ms: Annotated[
        TimeOrMinus1, Named("commitTimestamp"), "When the position was committed."
    ]
    metadata: Annotated[str, "Text that the reader has committed with it."]
    is_of_another_topic: Annotated[
        bool,
        "Whether it was committed in another topic of this name, which was deleted, or restored"
        " without `--keep-ids`: it does not count in this one.",
    ]

    @property
    def key(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class ShownMember(NamedTuple):
    """A member of a group, or a group without members."""

    group: Annotated[str, "Name of the group."]
    state: Annotated[str, "State of the group, as Kafka names it: `Stable`, `Empty` and others."]
    member_id: Annotated[str | None, "Id of the member; null: the group has none."]
    group_instance_id: Annotated[str | None, "`group.instance.id` of a static member; else null."]
    client_id: Annotated[str | None, "`client.id` of the member; `tidelog` for a reader in Python."]
    client_host: Annotated[
        str | None, "Address of the member, or the process that a reader in Python is in."
    ]
    partitions: Annotated[
        tuple[tuple[str, int], ...],
        "Partitions that it has, each a list of topic and number; empty, too, while the group is"
        " not `Stable`, and for a member of another protocol than consumers'.",
    ] = ()


class ChangedPosition(NamedTuple):
    """A position of a group that is changed."""

    group: Annotated[str, "Name of the group."]
    topic: TopicName
    partition: PartitionNumber
    offset: Annotated[int | None, "Position before; null: none."]
    new_offset: Annotated[int | None, "Position afterwards; null: it is deleted."]


def group_positions(
    directory: ReadOnlyDirectory,
    groups: Container[str] | None = None,
    *,
    only_committed: bool = False,
    up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK,
) -> list[GroupPosition]:
    """Return the positions of groups, None: of all, by group, topic and partition.

    They are those that were committed and, without ``only_committed``, those of the other
    partitions that members have. ``up_to``: where positions are read to, and lag is counted to.

    Raises CorruptMessage, KafkaStorageError; PartitionsElsewhere if a part of the positions, or a
    partition that they are about, is in another data directory.
    """
    directory.check_present({OFFSETS_TOPIC: None})
    found = _positions(directory, groups, up_to, only_committed=only_committed)
    read: dict[str, set[int]] = {}
    for _, key in found:
        read.setdefault(key.topic, set()).add(key.partition)
    directory.check_present(read)
    ends: dict[TopicPartition, _Ends | None] = {}
    for _, key in found:
        if key not in ends:
            ends[key] = _ends(directory, key, up_to)
    return [
        _shown(group, key, position, ends[key], is_current=_is_of(directory, key, position))
        for (group, key), position in sorted(found.items(), key=lambda item: item[0])
    ]


def undecided_positions(
    directory: ReadOnlyDirectory, groups: Container[str]
) -> set[tuple[str, TopicPartition]]:
    """Return the groups and partitions of which open transactions set the position.

    As ``Groups.undecided``, from the files, up to the log end. Errors as ``group_positions``.
    """
    directory.check_present({OFFSETS_TOPIC: None})
    found = set()
    for log in directory.logs(OFFSETS_TOPIC):
        known = log.transactions(ReadUpTo.LOG_END, aborted=False).open
        opened = {txn.producer_id: txn.first_offset for txn in known}
        if not opened:
            continue
        for columns in log.columns(min(opened.values()), log.log_end_offset):
            is_open = open_producers(columns.batches, opened) >= 0
            records = columns.select(is_open[columns.batch]).records()
            for _, one in known_records(records, read_committed_position, log.directory):
                if one.group in groups:
                    found.add((one.group, one.key))
    return found


class _Ends(NamedTuple):
    visible: int
    log_end_offset: int


def _shown(
    group: str, key: TopicPartition, position: Position, ends: _Ends | None, *, is_current: bool
) -> GroupPosition:
    offset = None if position is _NOWHERE else position.offset
    ends = ends if is_current else None
    return GroupPosition(
        *(group, *key, offset),
        None if ends is None else ends.visible,
        None if ends is None or offset is None else lag_of(offset, *ends),
        position.leader_epoch,
        position.commit_time_ms,
        position.metadata,
        not is_current,
    )


def _positions(
    directory: ReadOnlyDirectory,
    groups: Container[str] | None,
    up_to: ReadUpTo,
    *,
    only_committed: bool,
) -> dict[tuple[str, TopicPartition], Position]:
    found: dict[tuple[str, TopicPartition], Position] = {}
    stored: dict[str, StoredGroup] = {}
    for log in directory.logs(OFFSETS_TOPIC):
        records: Iterator[tuple[Record, Committed | StoredGroup]] = known_records(
            log.settled_records(up_to=up_to), _read, log.directory
        )
        for _, one in records:
            if groups is not None and one.group not in groups:
                continue
            if isinstance(one, StoredGroup):
                stored[one.group] = one
            elif one.position is None:
                found.pop((one.group, one.key), None)
            else:
                found[one.group, one.key] = one.position
    for one in () if only_committed else stored.values():
        for key in one.assigned:
            found.setdefault((one.group, key), _NOWHERE)
    return found


def _read(record: Record) -> Committed | StoredGroup | None:
    return read_committed_position(record) or read_group(record)


def _ends(directory: ReadOnlyDirectory, key: TopicPartition, up_to: ReadUpTo) -> _Ends | None:
    try:
        with directory.open(*key) as log:
            return _Ends(log.end_offset(up_to), log.log_end_offset)
    except UnknownTopicOrPartition:
        return None


def _is_of(directory: ReadOnlyDirectory, key: TopicPartition, position: Position) -> bool:
    """Return whether the topic is the one that the position was committed for, or may be it."""
    topic = directory.topics.get(key.topic)
    known = None if topic is None else topic.topic_id
    return position.topic_id is None or known is None or known == position.topic_id
