"""The values of KRaft's control records, read for tools.

tidelog does not take part in a quorum: it keeps these records unchanged and can show them. Kafka:
the messages of ``ControlRecordUtils``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.codec.messages.message_reader import read_message, split_version
from tidelog.codec.messages.message_table import messages_of
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from tidelog.records.control import ControlType


def parse_kraft(kind: ControlType, value: bytes | None) -> dict[str, Any]:
    """Return the fields of a KRaft control record under Kafka's JSON names.

    One of a later version is read as the latest that is known. Raises InvalidRecord if ``value`` is
    null or malformed, or ``kind`` is not one of KRaft's types.
    """
    known = [version for number, version in messages_of("control") if number == kind]
    if not known or value is None:
        raise InvalidRecord(f"type {kind.name} is not a KRaft control record, or its value is null")
    version, data = split_version(value)
    message = messages_of("control")[kind, min(max(version, 0), max(known))]
    return {"version": version, **read_message(message, data, is_whole=False)}
