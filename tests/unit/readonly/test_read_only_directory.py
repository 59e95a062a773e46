"""Whole data directories, opened to be read only."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.stored_log import BATCHES, home_with

from tidelog.codec.uuid_text import format_uuid
from tidelog.config.log_config import LogConfig
from tidelog.datadir.catalogue import Catalogue, Topic, read_catalogue, write_catalogue
from tidelog.embedded.doors import open_briefly
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, KafkaStorageError, UnknownTopicOrPartition
from tidelog.readonly.read_only_directory import ReadOnlyDirectory, open_directory_read_only

if TYPE_CHECKING:
    from pathlib import Path

OURS, OTHERS, TOPIC = UUID(int=101), UUID(int=102), UUID(int=103)


class Counting:
    """A disk that counts its operations by name and file name."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self.operations: Counter[tuple[str, str]] = Counter()

    def __getattr__(self, name: str) -> Any:
        def operation(path: str, *args: Any) -> Any:
            self.operations[name, path.rpartition("/")[2]] += 1
            return getattr(self._fs, name)(path, *args)

        return operation


def home_of(*directories: str, topics: dict[str, Topic] | None = None) -> DataHome:
    """Return a data directory with these partition directories and this catalogue."""
    home = DataHome()
    home.write(
        "meta.properties", f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={format_uuid(OURS)}\n"
    )
    for name in directories:
        home.write(f"{name}/{0:020}.log", "")
    if topics is not None:
        write_catalogue(home.fs, home.path, Catalogue(topics))
    return home


def opened(home: DataHome) -> ReadOnlyDirectory:
    return open_directory_read_only(home.path, fs=home.fs)


def test_topics_are_those_of_the_writer() -> None:
    """Names, ids, partitions and settings are those that the catalogue has."""
    home = DataHome()
    with home.open() as logs:
        made = logs.create_topic("t", 2, {"retention.ms": "5"})
        logs.create_topic("u")
    directory = opened(home)

    topic = directory.topic("t")
    config = topic.config_in_force(LogConfig(), {"retention.bytes": "7"})

    assert list(directory.topics) == ["t", "u"]
    assert (topic.topic_id, topic.partitions, topic.missing) == (made.topic_id, (0, 1), ())
    assert (topic.config, topic.unknown_settings) == ({"retention.ms": "5"}, ())
    assert (config.retention_ms, config.retention_bytes) == (5, 7)
    assert directory.partitions == (("t", 0), ("t", 1), ("u", 0))


def test_topics_without_a_catalogue_are_found_by_their_directories() -> None:
    """As Kafka leaves them: their settings about deletion are unknown, but of internal topics."""
    home = home_of(
        "t-0", "t-1", "__consumer_offsets-0", "t-2.0123456789abcdef0123456789abcdef-delete"
    )
    home.write("t-1/partition.metadata", f"version: 0\ntopic_id: {format_uuid(TOPIC)}")
    directory = opened(home)

    found, internal = directory.topic("t"), directory.topic("__consumer_offsets")

    assert (found.topic_id, found.partitions, found.is_listed) == (TOPIC, (0, 1), False)
    assert not found.config_in_force(LogConfig()).is_policy_known
    assert internal.config_in_force(LogConfig()).is_compacted


def test_kafkas_own_log_is_left_alone() -> None:
    """It is not among the topics and partitions, and can be opened by its name."""
    home = home_with(BATCHES)
    home.fs.rename("/data/t-0", "/data/__cluster_metadata-0")
    directory = opened(home)

    assert (dict(directory.topics), directory.partitions, list(directory.logs())) == ({}, (), [])
    assert directory.topic("__cluster_metadata").partitions == (0,)
    with directory.open("__cluster_metadata", 0) as log:
        assert log.log_end_offset == 6


def test_what_is_listed_here_and_not_there_is_missing() -> None:
    """With the records it had by the checkpoints; what lies elsewhere is not missing."""
    topic = Topic("t", TOPIC, {0: OURS, 1: OURS, 2: OTHERS, 3: OURS}, {})
    home = home_of("t-0", topics={"t": topic})
    home.write("replication-offset-checkpoint", "0\n1\nt 1 1234\n")
    directory = opened(home)

    assert directory.missing == (("t", 1, 1234), ("t", 3, None))
    assert (directory.topic("t").partitions, directory.topic("t").missing) == ((0,), (1, 3))
    assert "missing, with records up to 1,234" in str(directory.missing[0])


@pytest.mark.parametrize("name", ["list", "open"])
def test_a_topic_that_is_created_meanwhile_is_not_missing(name: str) -> None:
    """The writer lists it in the catalogue before it makes its directory."""
    home = home_of(topics={"new": Topic("new", TOPIC, {0: OURS}, {})})

    class Creating:
        """Makes the directory behind the first operation of some name."""

        def __getattr__(self, operation: str) -> Any:
            def run(path: str, *args: Any) -> Any:
                found = getattr(home.fs, operation)(path, *args)
                if operation == name:
                    home.fs.make_directory("/data/new-0")
                return found

            return run

    fs: Any = Creating()
    directory = open_directory_read_only(home.path, fs=fs)

    assert (directory.missing, directory.topic("new").partitions) == ((), (0,))


@pytest.mark.parametrize("left", [{}, {"new": Topic("new", OTHERS, {0: OURS}, {})}])
def test_a_topic_that_comes_and_goes_meanwhile_is_not_missing(left: dict[str, Topic]) -> None:
    """A look found it before its directory was made; now it is deleted, or another of its name."""
    home = home_of(topics={"new": Topic("new", TOPIC, {0: OURS}, {})})
    home.write("replication-offset-checkpoint", "0\n1\nnew 0 0\n")

    directory = opened(home)
    assert directory.partitions == ()  # that was the look

    write_catalogue(home.fs, home.path, Catalogue(left))

    assert directory.missing == ()
    assert (len(opened(home).missing) > 0) == bool(left)


def test_a_deleted_topic_is_not_found_again() -> None:
    """A writer that ended while it deleted has left a directory and a note in the catalogue."""
    home = home_of("t-0", "u-0")
    home.write("t-0/partition.metadata", f"version: 0\ntopic_id: {format_uuid(TOPIC)}")
    write_catalogue(home.fs, home.path, Catalogue({}, frozenset({TOPIC})))

    assert opened(home).partitions == (("u", 0),)


def test_a_catalogue_that_does_not_read_is_reported_and_hides_nothing() -> None:
    """Topics are then those of the directories, without settings."""
    home = home_of("t-0")
    home.write("tidelog.topics.json", "{")
    directory = opened(home)

    assert isinstance(directory.catalogue_error, KafkaStorageError)
    assert (list(directory.topics), directory.missing) == (["t"], ())


def test_a_file_in_place_of_a_directory_leaves_the_partition_missing() -> None:
    """As nothing in its place would."""
    home = home_of("t-0", topics={"t": Topic("t", TOPIC, {0: OURS, 1: OURS}, {})})
    home.write("replication-offset-checkpoint", "0\n1\nt 1 1234\n")
    home.write("t-1", "")

    assert opened(home).missing == (("t", 1, 1234),)


@pytest.mark.parametrize(("path", "why"), [("/none", "is missing"), ("/data/f", "is a file")])
def test_what_is_not_a_directory_is_refused(path: str, why: str) -> None:
    """By a typed error that says why."""
    home = home_of()
    home.write("f", "")

    with pytest.raises(InvalidArgument, match=why):
        open_directory_read_only(path, fs=home.fs)


def test_unknown_topics_and_partitions_are_errors() -> None:
    """They say what is there."""
    directory = opened(home_of("t-0"))

    with pytest.raises(UnknownTopicOrPartition, match="no topic x in /data; topics there: t"):
        directory.topic("x")
    with pytest.raises(UnknownTopicOrPartition, match="no partition t-1 in /data"):
        directory.open("t", 1)


def test_catalogue_and_checkpoints_are_read_once_for_all_partitions() -> None:
    """A thousand partitions cost their own files, and one read of each of the directory."""
    count = 1000
    topic = Topic("t", TOPIC, dict.fromkeys(range(count), OURS), {})
    home = home_of(*(f"t-{number}" for number in range(count)), topics={"t": topic})
    home.write("replication-offset-checkpoint", "0\n1\nt 7 0\n")
    disk: Any = Counting(home.fs)
    directory = open_directory_read_only(home.path, fs=disk)

    ends = [log.offsets().log_end_offset for log in directory.logs()]
    topics, missing = directory.topics, directory.missing

    assert (len(ends), len(topics["t"].partitions), missing) == (count, count, ())
    opens = {name: n for (what, name), n in disk.operations.items() if what == "open"}
    reads = {name: n for name, n in opens.items() if not name.startswith("0000")}
    assert reads == {
        "tidelog.topics.json": 1,
        "meta.properties": 1,
        "replication-offset-checkpoint": 1,
        "log-start-offset-checkpoint": 1,
        "partition.metadata": count,
    }
    assert disk.operations["list", "data"] == 1
    assert disk.operations["list", "t-7"] <= 3


def test_logs_are_given_one_after_the_other() -> None:
    """Those of a topic or of all; one that is deleted meanwhile is left out."""
    home = DataHome()
    with home.open() as logs:
        for name in ("t", "u"):
            logs.create_topic(name, 2)
            for number in range(2):
                logs.partition(name, number).append_records([record(b"v")])
    directory = opened(home)
    first = [(log.topic, log.partition) for log in directory.logs("t")]
    home.fs.rename("/data/t-1", "/data/elsewhere")

    assert first == [("t", 0), ("t", 1)]
    assert [f"{log.topic}-{log.partition}" for log in directory.logs()] == ["t-0", "u-0", "u-1"]
    assert set(read_catalogue(home.fs, home.path).topics) == {"t", "u"}


def test_only_a_directory_with_a_log_is_a_partition_that_nobody_has_listed() -> None:
    """A directory such as /etc has others whose names look like partitions."""
    listed = Topic("listed", TOPIC, {0: OURS})
    home = home_of("t-0", topics={"listed": listed})
    for name in ("dbus-1", "listed-0", "photos", "my copy-0", f"t-1.{'0' * 32}-delete"):
        home.fs.make_directory(f"/data/{name}")
    directory = opened(home)

    assert directory.partitions == (("listed", 0), ("t", 0))
    assert list(directory.foreign(directory.parts[0])) == ["dbus-1", "my copy-0", "photos"]


def test_what_a_writer_has_not_made_yet_is_not_missing(tmp_path: Path) -> None:
    """A topic is listed before its directories are made; one with records is missing all the same.

    While nobody holds the lock, both are missing.
    """
    with open_briefly(tmp_path) as logs:
        logs.create_topic("t", 2)
        logs.append("t", b"a", partition=0)
    for name in ("t-0", "t-1"):
        shutil.rmtree(tmp_path / name)
    free = open_directory_read_only(str(tmp_path), fs=SYSTEM_FILES).missing
    lock = SYSTEM_FILES.lock(str(tmp_path / ".lock"))

    held = open_directory_read_only(str(tmp_path), fs=SYSTEM_FILES).missing

    lock.release()
    assert free == (("t", 0, 1), ("t", 1, None))
    assert held == (("t", 0, 1),)
