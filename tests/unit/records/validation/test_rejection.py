"""Metrics of rejected appends."""

from __future__ import annotations

from tidelog.records.validation.rejection import Rejection


def test_counters_have_kafkas_names() -> None:
    """With the suffix PerSec, the names are those of Kafka's metrics."""
    assert {kind.value for kind in Rejection} == {
        "BytesRejected",
        "InvalidMessageCrcRecords",
        "InvalidMagicNumberRecords",
        "InvalidOffsetOrSequenceRecords",
        "NoKeyCompactedTopicRecords",
    }
