"""Options of the data source: names, forms and defaults are those of Spark's Kafka source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.errors import InvalidArgument, InvalidConfig
from tidelog.records.isolation import ReadUpTo
from tidelog.spark.options.offset_choice import EARLIEST, LATEST
from tidelog.spark.options.option_values import absolute_paths, local_path
from tidelog.spark.options.source_options import (
    ONLY_OF_READS,
    ONLY_OF_WRITES,
    ReadOptions,
    SinkOptions,
    TriggerLimits,
    check_load,
    without,
)

if TYPE_CHECKING:
    from pathlib import Path


BASE = {"path": "/data", "subscribe": "flights"}


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse(BASE | options)


def stream(**options: str) -> ReadOptions:
    return ReadOptions.parse_stream(BASE | options)


def test_a_read_needs_only_a_path_and_a_topic() -> None:
    """By default a batch read covers a topic from earliest to latest, without headers."""
    options = read()

    assert options.choice.topics == ("flights",)
    assert (options.starting.value, options.ending.value) == (EARLIEST, LATEST)
    assert not options.include_headers
    assert not options.committed
    assert options.fail_on_data_loss
    assert options.verify_checksums
    assert options.up_to is ReadUpTo.HIGH_WATERMARK


def test_names_of_options_are_case_insensitive() -> None:
    """Spark passes option names in lower case, so any case is accepted."""
    assert read(INCLUDEHEADERS="true").include_headers
    assert read(includeheaders="TRUE").include_headers


def test_topics_are_listed_with_commas() -> None:
    """``subscribe`` lists several topics; spaces around them and duplicates are ignored."""
    assert read(subscribe=" a, b ,a").choice.topics == ("a", "b")


def test_offsets_may_be_set_for_each_partition() -> None:
    """Offsets as JSON name every partition; -2 and -1 stand for earliest and latest."""
    options = read(
        startingOffsets='{"flights":{"0":23,"1":-2}}', endingOffsets='{"flights":{"0":50,"1":-1}}'
    )

    assert options.starting.value == {("flights", 0): 23, ("flights", 1): EARLIEST}
    assert options.ending.value == {("flights", 0): 50, ("flights", 1): LATEST}
    assert options.starting.of(("flights", 0)) == 23


def test_offsets_may_be_those_of_a_checkpoint() -> None:
    """As they stand there: its other entries, whose names no topic has, are left out."""
    line = '{"t":{"0":7},"t#start":{"0":0},"t#66vZpf8NRrahUBeO-8oXNw":{},"t#epoch-0":{"0":0}}'

    assert read(startingOffsets=line).starting.value == {("t", 0): 7}


def test_assign_names_partitions() -> None:
    """``assign`` is JSON of topics with lists of partition numbers."""
    options = ReadOptions.parse({"path": "/data", "assign": '{"a":[0,1],"b":[4]}'})

    assert options.choice.assigned == {"a": (0, 1), "b": (4,)}
    with pytest.raises(InvalidArgument, match="option assign must be JSON"):
        ReadOptions.parse({"path": "/data", "assign": '{"a":[0],"a":[1]}'})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribePattern": "f.*"}, "exactly one of .*; not subscribe and subscribePattern"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": '{"flights":{"0":-1}}'}, r"startingOffsets cannot hold -1 \(latest\)"),
        ({"endingOffsets": '{"flights":{"0":-2}}'}, r"endingOffsets cannot hold -2 \(earliest\)"),
        ({"startingOffsets": "yesterday"}, "startingOffsets must be earliest, latest or JSON"),
        (
            {"startingOffsets": '{"flights":[1]}'},
            "startingOffsets must be earliest, latest or JSON",
        ),
        (
            {"startingOffsets": '{"flights":{"0":"7"}}'},
            "startingOffsets must be earliest, latest or JSON",
        ),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({"maxSplitBytes": "10"}, "maxSplitBytes must be at least 65536"),
        ({"maxSplitBytes": "big"}, "maxSplitBytes must be an integer, not 'big'"),
        ({"maxSplitBytes": "100_000"}, "maxSplitBytes must be an integer, not '100_000'"),
        ({"startingOffsets": '{"flights":{"\u0661":7}}'}, "startingOffsets must be earliest"),
        ({"startingOffsets": '{"flights":{"0":7,"00":8}}'}, "startingOffsets must be earliest"),
        ({"startingOffsets": '{"flights":{"0":7,"0":8}}'}, "startingOffsets must be earliest"),
        ({"startingOffsets": "[" * 100_000}, "startingOffsets must be earliest"),
        ({"startingOffsets": '{"t":{"%s":7}}' % ("9" * 5_000)}, "startingOffsets must be earliest"),
        ({"includeHeader": "true"}, "did you mean includeHeaders?"),
        ({"colour": "red"}, "unknown option colour"),
        ({"tabel": "segments"}, "unknown option tabel; did you mean table?"),
        ({"subscribe": " , "}, "subscribe must be topics separated by commas"),
        (
            {"kafka.isolation.level": "none"},
            "kafka.isolation.level must be read_uncommitted or read_committed",
        ),
        ({"startingTimestamp": "noon"}, "startingTimestamp: noon: not a valid time; use "),
        ({"endingTimestamp": "-1"}, "endingTimestamp must be at least 0, not -1"),
        ({"startingOffsetsByTimestamp": "1"}, "startingOffsetsByTimestamp must be JSON such as"),
        (
            {"startingOffsetsByTimestampStrategy": "best"},
            "Strategy must be error or latest, not 'best'",
        ),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        ({"minPartitions": "0"}, "minPartitions must be at least 1"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be at least 1"),
        ({"readUpTo": "end"}, "readUpTo must be highWatermark or logEnd, not 'end'"),
        ({"failOnDataLost": "true"}, "did you mean failOnDataLoss?"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"kafka.auto.offset.reset": "latest"}, "is not supported: set startingOffsets instead"),
        ({"kafka.key.deserializer": "x"}, "keys are bytes"),
        ({"subscribe": "a", "subscribepattern": ""}, "not subscribe and subscribePattern"),
        ({"path": "hdfs://host/data"}, "is neither a local directory nor an archive"),
    ],
)
def test_a_bad_option_is_an_error_that_names_it(options: dict[str, str], words: str) -> None:
    """An option that is unknown, malformed or contradicts another fails with name and reason."""
    with pytest.raises(InvalidArgument, match=words.replace("?", r"\?")):
        ReadOptions.parse(BASE | options)


def test_a_topic_must_be_chosen() -> None:
    """A read without a topic fails with an error that names the three options to choose from."""
    with pytest.raises(InvalidArgument, match="subscribe, subscribePattern, assign"):
        ReadOptions.parse({"path": "/data"})


def test_options_of_a_consumer_are_ignored() -> None:
    """A job moves over with its ``kafka.*`` options, which have no effect without a broker."""
    options = read(**{"kafka.bootstrap.servers": "host:9092", "fetchOffset.numRetries": "3"})

    assert options.choice.topics == ("flights",)


def test_ignored_options_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """All options that are accepted but have no effect are logged in one warning."""
    read(**{"kafka.group.id": "g", "kafka.bootstrap.servers": "h", "maxOffsetsPerTrigger": "5"})

    assert [record.getMessage() for record in caplog.records] == [
        "options-ignored: kafka.bootstrap.servers, kafka.group.id, maxOffsetsPerTrigger"
    ]


def test_timestamps_override_offsets() -> None:
    """One timestamp for all overrides timestamps by partition, and those override offsets."""
    by_time = '{"flights":{"0":1700000000000}}'
    both = read(startingOffsetsByTimestamp=by_time, startingOffsets="earliest")
    all_three = read(
        startingTimestamp="5", startingOffsetsByTimestamp=by_time, startingOffsets="earliest"
    )
    ending = read(endingTimestamp="7", endingOffsets="latest")

    assert (both.starting.is_time, both.starting.value) == (True, {("flights", 0): 1700000000000})
    assert (all_three.starting.is_time, all_three.starting.value) == (True, 5)
    assert (ending.ending.is_time, ending.ending.value) == (True, 7)


def test_a_timestamp_may_be_a_date_or_a_distance_from_now() -> None:
    """As on the command line: a date is in UTC unless it names a zone."""
    hour_ago = read(startingTimestamp="1h").starting.value
    now = read(endingTimestamp="0s").ending.value

    assert read(startingTimestamp="1970-01-02").starting.value == 86_400_000
    assert isinstance(now, int)
    assert isinstance(hour_ago, int)
    assert 0 <= now - hour_ago - 3_600_000 < 60_000


def test_a_start_timestamp_without_a_later_record_is_an_error_by_default() -> None:
    """A start later than every record is an error, or latest on request; an end is never one."""
    assert not read(startingTimestamp="5").starting.takes_latest
    assert read(
        startingTimestamp="5", startingOffsetsByTimestampStrategy="LATEST"
    ).starting.takes_latest
    assert read(endingTimestamp="5").ending.takes_latest


def test_a_stream_starts_at_the_latest_offset_and_has_no_end() -> None:
    """By default a stream reads new records only; ending offsets and timestamps are refused."""
    assert stream().starting.value == LATEST
    assert stream(startingOffsets="earliest").starting.value == EARLIEST
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(InvalidArgument, match=f"{name} is not supported for a stream"):
            stream(**{name: "1"})


def test_a_micro_batch_may_be_limited() -> None:
    """A batch is limited by offsets and bytes, or waits for a minimum, up to a maximum delay."""
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
def test_a_delay_is_a_duration_as_spark_writes_it(text: str, ms: int) -> None:
    """Durations have Spark's units; a bare number is milliseconds."""
    assert stream(maxTriggerDelay=text).limits.max_delay_ms == ms


def test_a_malformed_delay_is_refused() -> None:
    """A duration with an unknown unit, or without a number, is an error that shows the form."""
    for text in ("5 years", "soon", "-3s"):
        with pytest.raises(InvalidArgument, match="maxTriggerDelay must be a duration such as 15m"):
            stream(maxTriggerDelay=text)


def test_load_returns_whether_headers_are_wanted() -> None:
    """Spark asks for the schema before it is known whether the read is a batch or a stream."""
    assert check_load(BASE | {"includeheaders": "true", "startingOffsets": "latest"})
    assert not check_load(BASE)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"includeheader": "true"}, "did you mean includeHeaders"),
        ({"minPartitions": "0"}, "minPartitions must be at least 1"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger must be an integer"),
        ({"startingOffsets": "soon"}, "startingOffsets must be earliest, latest or JSON"),
        ({"assign": '{"t":[0]}'}, "set exactly one of subscribe"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest in a batch read"),
        ({"endingOffsets": "latest", "startingOffsets": "latest"}, "cannot be latest in a batch"),
        ({"kafka.auto.offset.reset": "latest"}, "set startingOffsets instead"),
    ],
)
def test_load_checks_what_is_wrong_for_a_batch_and_for_a_stream(
    options: dict[str, str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither of them could read so. What one of them could read passes, and nothing is logged."""
    with pytest.raises(InvalidArgument, match=words):
        check_load(BASE | options)
    check_load(BASE | {"endingOffsets": "latest", "skipDamage": "true"})
    check_load(BASE | {"startingOffsets": "latest", "kafka.bootstrap.servers": "x:1"})
    assert not caplog.records


TABLE = {"provider": "tidelog", "path": "/data"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "t", "numPartitions": "few"}, "numPartitions must be an integer"),
        ({"topic": "t", "config.retention.ms": "long"}, "config.retention.ms"),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions must be at least 1"),
        ({"subscribe": "t", "topik": "t"}, "unknown option topik"),
    ],
)
def test_the_options_of_a_table_are_checked_when_it_is_created(
    options: dict[str, str], words: str
) -> None:
    """Those of its reads and those of its writes; a table may be for one of them only."""
    with pytest.raises((InvalidArgument, InvalidConfig), match=words):
        check_load(TABLE | options)
    assert not check_load(TABLE | {"topic": "t", "config.retention.ms": "-1"})
    assert not check_load(TABLE | {"subscribe": "t"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"paths": '["/data"]'}, ("/data",)),
        ({"paths": '["/a","file:/b"]'}, ("/a", "/b")),
        ({"path": "/a", "paths": '["/b"]'}, ("/a", "/b")),
        ({"paths": '["/a"]', "location": "/warehouse"}, ("/a",)),
        ({"path": "here"}, (os.path.abspath("here"),)),
    ],
)
def test_one_or_several_directories_are_read(
    given: dict[str, str], expected: tuple[str, ...]
) -> None:
    """Spark passes those of ``load([...])`` as a list in JSON; a table's location is its own."""
    assert ReadOptions.parse({"subscribe": "flights"} | given).paths == expected


@pytest.mark.parametrize(
    ("paths", "words"),
    [("[]", "no data directory is named"), ("/a,/b", "JSON"), ("[1]", "JSON"), ('[""]', "JSON")],
)
def test_paths_are_a_list_that_names_a_directory(paths: str, words: str) -> None:
    """What is no such list is an error that says the form."""
    with pytest.raises(InvalidArgument, match=words):
        ReadOptions.parse({"subscribe": "flights", "paths": paths})


def test_a_write_goes_to_one_directory() -> None:
    """A transaction belongs to one data directory."""
    with pytest.raises(InvalidArgument, match="a write goes to one data directory"):
        SinkOptions.parse({"topic": "flights", "paths": '["/a","/b"]'})


def test_the_options_of_a_catalog_table_are_accepted() -> None:
    """Spark adds path, owner and the like, and passes each option of the table a second time."""
    table = {"option.subscribe": "flights", "owner": "me", "provider": "tidelog", "location": "x"}

    assert read(**table).choice.topics == ("flights",)
    assert read(**table).paths == ("/data",)
    assert ReadOptions.parse({"subscribe": "a", "location": "file:/there"}).paths == ("/there",)


@pytest.mark.parametrize(
    "of_table", [{"subscribe": "a,t"}, {"subscribePattern": "^t"}, {"SUBSCRIBE": "t"}]
)
def test_a_query_of_a_catalog_table_names_partitions_of_its_topics(
    of_table: dict[str, str],
) -> None:
    """Spark passes the options of the table and of ``WITH`` as one; other reads take only one."""
    query = {"assign": '{"t": [1]}', "startingOffsets": '{"t": {"1": 0}}', "path": "/data"}
    assert ReadOptions.parse(TABLE | of_table | query).choice.assigned == {"t": (1,)}
    assert ReadOptions.parse_stream(TABLE | of_table | query).choice.assigned == {"t": (1,)}

    with pytest.raises(InvalidArgument, match="topic u, which is not one of the table"):
        ReadOptions.parse(TABLE | of_table | {"assign": '{"u": [1]}'})
    with pytest.raises(InvalidArgument, match="set exactly one of"):
        ReadOptions.parse(of_table | query)
    with pytest.raises(InvalidArgument, match="set exactly one of"):
        ReadOptions.parse(TABLE | {"subscribe": "t", "subscribePattern": "t"} | query)


def test_file_uris_are_paths() -> None:
    """Spark's catalog passes them with one slash, and encodes nothing; URIs are encoded."""
    for plain in ("/data/my logs", "/data/my%20logs", "/data/a#b", "/data/a?b", "/data/a\tb"):
        assert local_path(f"file:{plain}") == plain
    assert local_path("file:///data/my%20logs") == "/data/my logs"
    assert local_path("/data/100%25") == "/data/100%25"
    for remote in ("s3a://b/x", "hdfs:/x", "dbfs:/x"):
        with pytest.raises(InvalidArgument, match="neither a local directory nor an archive"):
            local_path(remote)


@pytest.mark.parametrize("given", ["/data\0", "file:///data%00", "s3://b/\0"])
def test_a_zero_byte_is_in_no_path(given: str) -> None:
    """It is refused before the system is asked, which would raise an error of Python's."""
    with pytest.raises(InvalidArgument):
        absolute_paths(given)
    with pytest.raises(InvalidArgument):
        SinkOptions.parse({"path": given})


def test_uris_of_archives_are_kept(tmp_path: Path) -> None:
    """A ``file:`` URI is one if it leads to an archive, and nothing is written to any."""
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "lake" / str(UUID(int=1))).mkdir(parents=True)
    logs, lake = (tmp_path / "logs").as_uri(), (tmp_path / "lake").as_uri()

    assert absolute_paths([logs, lake, "s3://b/x/", "azure://c"]) == (
        str(tmp_path / "logs"),
        lake,
        "s3://b/x",
        "azure://c",
    )
    with pytest.raises(InvalidArgument, match="s3://b is not a directory: an archive"):
        SinkOptions.parse({"path": "s3://b"})


def test_a_write_has_no_topic_partitions_or_codec_by_default() -> None:
    """Without options the topic comes from each row and the codec from the topic's config."""
    options = SinkOptions.parse({"path": "/data"})

    assert (options.topic, options.num_partitions, options.compression) == (None, None, None)


def test_numbers_of_a_write_are_parsed() -> None:
    """Partitions, compression level and bytes of a batch are integers."""
    options = SinkOptions.parse(
        {"path": "/data", "numpartitions": "4", "compressionlevel": "-3", "batchbytes": "1024"}
    )

    assert (
        options.num_partitions,
        options.compression_level,
        options.batch_bytes,
    ) == (4, -3, 1024)


def test_an_unknown_codec_is_refused() -> None:
    """``compression`` names one of Kafka's codecs, in any case."""
    base = {"path": "/data"}

    assert SinkOptions.parse(base | {"compression": "ZSTD"}).compression == "zstd"
    with pytest.raises(InvalidArgument, match=r"option compression must be none or gzip .*'rar'"):
        SinkOptions.parse(base | {"compression": "rar"})


@pytest.mark.parametrize("prefix", ["config.", "topic."])
def test_all_bad_settings_of_a_new_topic_are_named_as_options(prefix: str) -> None:
    """At once; earlier releases had the prefix ``topic.``, which still works."""
    options = {
        f"{prefix}retention.ms": "long",
        f"{prefix}colour": "red",
        f"{prefix}segment.bytes": "1048576",
    }
    parsed = SinkOptions.parse({"path": "/data"} | options)

    with pytest.raises(InvalidConfig, match=r"option config.retention.ms: .*option config.colour"):
        parsed.new_topic_config()


def test_a_stream_has_the_ids_of_its_batches_and_a_batch_write_that_of_the_user() -> None:
    """So each refuses the option of the other; Spark's own options of a stream are accepted."""
    base = {"path": "data"}
    stream = SinkOptions.parse(
        base | {"skipOldBatches": "true", "checkpointLocation": "/c", "queryName": "q"},
        is_stream=True,
    )

    assert stream.skip_old_batches
    assert os.path.isabs(stream.path)
    assert SinkOptions.parse(base | {"txnid": "x"}).txn_id == "x"
    assert stream.create_directory
    assert not SinkOptions.parse(base | {"createDirectory": "false"}).create_directory
    with pytest.raises(InvalidArgument, match="txnId is not supported for a stream"):
        SinkOptions.parse(base | {"txnId": "x"}, is_stream=True)
    for name in ("skipOldBatches", "acceptMissingBatches"):
        with pytest.raises(InvalidArgument, match=f"{name} is for streams only"):
            SinkOptions.parse(base | {name: "true"})
    for bad in (
        {"txnId": " "},
        {"txnId": "x" * 256},
        {"writeBufferBytes": "1000"},
        {"commitTimeoutMs": "soon"},
    ):
        with pytest.raises(InvalidArgument):
            SinkOptions.parse(base | bad)


def test_a_table_s_options_are_split_into_those_of_reads_and_of_writes() -> None:
    """One table in Spark's catalog has both."""
    table = {"subscribe": "t", "TOPIC": "t", "config.retention.ms": "1", "includeHeaders": "true"}

    assert without(table, ONLY_OF_WRITES) == {"subscribe": "t", "includeHeaders": "true"}
    assert "subscribe" not in without(table, ONLY_OF_READS)
    assert check_load(table | {"path": "/data"})


def test_an_unknown_option_is_named_as_the_user_wrote_it() -> None:
    """Names are compared in lower case, but the error quotes the name as it was passed."""
    with pytest.raises(InvalidArgument, match="unknown option failOnDataLost; did you mean failOn"):
        read(failOnDataLost="true")


def test_ignored_options_are_logged_in_their_documented_spelling(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark passes names in lower case; the warning spells them as its documentation does."""
    read(**{"fetchoffset.numretries": "3"})

    assert [record.getMessage() for record in caplog.records] == [
        "options-ignored: fetchOffset.numRetries"
    ]


@pytest.mark.parametrize(
    "name",
    ["kafka.key.serializer", "kafka.partitioner.class", "kafka.transactional.id"],
)
def test_a_producer_s_option_whose_effect_is_missing_is_refused(name: str) -> None:
    """A job that sets it relies on the effect; other options of producers are ignored."""
    with pytest.raises(InvalidArgument, match=f"option {name} is not supported"):
        SinkOptions.parse({"path": "/data", name: "x"})
    assert SinkOptions.parse({"path": "/data", "kafka.acks": "all"}).compression is None


def test_a_producer_s_compression_is_that_of_a_write(caplog: pytest.LogCaptureFixture) -> None:
    """Unless the option ``compression`` is set, too."""
    given = {"path": "/data", "kafka.compression.type": "zstd"}

    assert SinkOptions.parse(given).compression == "zstd"
    assert SinkOptions.parse(given | {"compression": "lz4"}).compression == "lz4"
    assert not caplog.records
