"""The groups of clients, and their members' requests. Kafka: ``GroupCoordinatorService``."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tidelog.broker.client_request import Refusal
from tidelog.broker.groups.classic_group import ClassicGroup, GroupState
from tidelog.broker.groups.group_member import NO_MEMBER, GroupMember, Protocol
from tidelog.broker.groups.group_records import group_record, restore_group
from tidelog.broker.groups.joined_readers import READER_PROTOCOL, enter_reader
from tidelog.broker.seldom_lines import SeldomLines
from tidelog.broker.shards import Shards
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError, NonEmptyGroup
from tidelog.manager.group_home import home_of_group
from tidelog.readonly.group_positions import OFFSETS_TOPIC, read_group, removal_records
from tidelog.records.known_records import known_records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.data.appends import Appends
    from tidelog.broker.groups.classic_group import Timers
    from tidelog.config.serve_config import ServeConfig
    from tidelog.log.append_info import AppendInfo
    from tidelog.manager.consumer_groups import Groups
    from tidelog.manager.log_manager import LogManager
    from tidelog.readonly.group_positions import Position
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)

_ID_REQUIRED_VERSION: Final = 4
"""Of JoinGroup: a new member gets its id before it joins."""
_SKIP_VERSION: Final = 9
_PROTOCOL_VERSION: Final = 5
"""Of SyncGroup: its sender says by which protocol it was assigned to."""
_MANY_LEAVE_VERSION: Final = 3
_OLD_REBALANCE_TIMEOUT: Final = -1


class GroupCoordinator:
    """All groups with members. Only the event loop uses it.

    Which positions a group has, and whether a reader of this program holds it, ``groups`` knows.
    """

    def __init__(
        self,
        manager: LogManager,
        groups: Groups,
        appends: Appends,
        timers: Timers,
        config: ServeConfig,
    ) -> None:
        self._manager = manager
        self._positions = groups
        self._appends = appends
        self._timers = timers
        self._config = config
        self._lines: Final = SeldomLines(manager.machine.clock)
        self.groups: dict[str, ClassicGroup] = {}
        self.emptied_ms: dict[str, int] = {}
        """When groups that clients have left had their last member."""
        self.shards: Final = Shards(manager, OFFSETS_TOPIC, timers, self._take_up)

    # Life

    async def load(self) -> None:
        """Take up groups. Until all were read, no member can say that it is alive."""
        await self.shards.load()
        for group in self.groups.values():
            group.begin_sessions()

    async def _take_up(self, number: int) -> None:
        # What was committed is read here, too: on the event loop the first who asks would hold up
        # all others for as long as that takes.
        await in_thread(partial(self._positions.read, number, self.shards.while_open))
        for group_id, values in (await in_thread(partial(self._stored, number))).items():
            if values["members"] and self._positions.has_reader(group_id):
                continue
            # Also a group without members: its generations continue.
            group = self._new_group(group_id)
            restore_group(group, values)
            if self.shards.loaded.is_set():  # it could not be read before
                group.begin_sessions()
            if values["members"]:
                self._positions.enter_clients(group_id, partial(self._clients_of, group_id))
            else:
                self.emptied_ms[group_id] = values.get("currentStateTimestamp", 0)

    def _stored(self, number: int) -> dict[str, dict[str, Any]]:
        """Return the groups that were written down in a partition, on any thread."""
        found: dict[str, dict[str, Any]] = {}
        log = self._manager.partition(OFFSETS_TOPIC, number).log
        records = log.settled_records(log.local_log_start_offset)
        open_records = self.shards.while_open(records)
        with log.watch("reading groups"):
            for _, stored in known_records(open_records, read_group, log.directory):
                found.pop(stored.group, None)
                if stored.values is not None:
                    found[stored.group] = stored.values
        return found

    def close(self) -> None:
        """End all groups; their members find the next coordinator, or this one again."""
        self.shards.close()
        for group in self.groups.values():
            group.end()
            self._positions.leave_clients(group.group_id)
        self.groups.clear()

    def positions(self) -> dict[str, dict[TopicPartition, Position]]:
        """Return the positions of the groups that can be used, by group; none before ``load``.

        Partitions that a thread is still reading, or that cannot be read, are left out: the event
        loop would wait until they have been read.
        """
        if not self.shards.loaded.is_set():
            return {}
        unread = {key.partition for key in self.shards.unread}
        found = self._positions.positions(where_readable=True, without=unread)
        self._drop_deleted(unread)
        return found

    def _drop_deleted(self, unread: Collection[int]) -> None:
        """Forget the empty groups that were not deleted here, as by ``tidelog groups delete``."""
        for group_id in self._positions.unwritten(self.emptied_ms, unread):
            group = self.groups.get(group_id)
            if group is not None and not group.members and not group.pending:
                self._forget(group)

    def _clients_of(self, group_id: str) -> tuple[str, ...]:
        """Return the members of a group as an operator knows them, on any thread."""
        group = self.groups.get(group_id)
        members = () if group is None else tuple(group.members.values())
        return tuple(f"client.id {one.client_id!r} at {one.client_host}" for one in members)

    def _new_group(self, group_id: str) -> ClassicGroup:
        delay_ms = self._config.group_initial_rebalance_delay_ms
        group = ClassicGroup(group_id, self._timers, delay_ms, self._write)
        self.groups[group_id] = group
        return group

    def _write(self, group: ClassicGroup) -> asyncio.Task[AppendInfo] | None:
        now_ms = self._manager.machine.clock.now_ms()
        records = [group_record(group, now_ms)]
        is_empty = group.state is GroupState.EMPTY
        # Not flushed: members of a group that is lost join again, under ids that nobody has had,
        # so that no member of before passes for one of theirs. Positions are flushed by themselves.
        try:
            home = home_of_group(self._manager, group.group_id)
            found = self._appends.call(home, partial(home.append_records, records))
        except KafkaError:
            self._left(group, now_ms, is_empty=is_empty)
            raise
        if not isinstance(found, asyncio.Task):
            self._left(group, now_ms, is_empty=is_empty)
            return None
        found.add_done_callback(lambda _: self._left(group, now_ms, is_empty=is_empty))
        return found

    def _left(self, group: ClassicGroup, now_ms: int, *, is_empty: bool) -> None:
        """Note whether a group has members, also where that could not be written down.

        A start that reads of members who are gone waits until their sessions are over.
        """
        # If the append has waited, clients may have come back since, or the last one has left.
        if group.state is not GroupState.EMPTY:
            self.emptied_ms.pop(group.group_id, None)
        elif is_empty:
            self.emptied_ms[group.group_id] = now_ms
            self._positions.leave_clients(group.group_id)

    def _leave_if_unused(self, group_id: str) -> None:
        """Let readers of this program have a group that no client has joined after all."""
        group = self.groups.get(group_id)
        if group is None or group.members or group.pending:
            return
        self._positions.leave_clients(group_id)
        if not group.generation:  # nobody has ever been in it
            self._forget(group)

    def delete(
        self, group_id: str, positions: Iterable[TopicPartition] = ()
    ) -> AppendInfo | asyncio.Task[AppendInfo]:
        """Take back what was written of an empty group, and forget it; other positions stay.

        The result is as of ``Appends.call``.
        """
        group = self.groups.get(group_id)
        if group is not None and group.members:
            raise NonEmptyGroup(group_id)
        now_ms = self._manager.machine.clock.now_ms()
        home = home_of_group(self._manager, group_id)
        # Together: a crash between the two would leave a part of the group.
        records = removal_records(group_id, positions, now_ms, is_whole=True)
        found = self._appends.call(home, partial(home.append_records, records))
        # Not before: what could not be taken back would be here again after the next start.
        if group is None:
            return found
        if isinstance(found, asyncio.Task):
            found.add_done_callback(partial(self._taken_back, group, group.generation))
        else:
            self._forget(group)
        return found

    def _taken_back(
        self, group: ClassicGroup, generation: int, done: asyncio.Task[AppendInfo]
    ) -> None:
        """Forget a group whose removal has waited, unless that failed or clients have come."""
        has_failed = done.cancelled() or done.exception() is not None
        is_same = self.groups.get(group.group_id) is group and group.generation == generation
        if is_same and not (has_failed or group.members):
            self._forget(group)

    def _forget(self, group: ClassicGroup) -> None:
        group.end()
        self._positions.leave_clients(group.group_id)  # which may have been given ids
        del self.groups[group.group_id]
        self.emptied_ms.pop(group.group_id, None)

    # Requests of members

    def join(self, request: Request) -> Answer:
        """JoinGroup."""
        values, held = request.values, request.peer.held
        try:
            self._check_group(values["groupId"])
            if held is not None and values["protocolType"] == READER_PROTOCOL:
                # A reader sends one protocol: what several send together is refused as malformed.
                given = b"".join(one["metadata"] for one in values["protocols"])
                enter_reader(self._positions, values["groupId"], given, held)
                return {"memberId": NO_MEMBER}
            self._check_session(values["sessionTimeoutMs"])
            answer = self._join(request)
        except Refusal as error:
            self._leave_if_unused(values["groupId"])
            return {"errorCode": int(error.code), "memberId": values["memberId"]}
        return answer if isinstance(answer, dict) else _answered(answer)

    def _join(self, request: Request) -> dict[str, Any] | asyncio.Future[dict[str, Any]]:
        values = request.values
        group = self._joined_group(values)
        protocols = tuple(Protocol(**one) for one in values["protocols"])
        member_id, instance_id = values["memberId"], values["groupInstanceId"]
        if not group.supports(values["protocolType"], protocols):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if member_id == NO_MEMBER:
            return self._join_new(request, group, protocols)
        if instance_id is None and group.take_id(member_id):
            return self._add(request, group, member_id, protocols)
        member = group.checked_member(member_id, instance_id)
        return group.rejoin(member, protocols, self._timeouts(values))

    def _joined_group(self, values: dict[str, Any]) -> ClassicGroup:
        group_id = values["groupId"]
        group = self.groups.get(group_id)
        if group is None and values["memberId"] != NO_MEMBER:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        if not (group and group.members):
            try:
                self._positions.enter_clients(group_id, partial(self._clients_of, group_id))
            except NonEmptyGroup as error:
                # The client asks again, many times a minute, until the reader has left.
                reason = f"clients wait until it is closed: {', '.join(error.holders)}"
                if self._lines.is_due(group_id, reason):
                    _log.info("join-put-off group=%s reason=%s", group_id, reason)
                raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason) from None
        if group is None:
            group = self._new_group(group_id)
        size = len(group.members) + len(group.pending)
        is_new = values["memberId"] == NO_MEMBER
        # A restarted instance takes the place that it has.
        is_new = is_new and group.static_member(values["groupInstanceId"]) is None
        if is_new and size >= self._config.group_max_size:
            raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)
        return group

    def _join_new(
        self, request: Request, group: ClassicGroup, protocols: tuple[Protocol, ...]
    ) -> dict[str, Any] | asyncio.Future[dict[str, Any]]:
        values = request.values
        instance_id = values["groupInstanceId"]
        old = group.static_member(instance_id)
        name = instance_id if instance_id is not None else request.client_id
        member_id = f"{name}-{UUID(int=self._manager.machine.rng.getrandbits(128), version=4)}"
        if old is not None:
            new = self._member(request, member_id, protocols)
            return group.replace_static(old, new, can_skip=request.version >= _SKIP_VERSION)
        if instance_id is None and request.version >= _ID_REQUIRED_VERSION:
            group.give_out_id(
                member_id,
                values["sessionTimeoutMs"],
                partial(self._leave_if_unused, group.group_id),
            )
            return {"errorCode": int(ErrorCode.MEMBER_ID_REQUIRED), "memberId": member_id}
        return self._add(request, group, member_id, protocols)

    def _add(
        self,
        request: Request,
        group: ClassicGroup,
        member_id: str,
        protocols: tuple[Protocol, ...],
    ) -> asyncio.Future[dict[str, Any]]:
        member = self._member(request, member_id, protocols)
        return group.add(member, request.values["protocolType"])

    def _member(
        self, request: Request, member_id: str, protocols: tuple[Protocol, ...]
    ) -> GroupMember:
        values = request.values
        session_ms, rebalance_ms = self._timeouts(values)
        return GroupMember(
            *(member_id, values["groupInstanceId"], request.client_id, f"/{request.peer.host}"),
            session_ms,
            rebalance_ms,
            protocols,
        )

    @staticmethod
    def _timeouts(values: dict[str, Any]) -> tuple[int, int]:
        session_ms, rebalance_ms = values["sessionTimeoutMs"], values["rebalanceTimeoutMs"]
        return session_ms, session_ms if rebalance_ms == _OLD_REBALANCE_TIMEOUT else rebalance_ms

    def _check_group(self, group_id: str) -> None:
        if not group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "the name of a group is empty")
        self.shards.check(group_id)

    def _check_session(self, timeout_ms: int) -> None:
        low, high = (
            self._config.group_min_session_timeout_ms,
            self._config.group_max_session_timeout_ms,
        )
        if not low <= timeout_ms <= high:
            raise Refusal(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"a session timeout of {timeout_ms} ms is not one of {low} to {high}",
            )

    def known_group(self, group_id: str) -> ClassicGroup:
        """Return a group that has, or had, members; refuse those of another."""
        self._check_group(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def sync(self, request: Request) -> Answer:
        """SyncGroup."""
        values = request.values
        if request.version >= _PROTOCOL_VERSION and None in (
            values["protocolType"],
            values["protocolName"],
        ):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the protocol is not named")
        group = self.known_group(values["groupId"])
        member = group.checked_member(
            values["memberId"], values["groupInstanceId"], values["generationId"]
        )
        for given, here in (
            (values["protocolType"], group.protocol_type),
            (values["protocolName"], group.protocol),
        ):
            if given is not None and given != here:
                raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assignments = {one["memberId"]: one["assignment"] for one in values["assignments"]}
        answer = group.sync(member, assignments)
        return answer if isinstance(answer, dict) else _answered(answer)

    def heartbeat(self, request: Request) -> Answer:
        """Heartbeat."""
        values = request.values
        group = self.known_group(values["groupId"])
        member = group.checked_member(
            values["memberId"], values["groupInstanceId"], values["generationId"]
        )
        group.alive(member)
        if group.state is GroupState.PREPARING:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        return {}

    def leave(self, request: Request) -> Answer:
        """LeaveGroup."""
        values = request.values
        if request.version < _MANY_LEAVE_VERSION:
            leaving = [{"memberId": values["memberId"], "groupInstanceId": None}]
        else:
            leaving = values["members"]
        self._check_group(values["groupId"])
        if request.peer.held and values["groupId"] in request.peer.held:
            request.peer.held.pop(values["groupId"])()
            return {}
        group = self.groups.get(values["groupId"])
        gone: list[GroupMember] = []
        answers = [
            {
                "memberId": one["memberId"],
                "groupInstanceId": one["groupInstanceId"],
                "errorCode": int(self._leave(group, one, gone)),
            }
            for one in leaving
        ]
        if group is not None and gone:
            group.remove(*gone)
        if request.version < _MANY_LEAVE_VERSION:
            return {"errorCode": answers[0]["errorCode"]}
        return {"members": answers}

    def _leave(
        self, group: ClassicGroup | None, leaving: dict[str, Any], gone: list[GroupMember]
    ) -> ErrorCode:
        """Add the member that leaves to ``gone``."""
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = leaving["memberId"], leaving["groupInstanceId"]
        if instance_id is None and group.give_up_id(member_id):
            self._leave_if_unused(group.group_id)
            return ErrorCode.NONE
        found = group.static_member(instance_id)
        try:
            if found is not None and member_id == NO_MEMBER:  # an operator removes the instance
                member = found
            else:
                member = group.checked_member(member_id, instance_id)
        except KafkaError as error:
            return error.code
        if member in gone:
            return ErrorCode.UNKNOWN_MEMBER_ID
        gone.append(member)
        return ErrorCode.NONE


async def _answered(future: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
    # A connection that closes leaves the member as it is: its session decides.
    return await asyncio.shield(future)
