"""The partitions that a read selects."""

from __future__ import annotations

import re

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.errors import UnknownTopicOrPartition
from tidelog.segment.filenames import TopicPartition
from tidelog.spark.options.source_options import TopicChoice
from tidelog.spark.read.topic_partitions import PartitionDirectories, choose

FOUND = [
    TopicPartition("__consumer_offsets", 0),
    TopicPartition("__share_group_state", 0),
    TopicPartition("__transaction_state", 0),
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("ab", 0),
]


def chosen(choice: TopicChoice) -> list[str]:
    return [str(place) for place in choose(FOUND, choice, "/data")]


def test_subscribed_topics_are_read_whole() -> None:
    """``subscribe`` selects all partitions of the topics named and no others."""
    assert chosen(TopicChoice(topics=("a",))) == ["a-0", "a-1"]


def test_a_pattern_matches_any_part_of_a_name_and_never_internal_topics() -> None:
    """A pattern may match anywhere in a name; internal topics must be named exactly."""
    assert chosen(TopicChoice(pattern=re.compile("b"))) == ["ab-0"]
    assert chosen(TopicChoice(pattern=re.compile("^a$"))) == ["a-0", "a-1"]
    assert chosen(TopicChoice(pattern=re.compile(".*"))) == ["a-0", "a-1", "ab-0"]
    assert chosen(TopicChoice(pattern=re.compile("z"))) == []
    for name in ("__consumer_offsets", "__share_group_state", "__transaction_state"):
        assert chosen(TopicChoice(topics=(name,))) == [f"{name}-0"]


def test_assigned_partitions_are_read_alone() -> None:
    """``assign`` selects the partitions that it names."""
    assert chosen(TopicChoice(assigned={"a": (1,), "ab": (0,)})) == ["a-1", "ab-0"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (
            TopicChoice(topics=("a", "b")),
            r"no topic b in /data; its topics: __con.*, __share.*, a, ab",
        ),
        (TopicChoice(assigned={"b": (0,)}), "no topic b"),
        (TopicChoice(assigned={"a": (0, 7)}), "topic a in /data has no partition 7"),
    ],
)
def test_an_absent_topic_or_partition_is_an_error(choice: TopicChoice, words: str) -> None:
    """The error for an absent topic lists the topics of the directory."""
    with pytest.raises(UnknownTopicOrPartition, match=words):
        chosen(choice)


def test_a_partition_directory_has_its_topic_id() -> None:
    """The id is in ``partition.metadata``; without that file there is none."""
    home = DataHome()
    home.write("a-0/partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    home.fs.make_directory(f"{home.path}/b-0")
    directories = PartitionDirectories(home.fs, [home.path])

    assert directories.topic_id_text("a", 0) == "AAAAAAAAAAAAAAAAAAAAAg"
    assert directories.topic_id_text("b", 0) is None
