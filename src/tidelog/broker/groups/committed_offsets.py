"""The positions of groups: OffsetCommit, OffsetFetch and OffsetDelete.

Kafka: ``OffsetMetadataManager``.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.broker.client_request import Later, Refusal
from tidelog.broker.groups.classic_group import GroupState
from tidelog.broker.groups.group_member import NO_MEMBER
from tidelog.broker.groups.joined_readers import write_positions
from tidelog.broker.shards import code_for_client
from tidelog.config.log_config import MINUTE_MS
from tidelog.config.serve_config import FlushPolicy
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError, NonEmptyGroup, StartAborted
from tidelog.manager.group_home import home_of_group
from tidelog.readonly.group_positions import (
    CONSUMERS,
    Position,
    position_records,
    removal_records,
    subscribed_topics,
)
from tidelog.records.batch import INT64_MAX
from tidelog.segment.filenames import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.data.appends import Appends
    from tidelog.broker.data.flushes import Flushes
    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.config.serve_config import ServeConfig
    from tidelog.log.append_info import AppendInfo
    from tidelog.manager.consumer_groups import Groups
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition

    Taken = AppendInfo | asyncio.Task[AppendInfo] | None

_log = logging.getLogger(__name__)

_NO_GROUP_VERSION: Final = 9
"""From which version on OffsetCommit may be answered with GROUP_ID_NOT_FOUND."""
_GROUPS_VERSION: Final = 8
"""Of OffsetFetch: one request asks for several groups."""
_TOP_ERROR_VERSION: Final = 2
_NO_OFFSET: Final = -1
_NO_RETENTION: Final = -1
"""Of OffsetCommit: the client leaves to the broker how long it keeps positions."""
_MANY_UNREAD: Final = 1000
"""Records of positions in a partition, which a look reads in some hundredths of a second."""

_NEVER_MS: Final = -math.inf
"""Before all commits."""
_EXPIRED_AT_ONCE: Final = 50
"""Groups, each of which may take a millisecond of the event loop."""


class CommittedOffsets:
    """Commits and returns positions. Only the event loop uses it."""

    def __init__(
        self,
        manager: LogManager,
        groups: Groups,
        coordinator: GroupCoordinator,
        config: ServeConfig,
        *,
        appends: Appends,
        flushes: Flushes,
    ) -> None:
        self._manager = manager
        self._groups = groups
        self._coordinator = coordinator
        self._appends = appends
        self._flushes = flushes
        self._config = config
        self._reading: dict[int, asyncio.Task[None]] = {}
        """What reads ahead, by the partition."""

    # OffsetCommit

    def commit(self, request: Request) -> Answer:
        """OffsetCommit; the answer waits until the positions are durable."""
        values, group = request.values, request.values["groupId"]
        positions, answer = self.accepted(
            values["topics"], values.get("retentionTimeMs", _NO_RETENTION)
        )
        if not any_known(answer):
            return answer
        try:
            self._coordinator.shards.check(group)
            self.check_member(request)
            if not positions:
                return answer
            home = home_of_group(self._manager, group)
            records = position_records(group, positions)
            info = self._appends.call(home, partial(home.append_records, records))
        except KafkaError as error:
            return positions_refused(answer, error)
        if isinstance(info, asyncio.Task):
            # Else they would expire with those that they replace, if these are old.
            arriving = ExitStack()
            arriving.enter_context(self._groups.arriving(group, positions))
            info.add_done_callback(lambda _: arriving.close())
            # Before it is appended, later requests of the connection wait, too.
            return self._kept(group, info, answer)
        self._groups.note(home, group, positions, info.last_offset + 1)
        self.read_ahead(home)
        if self._flushes.policy is FlushPolicy.NONE:
            return answer
        later = Later()

        def ended(error: BaseException | None) -> None:
            if isinstance(error, KafkaError):
                later.give(positions_refused(answer, error))
            elif error is not None:
                later.fail(error)
            else:
                later.give(answer)

        self._flushes.begin(home, ended)
        return later

    def read_ahead(self, home: Partition) -> None:
        """Have a thread read what was committed, before it is so much that a look takes long.

        Who asks for positions looks on the event loop, where all others would wait.
        """
        number = home.partition
        if number not in self._reading and self._groups.unread(home) >= _MANY_UNREAD:
            task = asyncio.get_running_loop().create_task(self._read(number))
            self._reading[number] = task
            task.add_done_callback(lambda _: self._reading.pop(number))

    async def _read(self, number: int) -> None:
        # The next look raises the same error; StartAborted: the broker was closed.
        with suppress(KafkaError, StartAborted):
            through = self._coordinator.shards.while_open
            await in_thread(partial(self._groups.read, number, through))

    async def _kept(self, group: str, taken: Taken, answer: dict[str, Any]) -> dict[str, Any]:
        try:
            await self.durable(group, taken)
        except KafkaError as error:
            return positions_refused(answer, error)
        return answer

    def check_no_reader(self, group: str) -> None:
        """Refuse positions of clients for a group that a reader has."""
        if self._groups.has_reader(group):
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "a reader of the broker's program has it")

    def check_member(self, request: Request) -> None:
        """Refuse positions of a group that another reader or generation has.

        In a transaction they are taken from a member that waits for its assignment, too, whose
        client could not repeat them, and from older clients, which do not say who they are.

        Source: Kafka OffsetMetadataManager.validateOffsetCommit, ClassicGroup.validateOffsetCommit.
        """
        values, in_transaction = request.values, request.api.name == "TxnOffsetCommit"
        group_id, generation = values["groupId"], values["generationId"]
        group = self._coordinator.groups.get(group_id)
        self.check_no_reader(group_id)
        if generation < 0 and (group is None or group.state is GroupState.EMPTY):
            return
        if group is None:
            # One that only has positions is a group without members.
            if self._groups.committed(group_id):
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
            is_new = not in_transaction and request.version >= _NO_GROUP_VERSION
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)
        is_named = values["memberId"] != NO_MEMBER or values["groupInstanceId"] is not None
        if generation < 0 and not is_named:
            if in_transaction:
                return
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.checked_member(values["memberId"], values["groupInstanceId"], generation)
        if group.state is GroupState.COMPLETING and not in_transaction:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        group.alive(member)

    def accepted(
        self, topics: Iterable[dict[str, Any]], retention_ms: int = _NO_RETENTION
    ) -> tuple[dict[TopicPartition, Position], dict[str, Any]]:
        """Return the positions that can be committed, and the answer about all of them.

        ``retention_ms`` is how long older clients may want positions to be kept.
        """
        now_ms = self._manager.machine.clock.now_ms()
        is_default = retention_ms == _NO_RETENTION
        expire_time_ms = None if is_default else min(now_ms + retention_ms, INT64_MAX)
        known = self._manager.topics()
        positions: dict[TopicPartition, Position] = {}
        answers = []
        for topic in topics:
            name, found = topic["name"], known.get(topic["name"])
            partitions = []
            for one in topic["partitions"]:
                number, code = one["partitionIndex"], ErrorCode.NONE
                metadata = one["committedMetadata"] or ""
                utf_16_units = len(metadata.encode("utf-16-be")) // 2  # as Java counts
                if found is None or number not in found.partitions:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif utf_16_units > self._config.offset_metadata_max_bytes:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    positions[TopicPartition(name, number)] = Position(
                        *(one["committedOffset"], one["committedLeaderEpoch"], metadata, now_ms),
                        *(found.topic_id, expire_time_ms),
                    )
                partitions.append({"partitionIndex": number, "errorCode": int(code)})
            answers.append({"name": name, "partitions": partitions})
        return positions, {"topics": answers}

    # OffsetFetch

    def fetch(self, request: Request) -> Answer:
        """OffsetFetch."""
        values = request.values
        how = {"stable": values["requireStable"], "of_reader": request.peer.held is not None}
        if request.version >= _GROUPS_VERSION:
            return {"groups": [self._fetch(one, **how) for one in values["groups"]]}
        answer = self._fetch(values, **how)
        if request.version < _TOP_ERROR_VERSION and answer.get("errorCode"):
            code = ErrorCode(answer["errorCode"])
            return {"topics": _unknown(values["topics"] or [], code)}
        return answer

    def _fetch(self, wanted: dict[str, Any], *, stable: bool, of_reader: bool) -> dict[str, Any]:
        group = wanted["groupId"]
        try:
            self._coordinator.shards.check(group)
            # Before the positions: of a transaction that ends in between, on another thread, they
            # would be those before it, and none would be undecided.
            unstable = self._groups.undecided(group) if stable else frozenset()
            if not stable and self._groups.unapplied(group):
                # A word that every client knows: the positions of now are those before the commit.
                raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            known = self._groups.found(group)
        except KafkaError as error:
            return {"groupId": group, "errorCode": int(code_for_client(error)), "topics": []}
        found = {key: one.position for key, one in known.live.items()}
        topics = wanted["topics"]
        if topics is None:
            keys = numbers_by_topic(sorted(found.keys() | unstable))
            topics = [{"name": name, "partitionIndexes": some} for name, some in keys.items()]
        return {
            "groupId": group,
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        _position(key, found.get(key), is_stable=key not in unstable)
                        for number in topic["partitionIndexes"]
                        for key in (TopicPartition(topic["name"], number),)
                    ],
                }
                for topic in topics
            ],
            "positions": write_positions(known) if of_reader else None,
        }

    # OffsetDelete

    def delete(self, request: Request) -> Answer:
        """OffsetDelete; a topic that a member reads keeps its positions."""
        values = request.values
        group_id = values["groupId"]
        if not group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID)
        self._coordinator.shards.check(group_id)
        # Also what open transactions set: else their commit would bring a position back.
        known = self._groups.committed(group_id).keys() | self._groups.undecided(group_id)
        group = self._coordinator.groups.get(group_id)
        if not known and group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        # Which topics other members read, such as workers of Connect, nobody but they knows.
        if group is not None and group.members and group.protocol_type != CONSUMERS:
            raise NonEmptyGroup(group_id)
        read, topics = self._read_topics(group_id), self._manager.topics()
        answer, keys = [], []
        for topic in values["topics"]:
            name, there = topic["name"], topics.get(topic["name"])
            codes = {}
            for number in (one["partitionIndex"] for one in topic["partitions"]):
                key, codes[number] = TopicPartition(name, number), ErrorCode.NONE
                # A position that a deleted topic has left can be deleted, too.
                if key not in known and (there is None or number not in there.partitions):
                    codes[number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif read is None or name in read:
                    codes[number] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif key in known:
                    keys.append(key)
            partitions = [{"partitionIndex": n, "errorCode": int(c)} for n, c in codes.items()]
            answer.append({"name": name, "partitions": partitions})
        return self._deleted(group_id, self.take_back(group_id, keys), answer)

    def _read_topics(self, group_id: str) -> set[str] | None:
        """Return the topics that members and readers of a group read; None: it may be any.

        Members say it in the words of their protocol. Source: Kafka
        ClassicGroup.computeSubscribedTopics.
        """
        found = {name for _, topics in self._groups.readers_of(group_id) for name in topics}
        group = self._coordinator.groups.get(group_id)
        if group is None:
            return found
        for member in group.members.values():
            sent = member.metadata_for(group.protocol)
            topics = subscribed_topics(group.protocol_type, sent)
            if topics is None:
                return None
            found |= topics
        return found

    async def _deleted(
        self, group: str, taken: Taken, answer: list[dict[str, Any]]
    ) -> dict[str, Any]:
        try:
            await self.durable(group, taken)
        except KafkaError as error:
            return {"errorCode": int(code_for_client(error))}
        return {"topics": answer}

    async def durable(self, group: str, taken: Taken) -> None:
        """Wait until a group's positions, or what takes them or the group back, are durable.

        Else a power cut would bring back what a client takes for gone.
        """
        info = await taken if isinstance(taken, asyncio.Task) else taken
        if info is not None:
            await self._flushes.wait_if_wanted(home_of_group(self._manager, group))

    # Expiry

    def expire(self) -> Iterator[None]:
        """Delete the positions that are older than is kept, of groups that nobody reads for.

        It comes back after some of the groups, between which others get their turn: there may be a
        hundred thousand.
        A position is as old as its commit, and as the time when its group has had no member, unless
        its client has said when it expires. Those that an open transaction sets again stay. A group
        without members and positions is nobody's any more, such as those of console consumers.
        Source: Kafka OffsetExpirationConditionImpl, GroupCoordinatorShard.cleanupGroupMetadata.
        """
        minutes, emptied = self._config.offsets_retention_minutes, self._coordinator.emptied_ms
        if minutes < 0 and not emptied:
            return
        now_ms = self._manager.machine.clock.now_ms()
        # Also where a broker before 2.1 wrote an expiry into each record: no setting asks for it.
        ages = _KEPT if minutes < 0 else _Ages(now_ms, now_ms - minutes * MINUTE_MS)
        known = self._coordinator.positions()
        fresh = {group for group, positions in known.items() if not ages.old(positions)}
        names = sorted((known.keys() | emptied.keys()) - fresh)
        failed: set[Partition] = set()
        for start in range(0, len(names), _EXPIRED_AT_ONCE):
            if start:
                yield
            self._expire_some(names[start : start + _EXPIRED_AT_ONCE], ages, failed)

    def _expire_some(self, names: Iterable[str], ages: _Ages, failed: set[Partition]) -> None:
        undecided: dict[str, frozenset[TopicPartition]] = {}
        for group_id in names:
            if not self._is_read(group_id):
                with suppress(Refusal):  # it cannot be used at present: see ``Shards``
                    self._coordinator.shards.check(group_id)
                    undecided[group_id] = self._groups.undecided(group_id)
        # After what is undecided: of a transaction that ends in between, on another thread, the
        # positions before it would expire, and those that it has set would be deleted.
        known = {group_id: self._groups.found(group_id) for group_id in undecided}
        for group_id, kept in undecided.items():
            parts = known[group_id]
            positions = {key: one.position for part in parts for key, one in part.items()}
            was_left_ms = self._coordinator.emptied_ms.get(group_id, _NEVER_MS)
            home = home_of_group(self._manager, group_id)
            if home in failed:
                continue  # as others before it: each would be logged
            try:
                self._expire(group_id, positions, kept, ages.of_group(was_left_ms))
            except KafkaError as error:  # such as a full disk: other groups may have another
                _log.warning("positions-not-expired topic=%s reason=%s", home, error)
                failed.add(home)

    def _expire(
        self,
        group_id: str,
        positions: Mapping[TopicPartition, Position],
        kept: Collection[TopicPartition],
        ages: _Ages,
    ) -> None:
        old = ages.old(positions).difference(kept)
        if old:
            _note_failure(group_id, self.take_back(group_id, old))
            _log.info("positions-expired group=%s partitions=%d", group_id, len(old))
        if len(old) == len(positions) and not kept:
            _note_failure(group_id, self._coordinator.delete(group_id))

    def _is_read(self, group_id: str) -> bool:
        group = self._coordinator.groups.get(group_id)
        has_members = group is not None and (group.members or group.pending)
        return bool(has_members) or self._groups.has_reader(group_id)

    def take_back(self, group: str, keys: Iterable[TopicPartition]) -> Taken:
        """Delete positions of a group; the result is as of ``Appends.call``, None: there are none.

        Positions that are committed later stay, also if this has to wait.
        """
        now_ms = self._manager.machine.clock.now_ms()
        records = removal_records(group, keys, now_ms)
        if not records:
            return None
        home = home_of_group(self._manager, group)
        return self._appends.call(home, partial(home.append_records, records))


class _Ages(NamedTuple):
    """When it is, and when the positions that expire now were committed, or a later one before."""

    now_ms: float
    oldest_ms: float

    def of_group(self, emptied_ms: float) -> _Ages:
        """Return the ages for a group that has had no member since a time."""
        return self if emptied_ms <= self.oldest_ms else self._replace(oldest_ms=_NEVER_MS)

    def old(self, positions: Mapping[TopicPartition, Position]) -> set[TopicPartition]:
        """Return the partitions whose positions expire now."""
        return {key for key, one in positions.items() if self._is_old(one)}

    def _is_old(self, one: Position) -> bool:
        if one.expire_time_ms is not None:
            return one.expire_time_ms <= self.now_ms
        return one.commit_time_ms <= self.oldest_ms


_KEPT: Final = _Ages(_NEVER_MS, _NEVER_MS)
"""Nothing expires."""


def _note_failure(group: str, found: object) -> None:
    """Log the failure of an append that nobody waits for."""

    def log_failure(done: asyncio.Task[AppendInfo]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            _log.warning("positions-not-expired group=%s reason=%s", group, error)

    if isinstance(found, asyncio.Task):
        found.add_done_callback(log_failure)


def _unknown(topics: Iterable[dict[str, Any]], code: ErrorCode) -> list[dict[str, Any]]:
    return [
        {
            "name": topic["name"],
            "partitions": [_no_position(number, code) for number in topic["partitionIndexes"]],
        }
        for topic in topics
    ]


def _no_position(number: int, code: ErrorCode) -> dict[str, Any]:
    return {
        "partitionIndex": number,
        "committedOffset": _NO_OFFSET,
        "metadata": "",
        "errorCode": int(code),
    }


def _position(key: TopicPartition, found: Position | None, *, is_stable: bool) -> dict[str, Any]:
    if not is_stable:
        return _no_position(key.partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if found is None:
        return _no_position(key.partition, ErrorCode.NONE)
    return {
        "partitionIndex": key.partition,
        "committedOffset": found.offset,
        "committedLeaderEpoch": found.leader_epoch,
        "metadata": found.metadata,
    }


def any_known(answer: dict[str, Any]) -> bool:
    """Whether a commit names a partition that there is: else its group is not looked at."""
    return any(
        one["errorCode"] != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for topic in answer["topics"]
        for one in topic["partitions"]
    )


def positions_refused(answer: dict[str, Any], error: KafkaError) -> dict[str, Any]:
    """Return the answer to a commit of which no position was taken, from that of ``accepted``.

    Partitions that there are not are called that.
    """
    code = int(code_for_client(error))
    for topic in answer["topics"]:
        for one in topic["partitions"]:
            if one["errorCode"] != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                one["errorCode"] = code
    return answer
