"""Topics that grow, as Arrow record batches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.arrow import SCHEMA_WITH_HEADERS, follow
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    KafkaStorageError,
    OffsetOutOfRange,
    PartitionsElsewhere,
    UnknownTopicOrPartition,
)
from tidelog.testing import damage_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a directory with records 0 to 5 of a topic, the even ones in partition 0."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 2)
    append(tmp_path, *range(6))
    return tmp_path


def append(path: Path, *numbers: int) -> None:
    """Append values to the partitions of their parity."""
    with tidelog.open(path) as logs:
        logs.append_all("t", [{"value": b"%d" % n, "partition": n % 2} for n in numbers])


def values(batches: Iterator[pa.RecordBatch], count: int | None = None) -> list[int]:
    """Return the values of all batches, or of as many as hold ``count`` rows."""
    found: list[int] = []
    while count is None or len(found) < count:
        batch = next(batches, None)
        if batch is None:
            break
        found += map(int, batch["value"].to_pylist())
    return found


def test_what_is_there_comes_first_then_what_comes(path: Path) -> None:
    """Each record once, partition by partition, in batches of the schema."""
    batches = follow(path, "t")
    first = next(batches)
    assert (first.schema, first["value"].to_pylist()) == (SCHEMA_WITH_HEADERS, [b"0", b"2", b"4"])
    assert values(batches, 3) == [1, 3, 5]

    for number in (6, 7, 9):
        append(path, number)
        assert values(batches, 1) == [number]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, [0, 2, 4, 1, 3, 5]),
        ({"partitions": 1}, [1, 3, 5]),
        ({"partitions": [1], "start_offsets": 2}, [5]),
        ({"start_offsets": {0: 1}}, [2, 4, 1, 3, 5]),
        ({"start_offsets": {0: 1}, "from_end": True}, [2, 4]),
        ({"from_end": True}, []),
    ],
)
def test_it_begins_where_it_is_told_and_ends_when_idle(
    path: Path, how: dict[str, Any], expected: list[int]
) -> None:
    """By default at the log starts, and never."""
    assert values(follow(path, "t", columns=["value"], idle_ms=0, **how)) == expected


def test_from_the_end_only_what_comes_is_read(path: Path) -> None:
    """Records that were there before are left out, in every partition."""
    batches = follow(path, "t", from_end=True)
    append(path, 6, 7)

    assert values(batches, 2) == [6, 7]


def test_partitions_that_are_added_are_read_from_their_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless some partitions were named."""
    monkeypatch.setattr("tidelog.readonly.log_follower._NEW_PARTITIONS_NS", 0)
    batches, named = follow(path, "t"), follow(path, "t", partitions=[0, 1], idle_ms=0)
    assert values(batches, 6) == [0, 2, 4, 1, 3, 5]
    with tidelog.open(path) as logs:
        logs.create_partitions("t", 3)
        logs.append("t", b"99", partition=2)

    assert values(batches, 1) == [99]
    assert 99 not in values(named)


def test_a_partition_that_is_moved_is_read_on(tmp_path: Path) -> None:
    """In the directory where it is by then; the directories belong together."""
    paths = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(*paths) as logs:
        logs.manager.create_topic("t", path=str(paths[0]))
        logs.append("t", b"0")
    batches = follow(paths, "t")
    assert values(batches, 1) == [0]
    with tidelog.open(*paths) as logs:
        logs.move_partition("t", 0, paths[1])
        logs.append("t", b"1")
    assert not os.path.exists(paths[0] / "t-0")

    assert values(batches, 1) == [1]


def test_committed_records_come_once_they_are_decided(path: Path) -> None:
    """With ``read_committed``, after the commit."""
    batches = follow(path, "t", isolation="read_committed", from_end=True)
    with tidelog.open(path) as logs, logs.transaction("one") as txn:
        txn.append("t", b"6", partition=0)

    assert values(batches, 1) == [6]


def test_damage_is_an_error_after_the_records_before_it(path: Path) -> None:
    """The records of partitions that come before, too."""
    append(path, 7)
    damage_batch(path, "t", 3, partition=1)
    batches = follow(path, "t")

    with pytest.raises(CorruptMessage):
        values(batches)


def test_what_is_wrong_is_known_at_once(path: Path, tmp_path: Path) -> None:
    """Before the first batch is asked for."""
    for how, error in (
        ({"topic": "other"}, UnknownTopicOrPartition),
        ({"topic": "t", "partitions": 7}, UnknownTopicOrPartition),
        ({"topic": "t", "start_offsets": {0: 99}}, OffsetOutOfRange),
        ({"topic": "t", "start_offsets": 0}, InvalidArgument),
        ({"topic": "t", "columns": "value"}, InvalidArgument),
        ({"topic": "t", "columns": ["nothing"]}, InvalidArgument),
        ({"topic": "t", "idle_ms": -1}, InvalidArgument),
        ({"topic": "t", "isolation": "nothing"}, InvalidArgument),
    ):
        with pytest.raises(error):
            follow(path, **how)
    both = [tmp_path / "x", tmp_path / "y"]
    with tidelog.open(*both) as logs:
        logs.create_topic("s", 2, is_spread=True)
    with pytest.raises(PartitionsElsewhere):
        follow(both[0], "s")


def test_a_topic_that_is_deleted_ends_with_an_error(path: Path) -> None:
    """Nothing else would come."""
    batches = follow(path, "t")
    assert values(batches, 6) == [0, 2, 4, 1, 3, 5]
    with tidelog.open(path) as logs:
        logs.delete_topic("t")

    with pytest.raises((KafkaStorageError, UnknownTopicOrPartition)):
        next(batches)
