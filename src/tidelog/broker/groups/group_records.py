"""Groups as records of ``__consumer_offsets``. Kafka: ``GroupCoordinatorRecordHelpers``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.groups.classic_group import GroupState
from tidelog.broker.groups.group_member import GroupMember, Protocol
from tidelog.codec.messages.keyed_message import write_value
from tidelog.readonly.group_positions import GROUP_NUMBER, group_key

if TYPE_CHECKING:
    from tidelog.broker.groups.classic_group import ClassicGroup
    from tidelog.records.builder import RecordFields

_WRITTEN_VERSION: Final = 3


def group_record(group: ClassicGroup, now_ms: int) -> RecordFields:
    """Return the record of a group as it is now."""
    values = {
        "protocolType": group.protocol_type or "",
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "currentStateTimestamp": now_ms,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": member.metadata_for(group.protocol),
                "assignment": member.assignment,
            }
            for member in group.members.values()
        ],
    }
    value = write_value("group", GROUP_NUMBER, _WRITTEN_VERSION, values)
    return (now_ms, group_key(group.group_id), value, ())


def restore_group(group: ClassicGroup, values: dict[str, Any]) -> None:
    """Put a new group into the state that was written down; its sessions have not begun."""
    group.generation = values["generation"]
    group.protocol_type = values["protocolType"] or None
    group.protocol, group.leader = values["protocol"], values["leader"]
    for one in values["members"]:
        rebalance_ms = one.get("rebalanceTimeout", one["sessionTimeout"])
        member = GroupMember(
            *(one["memberId"], one.get("groupInstanceId"), one["clientId"], one["clientHost"]),
            one["sessionTimeout"],
            rebalance_ms,
            (Protocol(values["protocol"] or "", one["subscription"]),),
            one["assignment"],
        )
        group.members[member.member_id] = member
    if group.members:
        group.state = GroupState.STABLE
