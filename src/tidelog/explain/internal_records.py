"""The records of Kafka's internal topics, decoded as Kafka's dump tool prints them.

A key begins with the number of its message and a value with its version; those of
``__cluster_metadata`` have frame, number and version as varints. Kafka: the message parsers of
``DumpLogSegments``.
"""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.messages.message_reader import read_message, split_version
from tidelog.codec.messages.message_table import KEY, messages_of, nearest
from tidelog.datadir.cluster_metadata.metadata_records import unpack_frame
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from tidelog.records.record import Record

_SUBSCRIPTION: Final = 0
_ASSIGNMENT: Final = 1
_GROUP_METADATA: Final = 2


class InternalTopic(StrEnum):
    """A topic whose records Kafka's own servers write."""

    OFFSETS = "__consumer_offsets"
    TRANSACTIONS = "__transaction_state"
    SHARE_GROUPS = "__share_group_state"
    METADATA = "__cluster_metadata"


_FAMILIES: Final = {
    InternalTopic.OFFSETS: "group",
    InternalTopic.TRANSACTIONS: "transaction",
    InternalTopic.SHARE_GROUPS: "share",
}


def decode_record(topic: InternalTopic, record: Record) -> dict[str, Any]:
    """Return ``key`` and ``value`` of a record as objects; None for null.

    Raises InvalidRecord for a message that Kafka 4.3.1 does not know, or that is malformed.
    """
    if topic is InternalTopic.METADATA:
        value = None if record.value is None else _metadata(record.value)
        return {"key": None, "value": value}
    if record.key is None:
        raise InvalidRecord("a record has no key")
    family = _FAMILIES[topic]
    number, rest = split_version(record.key)
    key = {"type": str(number), "data": _read(family, number, KEY, rest)}
    if record.value is None:
        return {"key": key, "value": None}
    version, rest = split_version(record.value)
    data = _read(family, number, version, rest)
    if topic is InternalTopic.OFFSETS and number == _GROUP_METADATA:
        _decode_members(data)
    return {"key": key, "value": {"version": str(version), "data": data}}


def _read(family: str, number: int, version: int, data: bytes) -> dict[str, Any]:
    message = messages_of(family).get((number, version))
    if message is None:
        what = "a key" if version == KEY else f"version {version}"
        raise InvalidRecord(f"{what} of message {number} is not known")
    return read_message(message, data)


def _metadata(value: bytes) -> dict[str, Any]:
    number, version, data = unpack_frame(value)
    message = messages_of("metadata").get((number, version))
    if message is None:
        raise InvalidRecord(f"version {version} of metadata record {number} is not known")
    return {"type": message.name, "version": version, "data": read_message(message, data)}


def _decode_members(data: dict[str, Any]) -> None:
    """Replace what a consumer sent to its group by its fields, where it is of that protocol."""
    if data["protocolType"] != "consumer":
        return
    for member in data["members"]:
        for name, number in (("subscription", _SUBSCRIPTION), ("assignment", _ASSIGNMENT)):
            sent = base64.b64decode(member[name])
            if sent:
                version, rest = split_version(sent)
                member[name] = read_message(nearest("consumer", number, version), rest)
