"""Groups as records of ``__consumer_offsets``. Kafka: ``GroupCoordinatorRecordHelpers``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.broker.groups.classic_group import GroupState
from tidelog.broker.groups.group_member import GroupMember, Protocol
from tidelog.codec.messages.keyed_message import read_keyed, write_value
from tidelog.readonly.group_positions import GROUP_NUMBER, group_key

if TYPE_CHECKING:
    from tidelog.broker.groups.classic_group import ClassicGroup
    from tidelog.records.builder import RecordFields
    from tidelog.records.record import Record

_WRITTEN_VERSION: Final = 3


class StoredGroup(NamedTuple):
    """A group as it was written down; ``values`` None: it was deleted."""

    group_id: str
    values: dict[str, Any] | None


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


def read_group(record: Record) -> StoredGroup | None:
    """Return the group that a record holds; None for a record of another kind.

    Raises InvalidRecord for one that is malformed, or of a version that is not known.
    """
    found = read_keyed("group", (GROUP_NUMBER,), record.key, record.value)
    return None if found is None else StoredGroup(found.key["group"], found.value)


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
