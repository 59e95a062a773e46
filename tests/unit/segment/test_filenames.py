"""Names of segment files and partition directories."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument, InvalidTopic
from tidelog.segment import filenames
from tidelog.segment.filenames import TopicPartition, parse_topic_partition

ID = "0123456789abcdef0123456789abcdef"


def test_an_offset_has_at_least_twenty_digits() -> None:
    """File names start with the offset in at least 20 digits, so that they sort as numbers."""
    assert filenames.filename_prefix_from_offset(10) == "00000000000000000010"
    assert filenames.filename_prefix_from_offset(2**63 - 1) == "09223372036854775807"


def test_each_file_of_a_segment_has_its_suffix() -> None:
    """The type comes before the state: .log.deleted, not .deleted.log."""
    assert filenames.log_file("/d", 10, ".suffix") == "/d/00000000000000000010.log.suffix"
    assert filenames.offset_index_file("/d", 1) == "/d/00000000000000000001.index"
    assert filenames.time_index_file("/d", 1) == "/d/00000000000000000001.timeindex"
    assert filenames.transaction_index_file("/d", 1) == "/d/00000000000000000001.txnindex"
    assert filenames.producer_snapshot_file("/d", 1) == "/d/00000000000000000001.snapshot"


@pytest.mark.parametrize(
    "name", ["00000000000000000010.log", "10.index.deleted", "00000000000000000010"]
)
def test_the_offset_is_the_part_before_the_first_dot(name: str) -> None:
    """Any suffixes may follow the offset.

    Scenario: UnifiedLogTest.testOffsetFromProducerSnapshotFile
    """
    assert filenames.offset_from_file_name(name) == 10


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", ".log", "1_0.log", "9" * 19 + ".log"])
def test_a_name_without_an_offset_is_rejected(name: str) -> None:
    """A name that does not start with a 64-bit number is not that of a segment file."""
    with pytest.raises(InvalidArgument):
        filenames.offset_from_file_name(name)


def test_snapshots_and_suffixed_files_are_not_index_files() -> None:
    """Index files are the three that end in index; a log file ends in .log."""
    names = ["1.log", "1.index", "1.timeindex", "1.txnindex", "1.snapshot", "1.index.deleted"]

    assert list(map(filenames.is_index_file, names)) == [False, True, True, True, False, False]
    assert list(map(filenames.is_log_file, names)) == [True] + [False] * 5


def test_a_suffix_is_replaced_only_if_present() -> None:
    """Changing a suffix requires the old one."""
    assert filenames.replace_suffix("/d/1.log.cleaned", ".cleaned", ".swap") == "/d/1.log.swap"
    assert filenames.replace_suffix("/d/1.log", "", ".deleted") == "/d/1.log.deleted"
    with pytest.raises(InvalidArgument):
        filenames.replace_suffix("/d/1.log", ".swap", "")


@pytest.mark.parametrize("topic", ["a", "A.b_c-9", "x" * 249])
def test_valid_topic_names(topic: str) -> None:
    """A topic has 1 to 249 letters, digits, dots, underscores and dashes."""
    filenames.check_topic_name(topic)


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a/b", "ä", "a\n", "x" * 250])
def test_invalid_topic_names(topic: str) -> None:
    """Other characters are rejected, and so are names with a meaning in file systems."""
    with pytest.raises(InvalidTopic):
        filenames.check_topic_name(topic)


def test_a_deleted_directory_cuts_the_topic_to_fit() -> None:
    """The name of a directory scheduled for deletion has at most 255 characters."""
    name = filenames.log_delete_directory_name("t" * 249, 5, ID)

    assert len(name) == 255
    assert name == "t" * 213 + f"-5.{ID}-delete"
    assert filenames.log_stray_directory_name("t", 5, ID) == f"t-5.{ID}-stray"


def test_a_future_directory_is_rejected_rather_than_cut() -> None:
    """A future copy is found by its name, so a cut topic would be another topic."""
    longest = "t" * (255 - len(f"-5.{ID}-future"))

    assert len(filenames.log_future_directory_name(longest, 5, ID)) == 255
    with pytest.raises(InvalidTopic):
        filenames.log_future_directory_name(longest + "t", 5, ID)


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("topic-0", "topic", 0),
        ("my-to.pic--12", "my-to.pic-", 12),
        (f"a.b-3.{ID}-delete", "a.b", 3),
        (f"a-b-3.{ID}-future", "a-b", 3),
        (f"a-3.{ID}-stray", "a", 3),
        ("a-2147483647", "a", 2**31 - 1),
    ],
)
def test_partition_directories_parse(name: str, topic: str, partition: int) -> None:
    """The last dash separates topic and partition; a suffix starts at the last dot."""
    assert parse_topic_partition(name) == TopicPartition(topic, partition)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "topic",
        "-1",
        "topic-",
        "topic-x",
        "a-2147483648",
        "a-0-delete",
        "a.b-future",
        "a 1-0.x-stray",
        "lost+found",
        "/x/t-0",
        "x/t-0",
        "t-0/",
    ],
)
def test_other_directories_are_rejected(name: str) -> None:
    """Every directory in a data directory must be that of a partition."""
    with pytest.raises(InvalidTopic):
        parse_topic_partition(name)


def test_the_suffix_determines_the_kind_of_a_directory() -> None:
    """Only its suffix makes a log a future copy, or schedules it for deletion."""
    names = ["a-0", f"a-0.{ID}-future", f"a-0.{ID}-delete", f"a-0.{ID}-stray"]

    assert list(map(filenames.is_future_directory, names)) == [False, True, False, False]
    assert list(map(filenames.is_delete_directory, names)) == [False, False, True, False]
    assert list(map(filenames.is_stray_directory, names)) == [False, False, False, True]
    assert list(map(filenames.is_suffixed_directory, names)) == [False, True, True, True]


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
@pytest.mark.parametrize(
    "name",
    [
        *("photos", "a-0.x", "a b-0.{}", "a-0.{}x", "a.{}", "a-0", "a-2147483648.{}"),
        *(".-0.{}", "..-0.{}"),
    ],
)
def test_only_a_name_that_kafka_gives_schedules_a_directory(name: str, suffix: str) -> None:
    """A directory of a user's own must not be deleted because its name ends in -delete."""
    full = f"{name.format(ID)}-{suffix}"

    assert not filenames.is_delete_directory(full)
    assert not filenames.is_future_directory(full)
    assert not filenames.is_stray_directory(full)
    assert not filenames.is_suffixed_directory(full)


@pytest.mark.parametrize(
    "name",
    [
        *("foo.log", "5.log", "+5.log", "-3.log", "x.deleted", "notes.swap", f"{5:019}.log"),
        *(f"{5:021}.log", f"{5:020}.log.bak.deleted", f"{5:020}.deleted", f"{2**63:020}.log"),
        *(f"{5:020} .log", f"{5:020}.LOG.deleted", f"{5:020}.snapshot\n.swap"),
    ],
)
def test_only_one_form_of_a_name_is_a_segments(name: str) -> None:
    """Any other name is neither opened nor deleted as a file of the log."""
    assert filenames.parse_segment_file(name) is None
    assert filenames.is_foreign_segment_file(name)
    assert (filenames.log_offsets([name]), filenames.snapshot_offsets([name])) == ([], [])


@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("state", ["", ".deleted", ".cleaned", ".swap"])
def test_the_name_of_a_segments_file_has_three_parts(kind: str, state: str) -> None:
    """The offset, which file it is, and what becomes of it."""
    name = f"{5:020}{kind}{state}"

    assert filenames.parse_segment_file(name) == (5, kind, state)
    assert not filenames.is_foreign_segment_file(name)


@pytest.mark.parametrize(
    "name",
    [
        *("leader-epoch-checkpoint", "partition.metadata", "notes.txt", "quorum-state"),
        f"{5:020}-{1:010}.checkpoint.deleted",
    ],
)
def test_other_files_are_no_concern_of_segments(name: str) -> None:
    """Files of Kafka's metadata log and of users are not warned of at every start."""
    assert filenames.parse_segment_file(name) is None
    assert not filenames.is_foreign_segment_file(name)


def test_a_future_copy_knows_which_directory_it_replaces() -> None:
    """Without the id and the suffix, its name is that of the live partition."""
    assert filenames.current_directory_of_future(f"/d/a-b-0.{ID}-future") == "/d/a-b-0"
    assert filenames.current_directory_of_future("/d/a-0") is None
    assert str(TopicPartition("a-b", 0)) == "a-b-0"
