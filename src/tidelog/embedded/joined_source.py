"""What a group's reader reads from in a program that has joined the one that holds the logs."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.client_request import Refusal
from tidelog.broker.groups.joined_readers import READER_PROTOCOL, read_positions, write_metadata
from tidelog.codec.compression import Codec
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.door_client import DoorClient, retried
from tidelog.embedded.group_commits import directory_of_group
from tidelog.env.waiting import ThreadBell
from tidelog.error_codes import ErrorCode
from tidelog.errors import (
    GroupInUse,
    InvalidArgument,
    KafkaError,
    NotServed,
    OutcomeUnknown,
    UnknownTopicOrPartition,
)
from tidelog.readonly.log_follower import POLL_MS
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.group_step import CommittedAt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.embedded.joined_reads import JoinedReads
    from tidelog.env.machine import Machine
    from tidelog.manager.consumer_groups import FoundPositions, Member
    from tidelog.readonly.group_positions import Position

_SESSION_MS: Final = 45_000
"""The protocol wants one; the reader has the group as long as its connection lives."""


class JoinedSource:
    """Topics, records and groups of joined logs, for one reader.

    Records are read from the files, and positions are committed by a transaction. The group is the
    reader's as long as a connection of its own lives, which is made again, and the group asked for
    again, when the process was restarted.
    """

    def __init__(self, logs: JoinedReads, machine: Machine) -> None:
        self._logs: Final = logs
        self._machine: Final = machine
        self.topic: Final = logs.listed_topic
        self.records: Final = logs.visible_records
        self.end: Final = logs.end_of
        self.epochs: Final = logs.known_epochs
        self._door: Final = DoorClient(logs.path)
        self.clock: Final = machine.clock
        self.bell: Final = _Looks()

    def bounds(self, key: TopicPartition) -> tuple[int, int]:
        """Return the log start offset and the high watermark."""
        return self._logs.start_of(key), self._logs.end_of(key, Isolation.READ_UNCOMMITTED)

    def directory(self, key: TopicPartition) -> str:
        """Return the directory of the partition."""
        with self._logs.open(*key) as log:
            return log.directory

    def join(self, member: Member) -> None:
        """Have the group, or see that it is still had; raise GroupInUse."""
        try:
            # A process that has just started does not know its clients' groups yet.
            retried(self._machine, partial(self._ask_for, member), Refusal)
        except Refusal as error:
            if error.code is not ErrorCode.NON_EMPTY_GROUP:
                raise
            held = "another reader of the same partitions, or members among Kafka's clients"
            raise GroupInUse(member.group, (held,)) from None

    def _ask_for(self, member: Member) -> None:
        mine = write_metadata(member.topics, member.partitions, os.getpid())
        me = {"name": "tidelog", "metadata": mine}
        self._door.ask(
            *("JoinGroup", 5),
            groupId=member.group,
            sessionTimeoutMs=_SESSION_MS,
            rebalanceTimeoutMs=_SESSION_MS,
            memberId="",
            protocolType=READER_PROTOCOL,
            protocols=[me],
        )

    def leave(self, member: Member) -> None:
        """Leave the group to others."""
        # The end of the connection would do, but is heard of only later: the next reader of the
        # group, which this program may open at once, would be refused.
        if self._door.is_connected:
            with suppress(NotServed, OutcomeUnknown, KafkaError, InvalidArgument):
                self._door.ask("LeaveGroup", 1, groupId=member.group, memberId="")
        self._door.close()

    def found(self, group: str) -> FoundPositions:
        """Return the committed positions of a group, and apart those of topics deleted since."""
        return self.standing(group)[1]

    def standing(self, group: str) -> tuple[frozenset[TopicPartition], FoundPositions]:
        """Return the partitions whose position a transaction is to set, and what is committed."""
        # The process has them in memory, and checks commits by them. One that was just started may
        # still be reading them.
        asked = partial(self._door.ask, "OffsetFetch", 7, groupId=group, topics=None)
        answer = retried(self._machine, partial(asked, requireStable=True), Refusal)
        fields = answer["positions"]
        if fields is None:  # not for empty: the group must not begin again from nothing
            raise NotServed(
                self._logs.path, "its process answers without positions: it is an older release"
            )
        undecided = frozenset(
            TopicPartition(topic["name"], one["partitionIndex"])
            for topic in answer["topics"]
            for one in topic["partitions"]
            if one["errorCode"]  # UNSTABLE_OFFSET_COMMIT
        )
        return undecided, read_positions(fields)

    def commit(
        self,
        group: str,
        positions: Mapping[TopicPartition, Position],
        before: Mapping[TopicPartition, CommittedAt | None],
    ) -> dict[TopicPartition, CommittedAt]:
        """Commit positions, durably."""
        paths = self._logs.paths
        home = paths[0] if len(paths) == 1 else directory_of_group(paths, group)
        directory = BusyDirectory(home, machine=self._machine)
        with directory.transaction(None, codec=Codec.NONE) as txn:
            txn.add_positions(group, positions, before)
            found = txn.commit().positions
        at = {key: found.get((group, *key)) for key in positions}
        gone = sorted({key.topic for key, offset in at.items() if offset is None})
        if gone:  # deleted since they were looked up
            raise UnknownTopicOrPartition(f"there is no topic {', '.join(gone)} any more")
        return {
            key: CommittedAt(positions[key].offset, offset)
            for key, offset in at.items()
            if offset is not None
        }


class _Looks(ThreadBell):
    """Nobody rings it: those that wait look again a few times a second."""

    def wait(self, seen: int, timeout_ms: int) -> bool:
        """Wait at most ``timeout_ms``, or until the next look."""
        return super().wait(seen, min(timeout_ms, POLL_MS))
