"""What tools ask of groups: ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.allowed_operations import OF_GROUP
from tidelog.broker.client_request import Refusal, refused
from tidelog.broker.groups.classic_group import GroupState
from tidelog.broker.shards import code_for_client
from tidelog.codec.messages.message_table import messages_of
from tidelog.codec.messages.message_writer import with_version, write_message
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError, NonEmptyGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.groups.classic_group import ClassicGroup
    from tidelog.broker.groups.committed_offsets import CommittedOffsets, Taken
    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.manager.consumer_groups import Groups
    from tidelog.segment.filenames import TopicPartition

_CLASSIC: Final = "classic"
_NOT_FOUND_VERSION: Final = 6
"""Of DescribeGroups: before, a group that there is not is a dead one. Source: KIP-1043."""
_ASSIGNMENT: Final = 1


class GroupAdmin:
    """Answers tools. A group is what has members, a reader in Python, or positions."""

    def __init__(
        self, coordinator: GroupCoordinator, groups: Groups, offsets: CommittedOffsets
    ) -> None:
        self._coordinator = coordinator
        self._groups = groups
        self._offsets = offsets

    def list_groups(self, request: Request) -> Answer:
        """ListGroups; without those whose coordinator cannot be used, as Kafka."""
        self._coordinator.shards.check_loaded()
        states = {state.lower() for state in request.values["statesFilter"]}
        types = {kind.lower() for kind in request.values["typesFilter"]}
        if types and _CLASSIC not in types:
            return {"groups": []}
        known = self._coordinator.groups
        found = []
        read = self._groups.with_readers()
        for group_id in sorted(known.keys() | self._coordinator.positions().keys() | read):
            group = known.get(group_id)
            state = self._state(group_id, group)
            if not states or state.lower() in states:
                found.append(
                    {
                        "groupId": group_id,
                        "protocolType": (group and group.protocol_type) or "",
                        "groupState": state,
                        "groupType": _CLASSIC,
                    }
                )
        return {"groups": found}

    def describe(self, request: Request) -> Answer:
        """DescribeGroups."""
        # Once: tools ask for all groups together.
        known = self._coordinator.positions()
        found = [self._describe(one, known) for one in request.values["groups"]]
        if request.version >= _NOT_FOUND_VERSION:
            for one in found:
                if one.get("groupState") == GroupState.DEAD:
                    reason = f"there is no group {one['groupId']}"
                    one.update(refused(Refusal(ErrorCode.GROUP_ID_NOT_FOUND, reason)))
        if request.values.get("includeAuthorizedOperations"):
            for one in found:
                if not one.get("errorCode"):
                    one["authorizedOperations"] = OF_GROUP
        return {"groups": found}

    def _describe(self, group_id: str, known: Collection[str]) -> dict[str, Any]:
        try:
            self._coordinator.shards.check(group_id)
        except KafkaError as error:
            return {"groupId": group_id, **refused(error)}
        group = self._coordinator.groups.get(group_id)
        if group is None or self._groups.has_reader(group_id):
            members = [
                _reader_as_member(number, process, partitions)
                for number, (process, partitions) in enumerate(
                    self._groups.readers_of(group_id), start=1
                )
            ]
            is_known = members or group_id in known
            state = self._state(group_id, None) if is_known else GroupState.DEAD
            return {"groupId": group_id, "groupState": str(state), "members": members}
        is_stable = group.state is GroupState.STABLE
        return {
            "groupId": group_id,
            "groupState": self._state(group_id, group),
            "protocolType": group.protocol_type or "",
            "protocolData": (group.protocol if is_stable else None) or "",
            "members": [
                {
                    "memberId": member.member_id,
                    "groupInstanceId": member.instance_id,
                    "clientId": member.client_id,
                    "clientHost": member.client_host,
                    "memberMetadata": member.metadata_for(group.protocol) if is_stable else b"",
                    "memberAssignment": member.assignment,
                }
                for member in group.members.values()
            ],
        }

    def _state(self, group_id: str, group: ClassicGroup | None) -> str:
        if self._groups.has_reader(group_id):  # also where clients have had it before
            return str(GroupState.STABLE)
        return str(GroupState.EMPTY if group is None else group.state)

    async def delete(self, request: Request) -> dict[str, Any]:
        """DeleteGroups; only groups without members are deleted, with all their positions."""
        known = self._coordinator.positions()
        names = tuple(dict.fromkeys(request.values["groupsNames"]))
        # All before one is waited for: nobody commits between the look and a deletion, which would
        # keep a part of that commit. One wait serves all.
        begun = {one: self._begin_deletion(one, known.get(one, ())) for one in names}
        codes = await asyncio.gather(*(self._deleted(*one) for one in begun.items()))
        return {
            "results": [
                {"groupId": one, "errorCode": int(code)}
                for one, code in zip(names, codes, strict=True)
            ]
        }

    def _begin_deletion(
        self, group_id: str, positions: Collection[TopicPartition]
    ) -> Taken | ErrorCode:
        try:
            self._coordinator.shards.check(group_id)
            # Also those that open transactions set: else a commit would bring a part of them back,
            # those which the group has not had before.
            positions = {*positions, *self._groups.undecided(group_id)}
            if self._groups.has_reader(group_id):  # which may have committed nothing yet
                raise NonEmptyGroup(group_id)
            if not positions and group_id not in self._coordinator.groups:
                return ErrorCode.GROUP_ID_NOT_FOUND
            return self._coordinator.delete(group_id, positions)
        except KafkaError as error:
            return code_for_client(error)

    async def _deleted(self, group_id: str, begun: Taken | ErrorCode) -> ErrorCode:
        if isinstance(begun, ErrorCode):
            return begun
        try:
            await self._offsets.durable(group_id, begun)
        except KafkaError as error:
            return code_for_client(error)
        return ErrorCode.NONE


def _reader_as_member(
    number: int, process: str, partitions: Mapping[str, list[int]]
) -> dict[str, Any]:
    """Return a member that stands for a reader in Python, with partitions as a consumer has."""
    assigned = [{"topic": name, "partitions": of_topic} for name, of_topic in partitions.items()]
    message = messages_of("consumer")[_ASSIGNMENT, 0]
    parts = write_message(message, {"assignedPartitions": assigned, "userData": None})
    return {
        "memberId": f"reader-{number}",
        "groupInstanceId": None,
        "clientId": "tidelog",
        "clientHost": process,
        "memberMetadata": b"",
        "memberAssignment": with_version(0, parts),
    }
