"""From the options of a read to tasks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import UnknownTopicOrPartition
from tidelog.segment.filenames import TopicPartition
from tidelog.spark.options import MEGABYTE, ReadOptions, TopicChoice
from tidelog.spark.plan import OffsetRange, choose, pack, task_count

FOUND = [
    TopicPartition("__consumer_offsets", 0),
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("ab", 0),
]


def chosen(choice: TopicChoice) -> list[str]:
    return [str(place) for place in choose(FOUND, choice, "/data")]


def test_subscribed_topics_are_read_whole() -> None:
    """``subscribe`` takes all partitions of the topics named and no others."""
    assert chosen(TopicChoice(topics=("a",))) == ["a-0", "a-1"]


def test_a_pattern_is_for_whole_names_and_never_means_internal_topics() -> None:
    """A pattern must match all of a name; Kafka's own topics are read only when named."""
    assert chosen(TopicChoice(pattern=re.compile("a"))) == ["a-0", "a-1"]
    assert chosen(TopicChoice(pattern=re.compile(".*"))) == ["a-0", "a-1", "ab-0"]
    assert chosen(TopicChoice(pattern=re.compile("z"))) == []
    assert chosen(TopicChoice(topics=("__consumer_offsets",))) == ["__consumer_offsets-0"]


def test_assigned_partitions_are_read_alone() -> None:
    """``assign`` takes the partitions it names."""
    assert chosen(TopicChoice(assigned={"a": (1,), "ab": (0,)})) == ["a-1", "ab-0"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (TopicChoice(topics=("a", "b")), "no topic b in /data; topics there: __consumer.*, a, ab"),
        (TopicChoice(assigned={"b": (0,)}), "no topic b"),
        (TopicChoice(assigned={"a": (0, 7)}), "topic a in /data has no partition 7"),
    ],
)
def test_what_is_not_there_is_an_error(choice: TopicChoice, words: str) -> None:
    """A topic or partition that was named and is absent is an error that says what is there."""
    with pytest.raises(UnknownTopicOrPartition, match=words):
        chosen(choice)


def options(**given: int) -> ReadOptions:
    return ReadOptions(path="/data", choice=TopicChoice(topics=("a",)), **given)


def test_tasks_are_as_many_as_cores_sizes_and_wishes_ask_for() -> None:
    """Every core gets a task unless it is too small; none is too large; minPartitions holds."""
    assert task_count(0, options(), 4) == 1
    assert task_count(9 * MEGABYTE, options(), 4) == 1
    assert task_count(100 * MEGABYTE, options(), 4) == 4
    assert task_count(1000 * MEGABYTE, options(), 4) == 8
    assert task_count(1000 * MEGABYTE, options(max_split_bytes=MEGABYTE), 4) == 1000
    assert task_count(MEGABYTE, options(min_partitions=3), 1) == 3


SIZES = st.lists(st.lists(st.integers(0, 100), max_size=12), max_size=5)


@settings(max_examples=100, deadline=None)
@given(sizes=SIZES, count=st.integers(1, 6))
def test_tasks_cover_every_share_once_and_weigh_about_the_same(
    sizes: list[list[int]], count: int
) -> None:
    """Packing loses and repeats nothing, keeps the order, and joins shares that adjoin."""
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
