"""The lag of groups as a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.readonly.group_positions import OFFSETS_TOPIC, Position, position_records
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

NAME = "kafka_consumergroup_lag"


@pytest.fixture
def logs() -> Iterator[tidelog.Logs]:
    """Topics ``t``, of two partitions with five records each, and that of positions."""
    with tidelog.open("/data", files=CrashFileSystem(), clock=ManualClock()) as opened:
        opened.create_topic("t", 2)
        opened.create_topic(OFFSETS_TOPIC)
        for number in range(2):
            opened.append_all("t", [{"value": b"x", "partition": number}] * 5)
        yield opened


def commit(
    logs: tidelog.Logs, group: str, partition: int, offset: int, topic_id: UUID | None = None
) -> None:
    """Commit a position of a group in ``t``."""
    position = Position(offset, -1, "", 1000, topic_id)
    records = position_records(group, {TopicPartition("t", partition): position})
    logs.partition(OFFSETS_TOPIC, 0).append_records(records)


def lags(logs: tidelog.Logs) -> dict[str, float]:
    """Return the lag of each position, by the line for Prometheus."""
    found = (one for one in logs.metrics() if one.family == NAME)
    return {one.prometheus_line.rpartition(" ")[0]: one.value for one in found}


def line(group: str, partition: int) -> str:
    """Return the name and labels of a lag."""
    return f'{NAME}{{consumergroup="{group}",topic="t",partition="{partition}"}}'


def test_a_lag_is_counted_to_the_high_watermark(logs: tidelog.Logs) -> None:
    """For each group, topic and partition; also of groups that commit meanwhile."""
    commit(logs, 'a"b', 0, 2)
    commit(logs, "g", 1, 5)
    first = lags(logs)
    logs.append("t", b"y", partition=1)
    commit(logs, 'a"b', 0, 4)

    assert first == {line(r"a\"b", 0): 3, line("g", 1): 0}
    assert lags(logs) == {line(r"a\"b", 0): 1, line("g", 1): 1}


def test_a_position_beyond_the_end_is_a_negative_lag(logs: tidelog.Logs) -> None:
    """As after a loss of records: zero would say that the group has read everything."""
    commit(logs, "g", 0, 99)

    assert lags(logs) == {line("g", 0): -94}


def test_positions_of_deleted_topics_have_none(logs: tidelog.Logs) -> None:
    """Nor have those of a topic that was created again with the same name."""
    commit(logs, "g", 0, 1, logs.topic("t").topic_id)
    logs.delete_topic("t")
    deleted = lags(logs)
    logs.create_topic("t")

    assert (deleted, lags(logs)) == ({}, {})


def test_nothing_is_loaded_for_it(logs: tidelog.Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are left out where the log of ``__consumer_offsets`` is not in service."""
    commit(logs, "g", 0, 1)
    with monkeypatch.context() as patched:
        patched.setattr(logs.manager._registry, "partition", lambda _: None)
        unloaded = lags(logs)

    assert (unloaded, len(lags(logs))) == ({}, 1)


def test_the_groups_that_a_broker_asks_are_others(logs: tidelog.Logs) -> None:
    """So its event loop never waits while the metric reads all positions."""
    commit(logs, "g", 0, 1)
    known = logs.groups.committed("g")
    with logs.groups._known[0]._lock:
        assert lags(logs) == {line("g", 0): 4}

    assert len(known) == 1
