"""The values of KRaft's control records, read for tools.

tidelog does not take part in a quorum: it keeps these records unchanged and can show them. Kafka:
the messages of ``ControlRecordUtils``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.codec.messages.message_reader import read_message, split_version
from tidelog.codec.messages.message_table import messages_of, nearest
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from tidelog.records.control import ControlType


def parse_kraft(kind: ControlType, value: bytes | None) -> dict[str, Any]:
    """Return the fields of a KRaft control record under Kafka's JSON names.

    One of a later version is read as the latest that is known. Raises InvalidRecord if ``value`` is
    null or malformed, or ``kind`` is not one of KRaft's types.
    """
    if value is None or (kind, 0) not in messages_of("control"):
        raise InvalidRecord(f"type {kind.name} is not a KRaft control record, or its value is null")
    version, data = split_version(value)
    found = read_message(nearest("control", kind, version), data, is_whole=False)
    return {"version": version, **found}
