"""The offset of a stream as JSON."""

from __future__ import annotations

import json

from tidelog.segment.filenames import TopicPartition
from tidelog.spark.read.stream_offsets import StreamOffset

A0, A1, A10, B0 = (TopicPartition(*at) for at in (("a", 0), ("a", 1), ("a", 10), ("b", 0)))


def test_offsets_have_the_form_of_the_kafka_source() -> None:
    """Offsets are nested by topic and partition, in numerical order."""
    offset = StreamOffset({A10: 3, B0: 7, A1: 2})

    assert json.dumps(offset.to_json()) == '{"a": {"1": 2, "10": 3}, "b": {"0": 7}}'


def test_an_offset_of_the_kafka_source_is_parsed() -> None:
    """An offset from a checkpoint of Spark's Kafka source is valid."""
    offset = StreamOffset.from_json({"a": {"0": 23, "1": 5}})

    assert offset == StreamOffset({A0: 23, A1: 5})


def test_topic_ids_and_the_first_start_survive_a_round_trip() -> None:
    """An offset with all its fields is parsed back to an equal one."""
    offset = StreamOffset({A0: 9, B0: 1}, {"a": "x_-1", "b": "y"}, {A0: 4})

    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_readers_of_the_kafka_form_find_no_other_offsets_in_ids() -> None:
    """A topic id is an entry without partitions, as of another topic."""
    value = StreamOffset({A0: 9}, {"a": "x"}).to_json()

    assert value == {"a": {"0": 9}, "a#x": {}}
    assert StreamOffset({A0: 9}, {"a": "x"}).plain() == {"a": {"0": 9}}


def test_only_offsets_and_topic_ids_are_compared() -> None:
    """Two offsets are at the same position even if their first starts differ."""
    here = StreamOffset({A0: 9}, {"a": "x"})

    assert here.is_at(StreamOffset({A0: 9}, {"a": "x"}, {A0: 1}))
    assert not here.is_at(StreamOffset({A0: 9}, {"a": "y"}))
    assert not here.is_at(StreamOffset({A0: 8}, {"a": "x"}))
