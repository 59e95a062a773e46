"""The values of KRaft's control records, read for tools.

All five formats use Kafka's flexible encoding. tidelog does not take part in a quorum: it keeps
these records unchanged and can show them. Kafka: the messages of ``ControlRecordUtils``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from tidelog.codec.flexible import FlexibleReader
from tidelog.codec.layout import Layout, Wire
from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import InvalidRecord
from tidelog.records.control import ControlType

if TYPE_CHECKING:
    from collections.abc import Callable


class LeaderChangeHead(NamedTuple):
    """The fixed part of a LEADER_CHANGE value; two arrays of voters follow."""

    version: Annotated[int, Wire("h", "0 or 1; from 1 on voters have a directory id.")]
    leader_id: Annotated[int, Wire("i", "Node id of the new leader.")]


class SnapshotHeaderValue(NamedTuple):
    """The fixed part of a SNAPSHOT_HEADER value."""

    version: Annotated[int, Wire("h", "0.")]
    last_contained_log_timestamp: Annotated[int, Wire("q", "Append time in ms of the last batch.")]


class KraftVersionValue(NamedTuple):
    """The fixed part of a KRAFT_VERSION value."""

    version: Annotated[int, Wire("h", "0.")]
    kraft_version: Annotated[int, Wire("h", "Version of the quorum protocol.")]


class _Version(NamedTuple):
    version: Annotated[int, Wire("h", "Format of the value.")]


class _VoterId(NamedTuple):
    voter_id: Annotated[int, Wire("i", "Node id.")]


class _Port(NamedTuple):
    port: Annotated[int, Wire("H", "TCP port.")]


class _VersionRange(NamedTuple):
    lowest: Annotated[int, Wire("h", "Lowest supported version.")]
    highest: Annotated[int, Wire("h", "Highest supported version.")]


_LEADER_CHANGE: Final = Layout(LeaderChangeHead)
_SNAPSHOT_HEADER: Final = Layout(SnapshotHeaderValue)
_KRAFT_VERSION: Final = Layout(KraftVersionValue)
_VERSION: Final = Layout(_Version)
_VOTER_ID: Final = Layout(_VoterId)
_PORT: Final = Layout(_Port)
_VERSION_RANGE: Final = Layout(_VersionRange)


def _voter(reader: FlexibleReader) -> dict[str, Any]:
    found: dict[str, Any] = {"voterId": reader.fixed(_VOTER_ID).voter_id}
    reader.skip_tags()
    return found


def _voter_v1(reader: FlexibleReader) -> dict[str, Any]:
    found = {
        "voterId": reader.fixed(_VOTER_ID).voter_id,
        "voterDirectoryId": format_uuid(reader.uuid()),
    }
    reader.skip_tags()
    return found


def _endpoint(reader: FlexibleReader) -> dict[str, Any]:
    found = {"name": reader.string(), "host": reader.string(), "port": reader.fixed(_PORT).port}
    reader.skip_tags()
    return found


def _full_voter(reader: FlexibleReader) -> dict[str, Any]:
    found = {
        "voterId": reader.fixed(_VOTER_ID).voter_id,
        "voterDirectoryId": format_uuid(reader.uuid()),
        "endpoints": reader.array(_endpoint),
    }
    supported = reader.fixed(_VERSION_RANGE)
    reader.skip_tags()
    found["kRaftVersionFeature"] = {
        "minSupportedVersion": supported.lowest,
        "maxSupportedVersion": supported.highest,
    }
    reader.skip_tags()
    return found


def _leader_change(reader: FlexibleReader) -> dict[str, Any]:
    head = reader.fixed(_LEADER_CHANGE)
    voter = _voter_v1 if head.version > 0 else _voter
    return {
        "version": head.version,
        "leaderId": head.leader_id,
        "voters": reader.array(voter),
        "grantingVoters": reader.array(voter),
    }


def _snapshot_header(reader: FlexibleReader) -> dict[str, Any]:
    head = reader.fixed(_SNAPSHOT_HEADER)
    timestamp = head.last_contained_log_timestamp
    return {"version": head.version, "lastContainedLogTimestamp": timestamp}


def _snapshot_footer(reader: FlexibleReader) -> dict[str, Any]:
    return {"version": reader.fixed(_VERSION).version}


def _kraft_version(reader: FlexibleReader) -> dict[str, Any]:
    head = reader.fixed(_KRAFT_VERSION)
    return {"version": head.version, "kRaftVersion": head.kraft_version}


def _kraft_voters(reader: FlexibleReader) -> dict[str, Any]:
    version = reader.fixed(_VERSION).version
    return {"version": version, "voters": reader.array(_full_voter)}


_READERS: Final[dict[ControlType, Callable[[FlexibleReader], dict[str, Any]]]] = {
    ControlType.LEADER_CHANGE: _leader_change,
    ControlType.SNAPSHOT_HEADER: _snapshot_header,
    ControlType.SNAPSHOT_FOOTER: _snapshot_footer,
    ControlType.KRAFT_VERSION: _kraft_version,
    ControlType.KRAFT_VOTERS: _kraft_voters,
}


def parse_kraft(kind: ControlType, value: bytes | None) -> dict[str, Any]:
    """Return the fields of a KRaft control record under Kafka's JSON names.

    Raises InvalidRecord if ``value`` is null or cut short, or ``kind`` is not one of KRaft's types.
    Unknown tagged fields are skipped.
    """
    read = _READERS.get(kind)
    if read is None or value is None:
        raise InvalidRecord(f"type {kind.name} is not a KRaft control record, or its value is null")
    reader = FlexibleReader(value, "the value of a control record")
    fields = read(reader)
    reader.skip_tags()
    return fields
