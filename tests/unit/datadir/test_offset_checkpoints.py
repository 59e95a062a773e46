"""The four checkpoint files, as a writer keeps them that loads a few logs only."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.datadir.offset_checkpoints import (
    CHECKPOINT_FILES,
    LOG_FILES,
    DirectoryCheckpoints,
)
from tidelog.errors import KafkaStorageError

RECOVERY, STARTS, WATERMARKS, CLEANER = CHECKPOINT_FILES


@dataclass
class Segments:
    """What is asked of a log's segments."""

    first_base_offset: int = 0


@dataclass
class Offsets:
    """What is asked of a log."""

    recovery_point: int
    local_log_start_offset: int
    high_watermark: int
    segments: Segments = field(default_factory=Segments)


def home_with(lines: str, *directories: str) -> DataHome:
    """Return a data directory whose four files hold ``lines``, and these directories."""
    home = DataHome()
    text = "".join(f"{line}\n" for line in lines.split(",") if line)
    for name in CHECKPOINT_FILES:
        home.write(name, f"0\n{text.count(chr(10))}\n{text}")
    for name in directories:
        home.fs.make_directory(f"{home.path}/{name}")
    return home


def checkpoints(home: DataHome) -> DirectoryCheckpoints:
    """Read the files."""
    return DirectoryCheckpoints(home.fs, home.path)


def lines(home: DataHome, name: str) -> list[str]:
    """Return the lines of entries of one file."""
    return home.text(name).splitlines()[2:]


def written(home: DataHome, **offsets: Any) -> DataHome:
    """Write the offsets of t-0."""
    log: Any = Offsets(
        **{"recovery_point": 5, "local_log_start_offset": 0, "high_watermark": 6} | offsets
    )
    checkpoints(home).write({("t", 0): log})
    return home


def test_a_line_says_where_a_log_stands() -> None:
    """Recovery point and log start come from their files; without a line they are 0."""
    found = checkpoints(home_with("t 0 7"))

    assert [found.recovery_point(("t", 0)), found.log_start_offset(("t", 0))] == [7, 7]
    assert [found.recovery_point(("t", 1)), found.log_start_offset(("t", 1))] == [0, 0]


@pytest.mark.parametrize("content", ["1\n0\n", "0\n2\nt 0 1\n", "0\n1\nt zero 1\n", "0\nx\n"])
@pytest.mark.parametrize("name", CHECKPOINT_FILES)
def test_a_file_that_does_not_read_stops_a_writer(name: str, content: str) -> None:
    """A writer that took unknown offsets for 0 would write that down for all logs."""
    home = home_with("")
    home.write(name, content)

    with pytest.raises(KafkaStorageError, match=name):
        checkpoints(home)


def test_lines_of_logs_that_are_not_loaded_stay() -> None:
    """Their directories exist, and nobody knows better."""
    home = written(home_with("t 0 1,other 3 9", "t-0", "other-3"))

    assert {"other 3 9", "t 0 5"} == set(lines(home, RECOVERY))
    assert {"other 3 9", "t 0 6"} == set(lines(home, WATERMARKS))


def test_lines_without_a_directory_go() -> None:
    """A dead line would cut a new log of the same name."""
    home = written(home_with("t 0 1,gone 3 9", "t-0"))

    assert [lines(home, n) for n in (RECOVERY, STARTS, WATERMARKS)] == [["t 0 5"], [], ["t 0 6"]]


def test_a_line_stays_where_it_cannot_be_told_whether_its_directory_is_there() -> None:
    """Nor does the error of another directory keep the offsets of a log from being written."""
    home = home_with("t 0 1,other 3 9", "t-0", "other-3")
    home.fs.fail("exists", "/other-3", OSError(errno.EIO, "the disk failed"), count=9)
    written(home)

    assert {"other 3 9", "t 0 5"} == set(lines(home, RECOVERY))


def test_lines_of_partitions_that_the_catalogue_places_here_stay() -> None:
    """Their directories may be away for a moment, on a disk that is not mounted.

    One that has moved to another data directory has its lines there.
    """
    home = home_with("away 0 7,away 1 8,gone 3 9,t 0 1", "t-0")
    log: Any = Offsets(5, 0, 6)
    known = checkpoints(home)
    known.is_placed_here = lambda key: key == ("away", 0)
    known.write({("t", 0): log})
    kept = lines(home, WATERMARKS), lines(home, STARTS)
    known.forget([("away", 0)])

    assert kept == (["away 0 7", "t 0 6"], ["away 0 7"])
    assert lines(home, WATERMARKS) == ["t 0 6"]


@pytest.mark.parametrize("name", ["a\x00b", "..", "a/b", "t-0/../t"])
def test_lines_that_can_have_no_directory_are_dropped(name: str) -> None:
    """A damaged line may hold any name; none is looked for outside the directory."""
    home = written(home_with(f"t 0 1,{name} 0 9", "t-0"))

    assert lines(home, RECOVERY) == ["t 0 5"]


@pytest.mark.parametrize(("log_start", "first_base", "expected"), [(3, 0, ["t 0 3"]), (3, 3, [])])
def test_a_log_start_is_written_where_files_do_not_say_it(
    log_start: int, first_base: int, expected: list[str]
) -> None:
    """There is a line only if the log starts above its first segment's base offset."""
    home = home_with("", "t-0")
    written(home, local_log_start_offset=log_start, segments=Segments(first_base))

    assert expected == lines(home, STARTS)


def test_recovery_points_are_durable_before_high_watermarks() -> None:
    """What readers see was flushed, also in the files."""
    home = home_with("", "t-0")
    before = len(home.fs.operations)
    written(home)

    renamed = [o.path for o in home.fs.operations[before:] if o.name == "rename"]
    assert [f"{home.path}/{name}" for name in (RECOVERY, WATERMARKS)] == [
        path.removesuffix(".tmp") for path in renamed
    ]


def test_log_starts_are_durable_before_recovery_points() -> None:
    """A deletion of records raises both; what it left below may be neither flushed nor checked."""
    home = home_with("", "t-0")
    log: Any = Offsets(5, 3, 6)
    checkpoints(home).write_recovery_points({("t", 0): log})

    renamed = [o.path for o in home.fs.operations if o.name == "rename"]
    assert [f"{home.path}/{name}.tmp" for name in (STARTS, RECOVERY)] == renamed
    assert (lines(home, STARTS), lines(home, RECOVERY)) == (["t 0 3"], ["t 0 5"])


def test_no_position_of_a_group_is_written_without_the_records_before_it() -> None:
    """A group reads a record after it is in its log, so its position is looked at before that."""
    home = home_with("", "Z-0", "__consumer_offsets-0", "a-0")
    looks: list[object] = []

    class Moving(Offsets):
        """A log that gets a record whenever any log is looked at."""

        def __getattribute__(self, name: str) -> Any:
            if name == "high_watermark":
                looks.append(self)
                return 5 + len(looks)
            return super().__getattribute__(name)

    logs: Any = {(name, 0): Moving(0, 0, 0) for name in ("Z", "__consumer_offsets", "a")}
    checkpoints(home).write_high_watermarks(logs)

    assert lines(home, WATERMARKS) == ["Z 0 7", "__consumer_offsets 0 6", "a 0 8"]


def test_a_file_that_would_not_change_is_not_written() -> None:
    """Closing a directory in which nothing moved costs no fsync."""
    home = written(home_with("", "t-0"))
    before = len(home.fs.operations)

    written(home)

    assert before == len(home.fs.operations)


def test_forgetting_a_partition_takes_its_lines_out_of_the_files_of_logs() -> None:
    """Durably, and no other line; the file of the cleaner is not its own to write."""
    home = home_with("t 0 1,t 1 2,u 0 3", "t-1", "u-0")
    checkpoints(home).forget([("t", 0)])
    home.fs.power_cut()

    assert [lines(home, name) for name in LOG_FILES] == [["t 1 2", "u 0 3"]] * 3
    assert lines(home, CLEANER) == ["t 0 1", "t 1 2", "u 0 3"]


def test_forgetting_what_has_no_line_writes_nothing() -> None:
    """A new topic's name is usually not in the files."""
    home = home_with("t 0 1", "t-0")
    before = len(home.fs.operations)
    checkpoints(home).forget([("new", 0)])

    assert before == len(home.fs.operations)


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "no descriptor"), KeyboardInterrupt()])
def test_offsets_that_go_back_after_a_failed_write_are_written(error: Any) -> None:
    """A write may fail when its file is in place: what it says does not outlive a truncation."""
    home = home_with("t 0 5", "t-0")
    known = checkpoints(home)
    ahead: Any = Offsets(recovery_point=9, local_log_start_offset=0, high_watermark=9)
    home.fs.fail("sync_directory", home.path, error, skipped=1)  # that of log starts
    with pytest.raises(type(error)):
        known.write_recovery_points({("t", 0): ahead})
    found = lines(home, RECOVERY), known.is_in_doubt

    truncated: Any = Offsets(recovery_point=5, local_log_start_offset=0, high_watermark=5)
    known.write_recovery_points({("t", 0): truncated})

    assert found == (["t 0 9"], True)
    assert (lines(home, RECOVERY), known.is_in_doubt) == (["t 0 5"], False)


def test_a_line_of_a_failed_write_is_forgotten_with_its_partition() -> None:
    """Else a new partition of that name would count as flushed that far."""
    home = home_with("", "t-0")
    known = checkpoints(home)
    ahead: Any = Offsets(recovery_point=9, local_log_start_offset=0, high_watermark=9)
    home.fs.fail("sync_directory", home.path, OSError(errno.EMFILE, "no descriptor"))
    with pytest.raises(OSError, match="no descriptor"):
        known.write_recovery_points({("t", 0): ahead})

    known.forget([("t", 0)])

    assert lines(home, RECOVERY) == []
