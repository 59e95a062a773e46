"""Setting and deleting a group's positions in a directory that another process may hold."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.client_request import Refusal
from tidelog.codec.compression import Codec
from tidelog.codec.text import check_group
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.commits import DEFAULT_TIMEOUT_MS
from tidelog.embedded.door_client import DoorClient, check_answer, retried
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.machine import brief_machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.unix_sockets import is_listened_in
from tidelog.error_codes import ErrorCode
from tidelog.errors import NonEmptyGroup, NotServed
from tidelog.readonly.absent_partitions import BY_NOTHING
from tidelog.readonly.group_positions import OFFSETS_TOPIC, Position, partition_of_group
from tidelog.readonly.read_only_directory import open_directory_read_only

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from tidelog.segment.filenames import TopicPartition


def commit_positions(
    path: str,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    topic_ids: Mapping[str, UUID] | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> None:
    """Commit the next offsets that a group reads, wherever it is; durable when this returns.

    ``topic_ids`` are those of the topics whose records were read, as far as they are known: of one
    that was created again since, the offset does not count. ``__consumer_offsets`` is created if it
    does not exist. ``timeout_ms``: see ``commit_when_possible``, whose errors this has.

    Raises:
        InvalidArgument: the name of the group is not valid, or there is no such directory.
        NonEmptyGroup: the process that holds the directory has a reader of the group.
        UnknownTopicOrPartition: a topic does not exist.
    """
    check_group(group)
    machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    directory = BusyDirectory(os.path.abspath(path), machine=machine, timeout_ms=timeout_ms)
    ids = {key.topic: directory.topic(key.topic).topic_id for key in offsets}
    ids |= topic_ids or {}
    now_ms = machine.clock.now_ms()
    positions = {
        key: Position(offset, -1, "", now_ms, ids[key.topic]) for key, offset in offsets.items()
    }
    with directory.transaction(None, codec=Codec.NONE) as txn:
        txn.add_positions(group, positions, before=None)


def delete_group(path: str, group: str, keys: Collection[TopicPartition]) -> None:
    """Delete a group with its positions, those in ``keys``; durable when this returns.

    If a process that holds the directory listens, it deletes all positions that the group has then,
    and there is an error if it has none.
    Errors as ``commit_when_possible``, and as ``DoorClient.ask``. Raises NonEmptyGroup if the
    process that holds the directory has a reader of the group, or members of it.
    """
    check_group(group)
    path, machine = os.path.abspath(path), brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    if is_listened_in(path):
        # Not by a transaction: a position that was committed since the caller looked would stay.
        with suppress(NotServed), closing(DoorClient(path)) as door:  # it may have just ended
            retried(machine, partial(_ask_to_delete, door, group), Refusal)
            return
    directory = BusyDirectory(path, machine=machine)
    with directory.transaction(None, codec=Codec.NONE) as txn:
        txn.remove_group(group, keys)


def _ask_to_delete(door: DoorClient, group: str) -> None:
    (answer,) = door.ask("DeleteGroups", 2, groupsNames=[group])["results"]
    if answer["errorCode"] == ErrorCode.NON_EMPTY_GROUP:
        raise NonEmptyGroup(group)
    check_answer(answer)


def directory_of_group(paths: Sequence[str], group: str) -> str:
    """Return which of several data directories has a group's positions; the first: none has yet.

    Raises PartitionsElsewhere if another directory has them; InvalidArgument, KafkaStorageError.
    """
    directory = open_directory_read_only(*paths, fs=SYSTEM_FILES, accept=BY_NOTHING)
    directory.check_present({OFFSETS_TOPIC: None})
    topic = directory.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return paths[0]
    number = partition_of_group(group, len(topic.partitions) + len(topic.missing))
    return directory.part_of(OFFSETS_TOPIC, number).path
