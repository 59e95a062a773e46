"""Consumer groups: their committed positions, and their readers in this process.

A commit is fenced: it counts only if the group is still where its reader took it up, so neither a
closed reader nor an older one can move positions back. Kafka: ``GroupMetadataManager``.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from tidelog.env.forks import OfOneProcess
from tidelog.errors import GroupInUse, IllegalGeneration, KafkaError, NonEmptyGroup
from tidelog.manager.known_positions import Committed, KnownPositions
from tidelog.readonly.group_positions import (
    OFFSETS_TOPIC,
    Position,
    group_removal,
    partition_of_group,
    position_records,
)
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.group_step import CommittedAt, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from tidelog.datadir.catalogue import Topic
    from tidelog.manager.known_positions import Through
    from tidelog.manager.partition import Partition
    from tidelog.staging.commit import Transaction
    from tidelog.staging.group_step import GroupPartition, GroupStep


_log = logging.getLogger(__name__)

_THIS: Final = "the process that holds the directory"


class Member(Protocol):
    """A reader of a group."""

    @property
    def group(self) -> str:
        """Its group's name."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads."""

    @property
    def partitions(self) -> frozenset[int] | None:
        """The partitions of each topic that it reads, None: all."""


class FoundPositions(NamedTuple):
    """The committed positions of a group; ``of_others`` are in topics that were deleted since.

    Other topics may have their names now, with other records at these offsets.
    """

    live: dict[TopicPartition, Committed]
    of_others: dict[TopicPartition, Committed]


class Groups(OfOneProcess):
    """The groups of the directories that this process holds.

    Any thread may use it. Positions are as the logs of ``__consumer_offsets`` have them; what was
    read of those logs is kept, so a second look reads only what has come since. ``_lock`` guards
    the members, what is known of which partition, and what arrives; no other lock is taken under
    it. ``topics`` returns all topics, ``partition_of`` loads a log if needed, and ``unapplied``
    returns whose positions a commit is about to set, on any thread.
    """

    def __init__(
        self,
        topics: Callable[[], Mapping[str, Topic]],
        partition_of: Callable[[str, int], Partition],
        unapplied: Callable[[], Iterable[GroupPartition]] = tuple,
    ) -> None:
        self._topics = topics
        self._partition_of = partition_of
        self._unapplied = unapplied
        self._lock = threading.Lock()
        self._known: dict[int, KnownPositions] = {}
        """By the number of the partition."""
        # Weakly: an interrupt may come before anybody has the reader, who could close it.
        self._members: dict[str, WeakKeyDictionary[Member, str]] = {}
        self._of_clients: dict[str, Callable[[], tuple[str, ...]]] = {}
        """The groups that have members among the clients of a broker, and what names these."""
        self._arriving: dict[str, Counter[TopicPartition]] = {}
        """Positions of clients that are still to be appended, by group."""

    # Positions

    def positions(
        self, *, where_readable: bool = False, without: Collection[int] = ()
    ) -> dict[str, dict[TopicPartition, Position]]:
        """Return the committed positions of every group, also those of topics that are gone.

        A partition of the topic that cannot be read raises KafkaError, or, ``where_readable``, its
        groups are left out. Those of the partitions ``without`` are left out, and these not read.
        """
        topic = self._topics().get(OFFSETS_TOPIC)
        found: dict[str, dict[TopicPartition, Position]] = {}
        if topic is None:
            return found
        for number in sorted(set(topic.partitions).difference(without)):
            try:
                known = self._caught_up(number, topic)
            except KafkaError:
                if not where_readable:
                    raise
                continue
            found |= known.all()
        return found

    def read(self, number: int, through: Through) -> None:
        """Read what a partition of the topic has got since the last look, ``through`` something.

        Raises KafkaError: it cannot be read.
        """
        topic = self._topics().get(OFFSETS_TOPIC)
        if topic is not None:
            self._caught_up(number, topic, through)

    def note(
        self, home: Partition, group: str, positions: Mapping[TopicPartition, Position], end: int
    ) -> None:
        """Take note of a commit, by no transaction, whose records end at ``end`` in ``home``."""
        known = self._known.get(home.partition)
        if known is not None:
            known.note(home.log, group, positions, end)

    def unread(self, home: Partition) -> int:
        """Return how many offsets a look at a partition of the topic has to read; no look."""
        known = self._known.get(home.partition)
        return home.log.high_watermark - (0 if known is None else known.read_to)

    def committed(self, group: str) -> dict[TopicPartition, Committed]:
        """Return the committed positions of a group, without those of topics deleted since."""
        return self.found(group).live

    def found(self, group: str) -> FoundPositions:
        """Return the committed positions of a group, and apart those of topics deleted since."""
        topics = self._topics()
        known = self._known_of(group, topics)
        return _found_positions({} if known is None else known.of_group(group), topics)

    def unwritten(self, groups: Iterable[str], without: Collection[int] = ()) -> list[str]:
        """Return those of some groups of which the log has no record, except their positions.

        Groups in partitions that cannot be read, and in those ``without``, are left out.
        """
        topic = self._topics().get(OFFSETS_TOPIC)
        if topic is None:
            return []
        homes: dict[int, list[str]] = {}
        for group in groups:
            homes.setdefault(partition_of_group(group, len(topic.partitions)), []).append(group)
        found: list[str] = []
        for number in homes.keys() - set(without):
            with suppress(KafkaError):
                known = self._caught_up(number, topic)
                found += (group for group in homes[number] if not known.is_written(group))
        return found

    def undecided(self, group: str) -> frozenset[TopicPartition]:
        """Return the partitions whose position a transaction or a commit sets, and has not ended.

        Who begins where the group is now may process records that the transaction has processed.
        """
        return self._undecided(group) | self.unapplied(group)

    def unapplied(self, group: str) -> frozenset[TopicPartition]:
        """Return the partitions of which a commit is about to set a group's position for certain.

        It is under way, or it is committed and not applied yet.
        """
        found = self._unapplied()
        return frozenset(TopicPartition(topic, one) for name, topic, one in found if name == group)

    def _undecided(self, group: str) -> frozenset[TopicPartition]:
        with self._lock:
            # Before the log: what is appended in between is found there.
            arriving = frozenset(+self._arriving.get(group, Counter()))
        known = self._known_of(group, self._topics())
        return arriving if known is None else arriving | known.undecided(group)

    @contextmanager
    def arriving(self, group: str, keys: Iterable[TopicPartition]) -> Iterator[None]:
        """Let positions of a client count as undecided until they are in the log.

        Its member was checked before: who reads after it must not begin where the group was.
        """
        keys = tuple(keys)
        with self._lock:
            self._arriving.setdefault(group, Counter()).update(keys)
        try:
            yield
        finally:
            with self._lock:
                found = self._arriving[group]
                found.subtract(keys)
                if not any(found.values()):
                    del self._arriving[group]

    def with_known_home(self, transaction: Transaction) -> Transaction:
        """Return a transaction that takes the topic of positions as it is, if it is to create it.

        The first commit of another group has created it since that was planned. One that has
        several partitions is left to be refused: the positions may belong into another one.
        """
        known = self._topics().get(OFFSETS_TOPIC)
        new = tuple(one for one in transaction.new_topics if one.name != OFFSETS_TOPIC)
        if known is None or len(known.partitions) > 1 or len(new) == len(transaction.new_topics):
            return transaction
        return replace(
            transaction,
            new_topics=new,
            topic_ids={**transaction.topic_ids, OFFSETS_TOPIC: known.topic_id},
            partitions={**transaction.partitions, OFFSETS_TOPIC: 1},
        )

    def check(self, steps: Iterable[GroupStep]) -> None:
        """Check that steps may be taken; the caller keeps others from committing.

        Raises:
            IllegalGeneration: a group is no longer where its reader began, or an open transaction
                of a client has set its position.
            NonEmptyGroup: a group has members among the clients of a broker; also a reader, and the
                step is not checked.
        """
        found: dict[str, dict[TopicPartition, Committed]] = {}
        undecided: dict[str, frozenset[TopicPartition]] = {}
        for step in steps:
            group, key = step.group, TopicPartition(step.topic, step.partition)
            self._check_free(group, of_readers=not step.is_checked)
            if not step.is_checked:
                continue
            if group not in found:
                undecided[group] = self._undecided(group)
                found[group] = self.committed(group)
            one = found[group].get(key)
            now = None if one is None else one.at
            # An open transaction has processed the same records, and would be committed as well.
            if now != step.before or key in undecided[group]:
                began = None if step.before is None else step.before.offset
                at = None if now is None else now.offset
                raise IllegalGeneration(group, step.topic, step.partition, began, at)

    def end_members(self, groups: Iterable[str], now_ms: int) -> None:
        """Take back the members of groups that no client has here, though the log says otherwise.

        A broker has ended without them. The next one would take them up again, and they would
        commit what they have read before the positions that are set now. The caller has checked
        that these may be set, and keeps others from committing; errors as of appends.
        """
        for group in sorted(set(groups)):
            known = self._known_of(group, topics := self._topics())
            if known is not None and known.has_members(group):
                number = partition_of_group(group, len(topics[OFFSETS_TOPIC].partitions))
                home = self._partition_of(OFFSETS_TOPIC, number)
                home.append_records([group_removal(group, now_ms)])
                _log.info("members-ended group=%s", group)

    def records_of(self, keys: Iterable[GroupPartition]) -> dict[GroupPartition, int]:
        """Return the log offset of the record of each position, of those that are committed."""
        wanted = sorted(keys)
        known = {group: self.committed(group) for group in {group for group, *_ in wanted}}
        found = {}
        for group, topic, partition in wanted:
            one = known[group].get(TopicPartition(topic, partition))
            if one is not None:
                found[group, topic, partition] = one.record_offset
        return found

    def commit(
        self,
        partition: Partition,
        group: str,
        positions: Mapping[TopicPartition, Position],
        before: Mapping[TopicPartition, CommittedAt | None],
    ) -> dict[TopicPartition, CommittedAt]:
        """Commit positions of a group, durably; return where it is from now on.

        ``partition`` is the one of ``__consumer_offsets`` that holds the group, and ``before`` is
        as for ``steps_of``. Errors as ``check`` and of appends; nothing was committed then.
        """
        records = position_records(group, positions)
        steps = steps_of(group, positions, before)
        with partition.listeners, partition.lock:
            # Within the lock: another commit between the check and the append would be undone.
            self.check(steps)
            self.end_members([group], max(one.commit_time_ms for one in positions.values()))
            info = partition.append_records(records)
        partition.log.flush_records()
        first = info.last_offset + 1 - len(records)
        return {
            key: CommittedAt(positions[key].offset, first + number)
            for number, key in enumerate(sorted(positions))
        }

    def _known_of(self, group: str, topics: Mapping[str, Topic]) -> KnownPositions | None:
        """Return what is known of the partition that holds a group; None: no position is."""
        topic = topics.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        return self._caught_up(partition_of_group(group, len(topic.partitions)), topic)

    def _caught_up(self, number: int, topic: Topic, through: Through = iter) -> KnownPositions:
        """Return what is known of a partition of the topic, after a look at its log."""
        log = self._partition_of(OFFSETS_TOPIC, number).log
        with self._lock:
            known = self._known.get(number)
            if known is None or known.topic_id != topic.topic_id:  # deleted, and created again
                known = self._known[number] = KnownPositions(topic.topic_id)
        known.catch_up(log, through)
        return known

    # Members

    def join(self, member: Member, process: str = _THIS) -> None:
        """Add a reader, unless it has joined; ``process`` says which one it is in.

        Raises GroupInUse if another one of its group reads the same, or clients are in it.
        """
        with self._lock:
            if member.group in self._of_clients:
                raise GroupInUse(member.group, ("members among the clients of this broker",))
            # Of those whose readers were collected without having left.
            for group in [group for group, readers in self._members.items() if not readers]:
                del self._members[group]
            others = self._members.setdefault(member.group, WeakKeyDictionary())
            for other, place in others.items():
                if other is not member and _overlap(member, other):
                    raise GroupInUse(member.group, (f"a reader of the same partitions in {place}",))
            others[member] = process

    def leave(self, member: Member) -> None:
        """Remove a reader; nothing if it has left."""
        with self._lock:
            readers = self._members.get(member.group)
            if readers is not None:
                readers.pop(member, None)
                if not readers:  # groups come and go
                    del self._members[member.group]

    def has_reader(self, group: str) -> bool:
        """Whether a reader of this program, or of one that has joined it, has the group."""
        with self._lock:
            return bool(self._members.get(group))

    def with_readers(self) -> set[str]:
        """Return the groups that readers have."""
        with self._lock:
            return {group for group, readers in self._members.items() if readers}

    def readers_of(self, group: str) -> list[tuple[str, dict[str, list[int]]]]:
        """Return of each reader that has the group its process, and its partitions by topic."""
        with self._lock:
            readers = list(self._members.get(group, {}).items())
        topics = self._topics()
        return [
            (process, {name: _read_of(one, topics[name]) for name in one.topics if name in topics})
            for one, process in readers
        ]

    def enter_clients(self, group: str, clients: Callable[[], tuple[str, ...]]) -> None:
        """Leave a group to clients, until ``leave_clients``; ``clients`` names them, on any thread.

        Raises NonEmptyGroup if a reader has it.
        """
        with self._lock:
            readers = self._members.get(group)
            if readers:
                raise NonEmptyGroup(group, _readers_in(readers.values()))
            self._of_clients[group] = clients

    def leave_clients(self, group: str) -> None:
        """Let readers have a group that no client is a member of any more."""
        with self._lock:
            self._of_clients.pop(group, None)

    def _check_free(self, group: str, *, of_readers: bool) -> None:
        """Raise NonEmptyGroup if clients have a group, or a reader, where that counts.

        A reader may have lost its group to clients, as by a restart of the broker. Its positions
        are current until they commit, and their commits are not fenced by positions.
        """
        with self._lock:
            readers = _readers_in(self._members.get(group, {}).values()) if of_readers else ()
            clients = self._of_clients.get(group)
        if readers or clients is not None:
            raise NonEmptyGroup(group, readers if clients is None else ("members", *clients()))


def _readers_in(processes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({f"a reader in {one}" for one in processes}))


def _found_positions(
    positions: Mapping[TopicPartition, Committed], topics: Mapping[str, Topic]
) -> FoundPositions:
    """Separate positions in topics that are there from those in topics deleted since the commit."""
    found = FoundPositions({}, {})
    for key, one in positions.items():
        is_live = is_of_live_topic(key, one.position, topics)
        (found.live if is_live else found.of_others)[key] = one
    return found


def is_of_live_topic(key: TopicPartition, position: Position, topics: Mapping[str, Topic]) -> bool:
    """Return whether the topic is still the one in which the position was committed."""
    topic = topics.get(key.topic)
    return topic is not None and position.topic_id in {None, topic.topic_id}


def _read_of(one: Member, topic: Topic) -> list[int]:
    return sorted(topic.partitions if one.partitions is None else one.partitions)


def _overlap(one: Member, other: Member) -> bool:
    """Return whether both read a partition."""
    if not set(one.topics) & set(other.topics):
        return False
    if one.partitions is None or other.partitions is None:
        return True
    return bool(one.partitions & other.partitions)
