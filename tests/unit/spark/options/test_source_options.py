"""Options of the data source: Spark's Kafka source decides names, forms and defaults."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument
from tidelog.readonly.read_only_log import ReadUpTo
from tidelog.spark.options.offset_choice import EARLIEST, LATEST
from tidelog.spark.options.option_values import local_path
from tidelog.spark.options.source_options import (
    ReadOptions,
    TriggerLimits,
    WriteOptions,
    wants_headers,
)

BASE = {"path": "/data", "subscribe": "flights"}


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse(BASE | options)


def stream(**options: str) -> ReadOptions:
    return ReadOptions.parse_stream(BASE | options)


def test_a_read_needs_only_a_path_and_a_topic() -> None:
    """By default a batch read takes a topic from its earliest to its latest offset, no headers."""
    options = read()

    assert options.choice.topics == ("flights",)
    assert (options.starting.value, options.ending.value) == (EARLIEST, LATEST)
    assert not options.include_headers
    assert not options.committed
    assert options.fail_on_data_loss
    assert options.verify_checksums
    assert options.up_to is ReadUpTo.HIGH_WATERMARK


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

    assert options.starting.value == {("flights", 0): 23, ("flights", 1): EARLIEST}
    assert options.ending.value == {("flights", 0): 50, ("flights", 1): LATEST}
    assert options.starting.of(("flights", 0)) == 23


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
        ({"kafka.isolation.level": "none"}, "read_uncommitted or read_committed"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is a whole number"),
        ({"startingOffsetsByTimestamp": "1"}, "takes JSON such as"),
        ({"startingOffsetsByTimestampStrategy": "best"}, "is error or latest"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"minPartitions": "0"}, "minPartitions must be at least 1"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be at least 1"),
        ({"readUpTo": "end"}, "highWatermark or logEnd"),
        ({"failOnDataLost": "true"}, "did you mean failOnDataLoss?"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets says where to start"),
        ({"kafka.key.deserializer": "x"}, "keys are bytes"),
        ({"subscribe": "a", "subscribepattern": ""}, "contradict"),
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


def test_options_passed_over_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """What is accepted and means nothing here is told once, all in one warning."""
    read(**{"kafka.group.id": "g", "kafka.bootstrap.servers": "h", "maxOffsetsPerTrigger": "5"})

    assert [record.getMessage() for record in caplog.records] == [
        "options-passed-over: kafka.bootstrap.servers, kafka.group.id, maxOffsetsPerTrigger"
    ]


def test_times_go_before_offsets() -> None:
    """One timestamp for all goes before timestamps by partition, and those before offsets."""
    by_time = '{"flights":{"0":1700000000000}}'
    both = read(startingOffsetsByTimestamp=by_time, startingOffsets="earliest")
    all_three = read(
        startingTimestamp="5", startingOffsetsByTimestamp=by_time, startingOffsets="earliest"
    )
    ending = read(endingTimestamp="7", endingOffsets="latest")

    assert (both.starting.is_time, both.starting.value) == (True, {("flights", 0): 1700000000000})
    assert (all_three.starting.is_time, all_three.starting.value) == (True, 5)
    assert (ending.ending.is_time, ending.ending.value) == (True, 7)


def test_a_time_too_late_is_an_error_only_for_a_start_without_another_strategy() -> None:
    """A start later than every record is an error by default, latest by request; an end never."""
    assert not read(startingTimestamp="5").starting.takes_latest
    assert read(
        startingTimestamp="5", startingOffsetsByTimestampStrategy="LATEST"
    ).starting.takes_latest
    assert read(endingTimestamp="5").ending.takes_latest


def test_a_stream_starts_at_the_latest_offset_and_has_no_end() -> None:
    """By default a stream begins with what comes; ending offsets and times are refused."""
    assert stream().starting.value == LATEST
    assert stream(startingOffsets="earliest").starting.value == EARLIEST
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(InvalidArgument, match=f"{name} is not for a stream"):
            stream(**{name: "1"})


def test_a_micro_batch_may_be_limited() -> None:
    """Limits of a batch are offsets, bytes, and a least number with a time to wait for it."""
    limits = stream(
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="30s",
        maxBytesPerTrigger="1000",
    ).limits

    expected = TriggerLimits(max_offsets=100, min_offsets=10, max_bytes=1000, max_delay_ms=30_000)
    assert limits == expected
    assert stream().limits.max_delay_ms == 15 * 60_000
    with pytest.raises(InvalidArgument, match=r"minOffsetsPerTrigger \(10\) is above"):
        stream(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="10")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("15m", 900_000),
        ("2 min", 120_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("250", 250),
        ("5000us", 5),
    ],
)
def test_a_delay_is_a_time_as_spark_writes_it(text: str, ms: int) -> None:
    """Time spans have Spark's units; a number alone is milliseconds."""
    assert stream(maxTriggerDelay=text).limits.max_delay_ms == ms


def test_a_delay_that_is_no_time_is_refused() -> None:
    """A time span with an unknown unit, or without a number, is an error that shows the form."""
    for text in ("5 years", "soon", "-3s"):
        with pytest.raises(InvalidArgument, match="a time such as 15m"):
            stream(maxTriggerDelay=text)


def test_only_names_are_checked_to_tell_the_columns() -> None:
    """A table's columns depend on ``includeHeaders`` alone, so one answer fits batch and stream."""
    assert wants_headers(BASE | {"includeheaders": "true", "startingOffsets": "latest"})
    assert not wants_headers(BASE)
    with pytest.raises(InvalidArgument, match="did you mean includeHeaders"):
        wants_headers(BASE | {"includeheader": "true"})


def test_one_directory_is_read() -> None:
    """``load`` with several paths, or none, is refused."""
    one = {"subscribe": "flights", "paths": '["/data"]'}

    assert ReadOptions.parse(one).path == "/data"
    for paths in ("[]", '["/a","/b"]'):
        with pytest.raises(InvalidArgument, match="takes one data directory"):
            ReadOptions.parse({"subscribe": "flights", "paths": paths})


def test_what_a_table_of_the_catalogue_passes_is_taken() -> None:
    """Such a table names its path, owner and the like, and its options a second time."""
    table = {"option.subscribe": "flights", "owner": "me", "provider": "tidelog", "location": "x"}

    assert read(**table).choice.topics == ("flights",)
    assert read(**table).path == "/data"
    assert ReadOptions.parse({"subscribe": "a", "location": "file:/there"}).path == "/there"


def test_file_uris_are_paths() -> None:
    """Spark's catalogue hands paths over as ``file:`` URIs, with what needs it escaped."""
    assert local_path("file:/data/my%20logs") == "/data/my logs"
    assert local_path("file:///data") == "/data"
    assert local_path("/data/100%25") == "/data/100%25"


def test_a_write_takes_what_the_topic_says_unless_told() -> None:
    """Without options a write takes topics from its rows and the codec from the topic."""
    options = WriteOptions.parse({"path": "/data"})

    assert (options.topic, options.num_partitions, options.compression) == (None, None, None)


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
