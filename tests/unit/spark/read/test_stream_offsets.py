"""The offset of a stream as JSON."""

from __future__ import annotations

import json

from tidelog.segment.filenames import TopicPartition
from tidelog.spark.read.stream_offsets import StreamOffset

A0, A1, A10, B0 = (TopicPartition(*at) for at in (("a", 0), ("a", 1), ("a", 10), ("b", 0)))


def test_offsets_have_the_form_of_the_kafka_source() -> None:
    """Offsets are nested by topic and partition, in the order of numbers."""
    offset = StreamOffset({A10: 3, B0: 7, A1: 2})

    assert json.dumps(offset.to_json()) == '{"a": {"1": 2, "10": 3}, "b": {"0": 7}}'


def test_an_offset_of_the_kafka_source_is_read() -> None:
    """What Spark's Kafka source kept in a checkpoint is understood."""
    offset = StreamOffset.from_json({"a": {"0": 23, "1": 5}})

    assert offset == StreamOffset({A0: 23, A1: 5})


def test_ids_and_the_first_start_survive() -> None:
    """An offset with everything reads back as it was."""
    offset = StreamOffset({A0: 9, B0: 1}, {"a": "x_-1", "b": "y"}, {A0: 4})

    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_readers_of_the_kafka_form_find_no_other_offsets_in_ids() -> None:
    """Topic ids stand where a reader of the form expects a topic, with no partitions."""
    value = StreamOffset({A0: 9}, {"a": "x"}).to_json()

    assert value == {"a": {"0": 9}, "a#x": {}}
    assert StreamOffset({A0: 9}, {"a": "x"}).plain() == {"a": {"0": 9}}


def test_a_place_is_its_offsets_and_topics() -> None:
    """Two offsets are the same place whatever they say of the first start."""
    here = StreamOffset({A0: 9}, {"a": "x"})

    assert here.is_at(StreamOffset({A0: 9}, {"a": "x"}, {A0: 1}))
    assert not here.is_at(StreamOffset({A0: 9}, {"a": "y"}))
    assert not here.is_at(StreamOffset({A0: 8}, {"a": "x"}))
