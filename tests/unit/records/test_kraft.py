"""Values of KRaft's control records. The bytes were written by Apache Kafka 4.3.1."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from tidelog.errors import InvalidRecord
from tidelog.records.control import ControlType
from tidelog.records.kraft import parse_kraft

WRITTEN: list[tuple[ControlType, str, dict[str, Any]]] = [
    (
        ControlType.LEADER_CHANGE,
        "AAAAAAADAwAAAAEAAAAAAwACAAAAAwAA",
        {
            "version": 0,
            "leaderId": 3,
            "voters": [{"voterId": 1}, {"voterId": 3}],
            "grantingVoters": [{"voterId": 3}],
        },
    ),
    (
        ControlType.LEADER_CHANGE,
        "AAEAAAABAgAAAAEAAAAAAAAABwAAAAAAAAAIAAEA",
        {
            "version": 1,
            "leaderId": 1,
            "voters": [{"voterId": 1, "voterDirectoryId": "AAAAAAAAAAcAAAAAAAAACA"}],
            "grantingVoters": [],
        },
    ),
    (
        ControlType.SNAPSHOT_HEADER,
        "AAAAAAGLz+VoAAA=",
        {"version": 0, "lastContainedLogTimestamp": 1_700_000_000_000},
    ),
    (ControlType.SNAPSHOT_FOOTER, "AAAA", {"version": 0}),
    (ControlType.KRAFT_VERSION, "AAAAAQA=", {"version": 0, "kRaftVersion": 1}),
    (
        ControlType.KRAFT_VOTERS,
        (
            "AAACAAAAARAAAAAAAAAA//////////sDC0NPTlRST0xMRVIPbm9kZS0xLmV4YW1w"
            "bGX//wAGT1RIRVIJMTAuMC4wLjEjhQAAAAABAAAA"
        ),
        {
            "version": 0,
            "voters": [
                {
                    "voterId": 1,
                    "voterDirectoryId": "EAAAAAAAAAD_________-w",
                    "endpoints": [
                        {"name": "CONTROLLER", "host": "node-1.example", "port": 65535},
                        {"name": "OTHER", "host": "10.0.0.1", "port": 9093},
                    ],
                    "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
                }
            ],
        },
    ),
]


@pytest.mark.parametrize(("kind", "value", "expected"), WRITTEN)
def test_values_read_as_kafka_wrote_them(
    kind: ControlType, value: str, expected: dict[str, Any]
) -> None:
    """Every field has Kafka's name and value."""
    assert parse_kraft(kind, b64decode(value)) == expected


@pytest.mark.parametrize(("kind", "value", "_"), WRITTEN)
def test_every_cut_value_is_invalid(kind: ControlType, value: str, _: object) -> None:
    """A value that is cut anywhere is invalid."""
    whole = b64decode(value)

    assert whole
    for size in range(len(whole)):
        with pytest.raises(InvalidRecord):
            parse_kraft(kind, whole[:size])


def test_unknown_tagged_fields_are_skipped() -> None:
    """Tags that a later Kafka adds are ignored."""
    assert parse_kraft(ControlType.SNAPSHOT_FOOTER, b"\0\0\x01\x07\x02xx") == {"version": 0}


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.UNKNOWN])
def test_other_types_are_not_krafts(kind: ControlType) -> None:
    """Only KRaft's own types are parsed."""
    with pytest.raises(InvalidRecord):
        parse_kraft(kind, b"\0\0\0")


def test_a_huge_count_ends_with_the_bytes() -> None:
    """An array that claims four billion elements takes no more memory than its bytes."""
    with pytest.raises(InvalidRecord):
        parse_kraft(ControlType.LEADER_CHANGE, bytes.fromhex("0000 00000001 ffffffff0f"))
