"""How the offset ranges of a read become tasks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.directory_home import DataHome, record

from tidelog.errors import DataLoss, InvalidArgument
from tidelog.readonly.log_range import LogRange
from tidelog.spark.options.source_options import MEGABYTE, ReadOptions, TopicChoice
from tidelog.spark.read.read_plan import (
    OffsetRange,
    at_least,
    limit_offsets,
    make_tasks,
    pack,
    plan,
    task_count,
)
from tidelog.spark.read.topic_partitions import PartitionDirectories


def options(**others: Any) -> ReadOptions:
    return ReadOptions(paths=("/data",), choice=TopicChoice(topics=("a",)), **others)


def test_cores_sizes_and_options_determine_the_number_of_tasks() -> None:
    """Each core gets a task unless that is too small; maxSplitBytes and minPartitions hold."""
    assert task_count(0, options(), 4) == 1
    assert task_count(9 * MEGABYTE, options(), 4) == 1
    assert task_count(100 * MEGABYTE, options(), 4) == 4
    assert task_count(1000 * MEGABYTE, options(), 4) == 8
    assert task_count(1000 * MEGABYTE, options(max_split_bytes=MEGABYTE), 4) == 1000
    assert task_count(MEGABYTE, options(min_partitions=3), 1) == 3


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"min_partitions": 100_001}, "minPartitions too large"),
        ({"max_records_per_task": 1}, "maxRecordsPerPartition is too small"),
    ],
)
def test_a_read_of_too_many_tasks_is_refused_before_any_is_made(
    limits: dict[str, int], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and time of planning are bounded, whatever the options."""
    home = DataHome()
    with home.open() as directory:
        directory.create_topic("t", 1)
        directory.partition("t", 0).append_records([record(b"v")])
    with PartitionDirectories(home.fs, [home.path]).open("t", 0) as log:
        huge = LogRange(log, 0, 1)
        if "max_records_per_task" in limits:
            monkeypatch.setattr(log, "splits", lambda *_: [(0, 200_000, 1)])
        with pytest.raises(InvalidArgument, match=words):
            make_tasks([huge], options(**limits), 2)


SIZES = st.lists(st.lists(st.integers(0, 100), max_size=12), max_size=5)


@settings(max_examples=100, deadline=None)
@given(sizes=SIZES, count=st.integers(1, 6))
def test_tasks_contain_every_share_once_and_are_about_equal(
    sizes: list[list[int]], count: int
) -> None:
    """Packing loses and repeats nothing, keeps the order, and merges adjacent shares."""
    shares = [
        OffsetRange("a", partition, 10 * n, 10 * n + 10, size)
        for partition, of_partition in enumerate(sizes)
        for n, size in enumerate(of_partition)
    ]

    tasks = pack(shares, count)

    packed = [part for task in tasks for part in task]
    offsets = [(p.partition, n) for p in packed for n in range(p.start_offset, p.end_offset, 10)]
    assert offsets == [(share.partition, share.start_offset) for share in shares]
    assert sum(part.size_bytes for part in packed) == sum(share.size_bytes for share in shares)
    assert len(tasks) <= count
    largest_share = max((share.size_bytes for share in shares), default=0)
    fair = sum(share.size_bytes for share in shares) / count
    assert all(sum(p.size_bytes for p in task) <= fair + largest_share for task in tasks)
    for task in tasks:
        assert len({part.partition for part in task}) == len(task)


TASKS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=4), max_size=4
)


def made(drawn: list[list[tuple[int, int]]]) -> list[tuple[OffsetRange, ...]]:
    """Make tasks with consecutive ranges from (partition, number of offsets) pairs."""
    tasks, starts = [], dict.fromkeys(range(4), 0)
    for ranges in drawn:
        parts = []
        for partition, count in sorted(ranges):
            start = starts[partition]
            starts[partition] = start + count
            parts.append(OffsetRange("a", partition, start, start + count, 100 * count))
        tasks.append(tuple(parts))
    return tasks


def offsets_of(tasks: list[tuple[OffsetRange, ...]]) -> list[tuple[int, int]]:
    parts = [part for task in tasks for part in task]
    return [(p.partition, offset) for p in parts for offset in range(p.start_offset, p.end_offset)]


@settings(max_examples=100, deadline=None)
@given(drawn=TASKS, limit=st.integers(1, 50))
def test_no_task_has_more_offsets_than_allowed(
    drawn: list[list[tuple[int, int]]], limit: int
) -> None:
    """Tasks with too many offsets are split into equal ones; nothing is lost or repeated."""
    tasks = made(drawn)

    limited = limit_offsets(tasks, limit)

    assert offsets_of(limited) == offsets_of(tasks)
    assert all(0 < sum(part.offsets for part in task) <= limit for task in limited)


@settings(max_examples=100, deadline=None)
@given(drawn=TASKS, count=st.integers(1, 30))
def test_tasks_are_halved_until_there_are_enough(
    drawn: list[list[tuple[int, int]]], count: int
) -> None:
    """The requested number of tasks is made, unless there are too few offsets."""
    tasks = made(drawn)

    halved = at_least(tasks, count)

    assert sorted(offsets_of(halved)) == sorted(offsets_of(tasks))
    assert len(halved) >= min(count, len(offsets_of(tasks)))
    assert all(part.offsets > 0 for task in halved for part in task)


def test_a_part_of_a_range_has_a_proportional_size() -> None:
    """Splitting a range by offsets splits its estimated bytes in proportion."""
    whole = OffsetRange("a", 0, 10, 30, 1000, "id")

    assert whole.part(10, 15) == OffsetRange("a", 0, 10, 15, 250, "id")


def test_a_missing_segment_is_data_loss_to_a_batch_read(caplog: pytest.LogCaptureFixture) -> None:
    """With the range; with failOnDataLoss=false a warning. Compaction explains a hole."""
    home = DataHome()
    with home.open(overrides={"segment.bytes": "1048576"}) as directory:
        directory.create_topic("t", 1)
        for _ in range(3):
            directory.partition("t", 0).append_records([record(b"v" * 600_000)])
    home.fs.delete(f"{home.path}/t-0/{1:020d}.log")
    how = {"path": home.path, "subscribe": "t"}

    with pytest.raises(DataLoss, match=r"t-0.*\b1\b.*no segment holds them"):
        plan(home.fs, ReadOptions.parse(how), 2)
    assert plan(home.fs, ReadOptions.parse(how | {"failOnDataLoss": "false"}), 2)
    assert "no segment holds them" in caplog.text
    assert plan(home.fs, ReadOptions.parse(how | {"startingOffsets": '{"t":{"0":2}}'}), 2)
    home.write("cleaner-offset-checkpoint", "0\n1\nt 0 2\n")
    assert plan(home.fs, ReadOptions.parse(how), 2)
