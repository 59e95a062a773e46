"""The text format of checkpoints, and the replacement of small files."""

from __future__ import annotations

import pytest
from tests.machinery.counted_lines import Lines

from tidelog.codec.checkpoint_file import (
    MAX_FILE_BYTES,
    format_lines,
    parse_java_integer,
    read_checkpoint,
    read_leader_epochs,
    replace_file,
    write_checkpoint,
    write_leader_epochs,
)
from tidelog.errors import CorruptFile, InvalidArgument, InvariantError, KafkaStorageError
from tidelog.testing import CrashFileSystem, PowerCut

PATH = "/data/recovery-point-offset-checkpoint"
OFFSETS = {("flights", 0): 17, ("flights", 1): 2**63 - 1, ("__consumer_offsets", 49): 0}
TEXT = f"0\n3\nflights 0 17\nflights 1 {2**63 - 1}\n__consumer_offsets 49 0\n"


@pytest.fixture
def fs() -> CrashFileSystem:
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.sync_directory("/")
    return fs


def holding(fs: CrashFileSystem, text: str) -> CrashFileSystem:
    fs.write(PATH, text.encode())
    return fs


def test_each_offset_is_one_line(fs: CrashFileSystem) -> None:
    """Version, number of entries, topic, partition and offset; the last line has an end too."""
    write_checkpoint(fs, PATH, OFFSETS)

    assert fs.read(PATH) == TEXT.encode()
    assert read_checkpoint(fs, PATH) == OFFSETS


def test_leader_epochs_are_written_in_order(fs: CrashFileSystem) -> None:
    """An entry is an epoch and its start offset, in the order given."""
    write_leader_epochs(fs, PATH, [(0, 5), (3, 2**40)])

    assert fs.read(PATH) == b"0\n2\n0 5\n3 1099511627776\n"
    assert read_leader_epochs(fs, PATH) == [(0, 5), (3, 2**40)]


@pytest.mark.parametrize("text", ["", "0\n", "0", "0\n0\n", "0\n0"])
def test_an_empty_file_has_no_entries(fs: CrashFileSystem, text: str) -> None:
    """Kafka creates the file empty; a version line alone is not damage either."""
    assert read_checkpoint(holding(fs, text), PATH) == {}
    assert read_leader_epochs(fs, PATH) == []


def test_a_missing_file_has_no_entries(fs: CrashFileSystem) -> None:
    """A missing file reads as empty; Kafka would have created it empty."""
    assert read_checkpoint(fs, PATH) == {}


@pytest.mark.parametrize("line", ["a 1 5", "a\t1  5", "a 1 5   ", "a +1 +5", "a 001 05"])
def test_runs_of_white_space_separate_fields(fs: CrashFileSystem, line: str) -> None:
    """White space at the end is ignored, and numbers are parsed as in Java."""
    assert read_checkpoint(holding(fs, f"0\n1\n{line}\n"), PATH) == {("a", 1): 5}


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_line_ends_of_any_platform_are_read(fs: CrashFileSystem, ends: str) -> None:
    """A file written on Windows reads the same."""
    assert read_checkpoint(holding(fs, TEXT.replace("\n", ends)), PATH) == OFFSETS


def test_the_later_of_two_lines_wins(fs: CrashFileSystem) -> None:
    """Both lines count as entries, but only the last value is kept."""
    assert read_checkpoint(holding(fs, "0\n2\na 0 1\na 0 2\n"), PATH) == {("a", 0): 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n0\n", "version 1"),
        ("-1\n0\n", "version -1"),
        ("zero\n0\n", "line 1 is malformed"),
        (" 0\n0\n", "line 1 is malformed"),
        ("0 \n0\n", "line 1 is malformed"),
        ("2147483648\n0\n", "line 1 is malformed"),
        ("\n", "line 1 is malformed"),
        ("0\nmany\na 0 1\n", "line 2 is malformed"),
        ("0\n\n", "line 2 is malformed"),
        ("0\n1\na 0\n", "line 3 is malformed"),
        ("0\n1\na 0 1 2\n", "line 3 is malformed"),
        ("0\n1\n a 0 1\n", "line 3 is malformed"),
        ("0\n1\na 0 1\n\n", "line 4 is malformed"),
        ("0\n2\na 0 1\n", "declares 2 entries but has 1"),
        ("0\n0\na 0 1\n", "declares 0 entries but has 1"),
        ("0\n-1\n", "declares -1 entries but has 0"),
        ("0\n2147483647\n", "has 0"),
    ],
)
def test_a_malformed_file_is_a_storage_error(fs: CrashFileSystem, text: str, reason: str) -> None:
    """Kafka takes the directory offline; the error names the file and the line."""
    with pytest.raises(KafkaStorageError, match=f"{PATH}.*{reason}"):
        read_checkpoint(holding(fs, text), PATH)


def test_bytes_that_are_not_utf8_are_a_storage_error(fs: CrashFileSystem) -> None:
    """Java's reader rejects them too."""
    fs.write(PATH, b"0\n1\n\xff 0 1\n")

    with pytest.raises(KafkaStorageError, match="UTF-8"):
        read_checkpoint(fs, PATH)


@pytest.mark.parametrize("line", ["a x 1", "a 0 x", "a 0 1.5", "a 2147483648 1", f"a 0 {2**63}"])
def test_a_field_must_be_an_integer(fs: CrashFileSystem, line: str) -> None:
    """The disk is not at fault: Kafka resets the checkpoint and continues."""
    with pytest.raises(InvalidArgument, match=f"{PATH}, line 3: "):
        read_checkpoint(holding(fs, f"0\n1\n{line}\n"), PATH)


@pytest.mark.parametrize("line", ["x 1", "0 x"])
def test_an_epoch_must_be_an_integer(fs: CrashFileSystem, line: str) -> None:
    """The same holds for leader epochs."""
    with pytest.raises(InvalidArgument, match="line 3"):
        read_leader_epochs(holding(fs, f"0\n1\n{line}\n"), PATH)


@pytest.mark.parametrize("text", ["", "+", "--1", "1_0", " 1", "1 ", "\u0661", "0x1", "9" * 5000])
def test_what_java_cannot_parse_is_not_an_integer(text: str) -> None:
    """White space, underscores, digits of other scripts and overflow are rejected."""
    with pytest.raises(InvalidArgument):
        parse_java_integer(text, bits=64)


@pytest.mark.parametrize("bits", [32, 64])
def test_an_integer_has_the_requested_width(bits: int) -> None:
    """Both ends of the range are valid, and leading zeros do not count as digits."""
    for value in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
        assert value == parse_java_integer(
            f"{'-' if value < 0 else '+'}{abs(value):0200}", bits=bits
        )
        with pytest.raises(InvalidArgument):
            parse_java_integer(str(value + (1 if value > 0 else -1)), bits=bits)


def offset_after_power_cut(seed: int, step: int) -> tuple[bool, int]:
    """Replace offset 1 by 2, cut the power after ``step`` operations; return what is left."""
    fs = CrashFileSystem(seed)
    fs.make_directory("/data")
    fs.sync_directory("/")
    write_checkpoint(fs, PATH, {("a", 0): 1})
    fs.crash_after(step)
    try:
        write_checkpoint(fs, PATH, {("a", 0): 2})
        done = True
    except PowerCut:
        done = False
    fs.power_cut()
    return done, read_checkpoint(fs, PATH)["a", 0]


def test_a_power_cut_leaves_the_old_or_the_new_file() -> None:
    """A crash at any step leaves one complete file; after the last step it is the new one."""
    seen = {offset_after_power_cut(seed, step) for seed in range(10) for step in range(10)}

    assert seen == {(False, 1), (False, 2), (True, 2)}


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync", "rename"])
def test_a_failing_disk_leaves_the_old_file(fs: CrashFileSystem, operation: str) -> None:
    """The disk's own error is raised; the next attempt succeeds despite the leftovers."""
    replace_file(fs, PATH, b"old, and longer than the new one")
    fs.fail(operation, "", OSError(28, "no space"))

    with pytest.raises(OSError, match="no space"):
        replace_file(fs, PATH, b"new")

    assert fs.read(PATH) == b"old, and longer than the new one"
    assert not fs.exists(PATH + ".tmp")
    replace_file(fs, PATH, b"new")
    assert fs.read(PATH) == b"new"


def test_leftovers_of_a_temporary_file_are_overwritten(fs: CrashFileSystem) -> None:
    """A longer temporary file from an earlier crash leaves no trailing bytes."""
    fs.write(PATH + ".tmp", b"x" * 100)

    replace_file(fs, PATH, b"new")

    assert (fs.read(PATH), fs.exists(PATH + ".tmp")) == (b"new", False)


def test_a_checkpoint_without_entries_has_a_count_of_zero() -> None:
    """It still has its two header lines."""
    assert format_lines([]) == "0\n0\n"


@pytest.mark.parametrize("topic", ["my copy", "", "a\nb", "a\tb", "\udc80"])
def test_nothing_is_written_that_its_reader_refuses(topic: str) -> None:
    """A blank in a topic's name would make the whole file unreadable, for every other topic too."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    write_checkpoint(fs, "/data/c", {("t", 0): 5})

    with pytest.raises(InvariantError):
        write_checkpoint(fs, "/data/c", {("t", 0): 6, (topic, 0): 1})

    assert read_checkpoint(fs, "/data/c") == {("t", 0): 5}


def test_a_small_file_is_not_read_or_written_beyond_a_bound() -> None:
    """A sparse file may seem to hold gigabytes; what is written can be read again."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    file = fs.open("/data/c", "w")
    file.truncate(MAX_FILE_BYTES + 1)
    file.close()

    with pytest.raises(CorruptFile, match="67,108,865 bytes"):
        read_checkpoint(fs, "/data/c")
    with pytest.raises(KafkaStorageError, match="67,108,865 bytes"):
        replace_file(fs, "/data/d", bytes(MAX_FILE_BYTES + 1))

    assert not fs.exists("/data/d")


def test_a_file_that_is_read_again_is_parsed_once(fs: CrashFileSystem) -> None:
    """A program beside the writer reads that of thousands of partitions for each call."""
    write_checkpoint(fs, PATH, {(f"t{number}", 0): number for number in range(1000)})
    first = read_checkpoint(fs, PATH)
    first["t0", 0] = 7  # it is the caller's own

    counted = Lines()
    with counted.counted():
        again = read_checkpoint(fs, PATH)

    assert again["t0", 0] == 0
    assert counted.count < 100
    write_checkpoint(fs, PATH, OFFSETS)
    assert read_checkpoint(fs, PATH) == OFFSETS
