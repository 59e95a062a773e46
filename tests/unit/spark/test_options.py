"""Options of the data source: Spark's Kafka source decides names, forms and defaults."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument
from tidelog.spark.options import EARLIEST, LATEST, ReadOptions, WriteOptions, local_path

BASE = {"path": "/data", "subscribe": "flights"}


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse(BASE | options)


def test_a_read_needs_only_a_path_and_a_topic() -> None:
    """By default a batch read takes a topic from its earliest to its latest offset, no headers."""
    options = read()

    assert options.choice.topics == ("flights",)
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert not options.include_headers


def test_names_of_options_have_no_case() -> None:
    """Spark hands option names over in lower case, so any case is taken."""
    assert read(INCLUDEHEADERS="true").include_headers
    assert read(includeheaders="TRUE").include_headers


def test_topics_are_listed_with_commas() -> None:
    """``subscribe`` takes several topics; spaces around and repetitions do not count."""
    assert read(subscribe=" a, b ,a").choice.topics == ("a", "b")


def test_offsets_may_be_given_for_each_partition() -> None:
    """Offsets as JSON name every partition; -2 and -1 stand for earliest and latest."""
    options = read(
        startingOffsets='{"flights":{"0":23,"1":-2}}', endingOffsets='{"flights":{"0":50,"1":-1}}'
    )

    assert options.starting == {("flights", 0): 23, ("flights", 1): EARLIEST}
    assert options.ending == {("flights", 0): 50, ("flights", 1): LATEST}


def test_assign_names_partitions() -> None:
    """``assign`` takes JSON of topics and partition numbers."""
    options = ReadOptions.parse({"path": "/data", "assign": '{"a":[0,1],"b":[4]}'})

    assert options.choice.assigned == {"a": (0, 1), "b": (4,)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribePattern": "f.*"}, "subscribe and subscribePattern contradict"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": '{"flights":{"0":-1}}'}, "not for a batch read"),
        ({"endingOffsets": '{"flights":{"0":-2}}'}, "not for a batch read"),
        ({"startingOffsets": "yesterday"}, "takes earliest, latest or JSON"),
        ({"startingOffsets": '{"flights":[1]}'}, "takes earliest, latest or JSON"),
        ({"startingOffsets": '{"flights":{"0":"7"}}'}, "takes earliest, latest or JSON"),
        ({"includeHeaders": "yes"}, "includeHeaders is true or false"),
        ({"maxSplitBytes": "0"}, "maxSplitBytes must be at least 1"),
        ({"maxSplitBytes": "big"}, "maxSplitBytes is a whole number"),
        ({"includeHeader": "true"}, "did you mean includeHeaders?"),
        ({"colour": "red"}, "unknown option colour"),
        ({"subscribe": " , "}, "names no topic"),
        ({"kafka.isolation.level": "read_committed"}, "isolation"),
        ({"path": "s3://bucket/data"}, "not on this machine"),
    ],
)
def test_what_does_not_hold_is_refused_with_a_reason(options: dict[str, str], words: str) -> None:
    """An option that is unknown, malformed or contradicts another is an error that says so."""
    with pytest.raises(InvalidArgument, match=words.replace("?", r"\?")):
        ReadOptions.parse(BASE | options)


def test_a_topic_must_be_chosen() -> None:
    """A read that chooses no topic is refused and told the three ways to choose."""
    with pytest.raises(InvalidArgument, match="subscribe, subscribePattern, assign"):
        ReadOptions.parse({"path": "/data"})


def test_settings_of_a_consumer_are_passed_over() -> None:
    """A job moves over with its ``kafka.*`` settings, which mean nothing without a broker."""
    options = read(**{"kafka.bootstrap.servers": "host:9092", "fetchOffset.numRetries": "3"})

    assert options.choice.topics == ("flights",)


def test_one_directory_is_read() -> None:
    """``load`` with several paths, or none, is refused."""
    one = {"subscribe": "flights", "paths": '["/data"]'}

    assert ReadOptions.parse(one).path == "/data"
    for paths in ("[]", '["/a","/b"]'):
        with pytest.raises(InvalidArgument, match="takes one data directory"):
            ReadOptions.parse({"subscribe": "flights", "paths": paths})


def test_file_uris_are_paths() -> None:
    """Spark's catalogue hands paths over as ``file:`` URIs, with what needs it escaped."""
    assert local_path("file:/data/my%20logs") == "/data/my logs"
    assert local_path("file:///data") == "/data"
    assert local_path("/data/100%25") == "/data/100%25"


def test_a_write_takes_what_the_topic_says_unless_told() -> None:
    """Without options a write takes topics from its rows and the codec from the topic."""
    options = WriteOptions.parse({"path": "/data"})

    assert (options.topic, options.num_partitions, options.compression) == (None, 1, None)


def test_a_write_takes_numbers() -> None:
    """Partitions, level and bytes of a batch are whole numbers."""
    options = WriteOptions.parse(
        {"path": "/data", "numpartitions": "4", "compressionlevel": "-3", "batchbytes": "1024"}
    )

    assert (
        options.num_partitions,
        options.compression_level,
        options.batch_bytes,
    ) == (4, -3, 1024)
