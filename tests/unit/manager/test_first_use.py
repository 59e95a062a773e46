"""A data directory opened by a process that comes and goes."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome, append, home_with_topic, record

from tidelog.errors import (
    DirectoryLocked,
    InconsistentTopicId,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    InvalidTxnState,
    KafkaStorageError,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from tests.machinery.fields import ProducerFields


RECOVERY = "recovery-point-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
FILES = (RECOVERY, "log-start-offset-checkpoint", WATERMARKS, "cleaner-offset-checkpoint")
LOG = "00000000000000000000.log"


def lines(home: DataHome, name: str) -> list[str]:
    """Return the lines of entries of a checkpoint file."""
    return home.text(name).splitlines()[2:]


# Creating topics


def test_a_created_topic_is_there_at_the_next_opening() -> None:
    """With name, id, partitions and settings; each partition's directory has the topic's id."""
    home = DataHome()
    with home.open() as directory:
        made = directory.create_topic("t", 2, {"retention.ms": "5"})
    with home.open() as directory:
        found = directory.topic("t")

    assert (made, {"retention.ms": "5"}) == (found, found.config)
    assert [home.files("t-0"), home.files("t-1")] == [["partition.metadata"]] * 2


@pytest.mark.parametrize(
    ("name", "partitions", "config", "error"),
    [
        ("a b", 1, {}, InvalidTopic),
        ("..", 1, {}, InvalidTopic),
        ("__cluster_metadata", 1, {}, InvalidTopic),
        ("x" * 250, 1, {}, InvalidTopic),
        ("u", 10_001, {}, PolicyViolation),
        ("u", 0, {}, InvalidPartitions),
        ("u", 1, {"retention.ms": "soon"}, InvalidConfig),
        ("u", 1, {"retention.years": "1"}, InvalidConfig),
        ("t", 1, {}, TopicAlreadyExists),
    ],
)
def test_a_refused_topic_leaves_nothing(
    name: str, partitions: int, config: dict[str, str], error: type[Exception]
) -> None:
    """Bad names, numbers and settings are found before anything is made."""
    home = home_with_topic()
    before = home.files()
    with home.open() as directory:
        operations = len(home.fs.operations)
        with pytest.raises(error):
            directory.create_topic(name, partitions, config)

        assert operations == len(home.fs.operations)
    assert before == home.files()


def test_creating_removes_stale_lines_before_the_directory_is_made() -> None:
    """A line left by a partition of that name would cut the new log; in all four files."""
    home = DataHome()
    for name in FILES:
        home.write(name, "0\n2\nt 0 40\nu 0 3\n")
    home.fs.make_directory(f"{home.path}/u-0")
    with home.open() as directory:
        directory.create_topic("t")

    operations = home.fs.operations
    made = next(i for i, o in enumerate(operations) if o.path == f"{home.path}/t-0")
    synced = [i for i, o in enumerate(operations) if o == ("rename", f"{home.path}/{FILES[-1]}")]
    synced += [i for i, o in enumerate(operations) if o[1].endswith(f"{FILES[-1]}.tmp")]
    assert max(synced) < made
    assert [lines(home, name) for name in FILES] == [["u 0 3"]] * 4


def test_a_new_log_does_not_begin_at_an_old_ones_offset() -> None:
    """Records of a new topic begin at 0 whatever a dead line says."""
    home = DataHome()
    for name in FILES:
        home.write(name, "0\n1\nt 0 40\n")
    with home.open() as directory:
        directory.create_topic("t")
        info = directory.partition("t", 0).append_records([record(b"a")])

    assert info.first_offset == 0
    assert home.values("t-0") == [b"a"]


def test_a_topic_half_made_is_finished_when_it_is_used() -> None:
    """The catalogue names all partitions; a directory that a crash left out is made at the load."""
    home = home_with_topic()
    home.fs.delete(f"{home.path}/t-1/partition.metadata")
    home.fs.delete_directory(f"{home.path}/t-1")
    home.write(RECOVERY, "0\n1\nt 1 40\n")
    with home.open() as directory:
        append(directory, b"a", partition=1)

    assert home.values("t-1") == [b"a"]
    assert "partition.metadata" in home.files("t-1")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("operation", "path", "error"),
    [
        ("rename", "t-1/partition.metadata.tmp", errno.ENOSPC),
        ("sync_directory", "/data", errno.EMFILE),
    ],
)
def test_a_partition_that_was_half_made_is_there_after_a_power_cut(
    operation: str, path: str, error: int, seed: int
) -> None:
    """Once its records are flushed: its name is durable, too."""
    home = DataHome(seed)
    with home.open() as directory:
        directory.create_topic("t", 2)
    home.fs.delete(f"{home.path}/t-1/partition.metadata")
    home.fs.delete_directory(f"{home.path}/t-1")
    home.fs.sync_directory(home.path)
    directory = home.open()
    append(directory, b"a")
    home.fs.fail(operation, path, OSError(error, "not now"))
    with pytest.raises(KafkaStorageError):
        append(directory, b"a", partition=1)
    append(directory, b"a", partition=1)
    directory.partition("t", 1).log.flush()
    home.fs.power_cut()

    assert home.values("t-1") == [b"a"]


# Which logs are loaded, and what is written of the others


def test_only_logs_that_are_used_are_loaded() -> None:
    """A log that nobody asks for is not touched, not even made."""
    home = home_with_topic(partitions=3)
    with home.open() as directory:
        append(directory, b"a", partition=1)

    assert [len(home.files(f"t-{number}")) for number in range(3)] == [1, 6, 1]


def test_lines_of_logs_not_loaded_are_kept_while_their_directory_exists() -> None:
    """What is known of other logs stays; what is known of logs that are gone goes."""
    home = home_with_topic(b"a")
    for name in FILES:
        home.write(name, "0\n3\nt 0 1\nt 1 0\ngone 0 9\n")
    with home.open() as directory:
        append(directory, b"b")

    assert {"t 0 2", "t 1 0"} == set(lines(home, RECOVERY))
    assert {"t 0 2", "t 1 0"} == set(lines(home, WATERMARKS))


def test_the_lines_of_a_partition_that_is_away_are_kept_without_reading_the_catalogue_again() -> (
    None
):
    """What it says is known; read again for each file, it would be read every few seconds."""
    home = home_with_topic(b"a")
    with home.open() as directory:
        append(directory, b"b", partition=1)
    home.fs.rename("/data/t-1", "/away")
    with home.open() as directory:
        done = home.fs.trace()
        for _ in range(3):
            append(directory, b"b")
            directory.flush()
        read = [one for one in done if one.path.endswith("tidelog.topics.json")]

        assert read == []
    assert {"t 0 4", "t 1 1"} == set(lines(home, RECOVERY)) == set(lines(home, WATERMARKS))


def test_lines_of_partitions_that_were_deleted_or_lie_elsewhere_go() -> None:
    """The catalogue is taken as it is now, changed by this process."""
    home = home_with_topic(b"a")
    with home.open() as directory:
        append(directory, b"b", partition=1)
        directory.create_topic("u")
        append(directory, b"b")
    home.fs.rename("/data/t-1", "/away")
    with home.open() as directory:
        directory.create_topic("v")
        directory.delete_topic("t")
        directory.partition("v", 0).append_records([record(b"v")])

    assert {"u 0 0", "v 0 1"} >= set(lines(home, RECOVERY))
    assert not [line for line in lines(home, WATERMARKS) if line.startswith("t ")]


def test_an_unknown_partition_is_said_to_be_so() -> None:
    """Neither a topic nor a partition is made by asking for it."""
    with home_with_topic().open() as directory:
        for topic, number in (("t", 2), ("nope", 0)):
            with pytest.raises(UnknownTopicOrPartition, match=topic):
                directory.partition(topic, number)


@pytest.mark.parametrize("looks", [0, 1])
def test_a_log_is_not_made_where_it_cannot_be_told_whether_there_is_one(looks: int) -> None:
    """An empty log would take the place of the records; the error has a type."""
    home = home_with_topic(b"kept")
    with suppress(KafkaStorageError), home.open() as directory:
        error = OSError(errno.EIO, "the disk failed")
        home.fs.fail("exists", "/t-0", error, skipped=looks)
        with pytest.raises(KafkaStorageError, match="the disk failed"):
            directory.partition("t", 0)

    with home.open() as directory:
        assert directory.partition("t", 0).log.log_end_offset == 1


def test_a_partition_of_another_directory_is_not_made_here() -> None:
    """The catalogue says which directory holds a partition; it is never made a second time."""
    home = home_with_topic(b"a")
    text = home.text("tidelog.topics.json")
    here = home.text("meta.properties").split("directory.id=")[1][:22]
    home.write("tidelog.topics.json", text.replace(f'"1": "{here}"', f'"1": "{"A" * 22}"'))
    with home.open() as directory, pytest.raises(UnknownTopicOrPartition, match="lies in the data"):
        directory.partition("t", 1)


def test_a_log_of_another_topic_of_that_name_is_not_loaded() -> None:
    """The id on disk must be the topic's; other partitions are not affected."""
    home = home_with_topic(b"a")
    home.write("t-1/partition.metadata", f"version: 0\ntopic_id: {'B' * 21}A")
    with home.open() as directory:
        append(directory, b"b")
        with pytest.raises(InconsistentTopicId):
            directory.partition("t", 1)

    assert home.values("t-0") == [b"a", b"b"]
    assert not home.is_marked


# What readers see


def test_the_high_watermark_is_the_log_end() -> None:
    """After the load, and after each append: nobody else must have a record first."""
    home = home_with_topic(b"a")
    with home.open() as directory:
        log = directory.partition("t", 0).log
        loaded = log.high_watermark
        append(directory, b"b")

        assert (loaded, log.high_watermark) == (1, 2)


def test_flush_lets_readers_see_what_was_appended() -> None:
    """The checkpoint of high watermarks is rewritten at every flush."""
    home = home_with_topic(b"a")
    with home.open() as directory:
        append(directory, b"b")
        before = home.values("t-0")
        directory.flush()

        assert (before, home.values("t-0")) == ([b"a"], [b"a", b"b"])


def test_close_lets_readers_see_what_was_appended() -> None:
    """So it is at close."""
    home = home_with_topic(b"a")
    with home.open() as directory:
        append(directory, b"b")

    assert home.values("t-0") == [b"a", b"b"]
    assert lines(home, WATERMARKS) == ["t 0 2"]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_flushed_survives_a_power_cut(seed: int) -> None:
    """Whatever else is lost, and the next writer continues after it."""
    home = DataHome(seed)
    directory = home.open()
    directory.create_topic("t")
    append(directory, b"a")
    directory.flush()
    append(directory, b"b")
    home.fs.power_cut()
    with home.open() as again:
        append(again, b"c")

    assert home.values("t-0") in ([b"a", b"c"], [b"a", b"b", b"c"])


# Settings


def test_settings_of_one_opening_go_before_the_topics_own() -> None:
    """Overrides, then the topic's settings, then the defaults."""
    home = DataHome()
    with home.open() as directory:
        directory.create_topic("t", 1, {"retention.ms": "1", "segment.ms": "2"})
    with home.open(overrides={"retention.ms": "9"}) as directory:
        config = directory.config_of("t")

        assert (config.retention_ms, config.segment_ms) == (9, 2)
        assert directory.partition("t", 0).log.config.retention_ms == 9
    with home.open() as directory:
        assert directory.topic("t").config == {"retention.ms": "1", "segment.ms": "2"}


def test_defaults_do_not_become_a_topics_own_settings() -> None:
    """A topic made under some defaults follows others later."""
    from tidelog.config.log_config import LogConfig

    home = DataHome()
    with home.open(defaults=LogConfig.parse({"retention.ms": "4"})) as directory:
        topic = directory.create_topic("t", 1, {"segment.ms": " 5 "})
        config = directory.config_of("t")

    assert (topic.config, config.retention_ms, config.segment_ms) == ({"segment.ms": "5"}, 4, 5)


def test_a_bad_setting_is_found_before_anything_is_locked() -> None:
    """InvalidConfig, and the directory is not even made."""
    home = DataHome()
    with pytest.raises(InvalidConfig):
        home.open(overrides={"retention.years": "1"})

    assert not home.fs.exists(home.path)


# Others beside this writer


def test_a_second_writer_is_refused_and_readers_are_not() -> None:
    """DirectoryLocked for one that would write; a read-only open takes no lock."""
    home = home_with_topic(b"a")
    with home.open() as directory:
        append(directory, b"b")
        with pytest.raises(DirectoryLocked):
            home.open()

        assert home.values("t-0") == [b"a"]
    assert home.values("t-0") == [b"a", b"b"]


def test_entries_that_come_and_go_do_not_disturb() -> None:
    """Tasks stage and remove files in the directory while it is opened."""
    home = home_with_topic(b"a")
    home.write("tidelog.x.staged", "")
    home.fs.fail("stat", "tidelog.x.staged", FileNotFoundError(errno.ENOENT, "gone"), count=9)
    with home.open() as directory:
        assert list(directory.topics()) == ["t"]


def test_a_log_that_no_kafka_writes_is_refused() -> None:
    """A plain batch inside an open transaction: InvalidTxnState, and no mark is left."""
    from tidelog.records.builder import build_batch

    home = home_with_topic()
    producer: ProducerFields = {"producer_id": 1, "producer_epoch": 0}
    begin = build_batch(
        [record(b"a")], transactional=True, base_sequence=0, leader_epoch=0, **producer
    )
    plain = build_batch([record(b"b")], base_offset=1, base_sequence=1, leader_epoch=0, **producer)
    home.write(f"t-0/{LOG}", begin + plain)
    with home.open() as directory, pytest.raises(InvalidTxnState):
        directory.partition("t", 0)

    assert not home.is_marked


def test_ids_come_from_the_random_numbers_given() -> None:
    """Two directories with the same numbers have the same ids: runs can be repeated."""
    one, other = DataHome(3), DataHome(3)
    ids = []
    for home in (one, other):
        with home.open() as directory:
            ids.append(directory.create_topic("t").topic_id)

    assert ids[0] == ids[1]


def test_a_later_deletion_does_not_bring_an_unfinished_one_back() -> None:
    """A topic whose deletion was interrupted is deleted by the next writer, not adopted."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("a")
        logs.create_topic("b")
        logs.append("a", b"x")
    home.fs.fail("rename", "a-0", OSError(errno.EIO, "the disk failed"))
    with suppress(KafkaStorageError), home.open() as logs:
        logs.delete_topic("a")
    home.fs.kill()
    with home.open() as logs:
        logs.delete_topic("b")
    with home.open() as logs:
        assert logs.topics() == {}
        assert [name for name in home.files() if name.startswith(("a-", "b-"))] == []
