"""What a log directory holds, as values."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.codec.shown_rows import as_json
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import Topic
from tidelog.errors import CorruptMessage
from tidelog.explain.describe import LogFacts, SegmentFacts, describe_log
from tidelog.explain.segment_contents import contents_of
from tidelog.explain.tables.partition_tables import BATCHES
from tidelog.explain.tables.system_table import open_tables
from tidelog.readonly.read_only_topic import ReadOnlyTopic
from tidelog.segment.filenames import TopicPartition


def home_with_log(records: int = 6) -> DataHome:
    """Return a data directory whose t-0 has segments of two batches each."""
    home = DataHome()
    with home.open(overrides={"internal.segment.bytes": "200"}) as directory:
        directory.create_topic("t")
        for number in range(records):
            directory.partition("t", 0).append_records([(number, None, bytes([number]) * 20, [])])
    return home


def facts_of(home: DataHome, name: str = "t-0", topic: ReadOnlyTopic | None = None) -> LogFacts:
    """Describe the log of a partition directory."""
    with home.read_only(name) as log:
        return describe_log(log, topic)


def test_facts_are_those_of_the_files() -> None:
    """Offsets of the log, and of each segment with the sizes of its files."""
    home = home_with_log(5)

    facts = facts_of(home)

    assert (
        facts.topic,
        facts.partition,
        facts.directory,
        facts.damage,
    ) == ("t", 0, "/data/t-0", None)
    assert (
        facts.log_start_offset,
        facts.high_watermark,
        facts.log_end_offset,
        facts.size_bytes,
    ) == (0, 5, 5, 5 * 88)
    assert facts.segments == (
        SegmentFacts(0, 2, 176, 0, 12, 0, is_active=False),
        SegmentFacts(2, 4, 176, 0, 12, 0, is_active=False),
        SegmentFacts(4, 5, 88, 0, 12, 0, is_active=True),
    )


def test_facts_are_printed_under_camel_case_names() -> None:
    """The same names in every command's JSON, in the order of the values."""
    home = home_with_log(1)

    entry = Topic("t", UUID(int=1), {}, {"retention.ms": "5"}, is_adopted=True)
    topic = ReadOnlyTopic.listed(entry, (0,), ())
    found = as_json(facts_of(home, topic=topic))
    topic_id = found.pop("topicId")

    assert found == {
        "topic": "t",
        "partition": 0,
        "directory": "/data/t-0",
        "config": {"retention.ms": "5"},
        "unknownSettings": ["cleanup.policy", "retention.bytes"],
        "inheritedSettings": {},
        "logStartOffset": 0,
        "highWatermark": 1,
        "lastStableOffset": 1,
        "logEndOffset": 1,
        "sizeBytes": 88,
        "segments": [
            {
                "baseOffset": 0,
                "endOffset": 1,
                "logBytes": 88,
                "indexBytes": 0,
                "timeIndexBytes": 12,
                "txnIndexBytes": 0,
                "isActive": True,
                "contents": None,
                "isOnDisk": True,
            }
        ],
        "damage": None,
        "lastStableOffsetHeldBy": None,
        "holes": [],
    }
    assert list(found)[:4] == ["topic", "partition", "directory", "config"]
    with home.open() as directory:
        assert topic_id == format_uuid(directory.topic("t").topic_id)


def test_a_partition_without_files_is_described() -> None:
    """As one that was created and never written."""
    home = home_with_log(0)
    home.fs.make_directory("/data/u-0")

    facts = facts_of(home, "u-0")

    assert (facts.log_end_offset, facts.segments) == (0, ())


def test_an_id_that_does_not_read_is_unknown() -> None:
    """What is wrong with its file is for others to say."""
    home = home_with_log(1)
    for content in ("junk", None):
        if content is None:
            home.fs.delete("/data/t-0/partition.metadata")
        else:
            home.write("t-0/partition.metadata", content)
        assert facts_of(home).topic_id is None


def test_missing_index_files_have_no_bytes() -> None:
    """They can be rebuilt, so that is not damage."""
    home = home_with_log(1)
    for suffix in (".index", ".timeindex"):
        home.fs.delete(f"/data/t-0/{0:020d}{suffix}")

    segment = facts_of(home).segments[0]

    assert (segment.log_bytes, segment.index_bytes, segment.time_index_bytes) == (88, 0, 0)


def test_damage_is_described() -> None:
    """What a reader would meet at the log's end, with file and byte."""
    home = home_with_log(1)
    home.write("replication-offset-checkpoint", "0\n1\nt 0 3\n")

    damage = facts_of(home).damage

    assert damage == (
        "offsets 1 to 2, below the high watermark, are missing at byte 88 of"
        f" /data/t-0/{0:020d}.log"
    )


def test_a_batch_with_a_wrong_checksum_is_counted_nowhere() -> None:
    """Not in a segment that has ended either, where opening the log reads no batch."""
    home = home_with_log(3)
    path = f"/data/t-0/{0:020d}.log"
    data = bytearray(home.fs.read(path))
    data[16] ^= 2  # magic 2 becomes 0, of which a header states fewer offsets
    home.fs.write(path, bytes(data))

    with home.read_only("t-0") as log:
        counted = contents_of(log)
    source = open_tables(home.fs, home.path, clock=home.clock)
    with pytest.raises(CorruptMessage) as found:
        list(BATCHES.rows(source, [TopicPartition("t", 0)]))

    assert [(one.is_whole, one.batches) for one in counted.values()] == [(False, 0), (False, 0)]
    assert (found.value.path, found.value.position) == (path, 0)
