"""The files of a segment: names, renames, deletion."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.segment.segment_files import SegmentFiles
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from tests.unit.segment.conftest import Room

    from tidelog.env.files import OpenFile, OpenMode
    from tidelog.segment.segment import LogSegment
    from tidelog.testing import CrashFileSystem

KINDS = ["index", "log", "timeindex", "txnindex"]


def full(room: Room, suffix: str = "") -> LogSegment:
    segment = room.segment(0, suffix=suffix)
    room.append(segment, [0], [5])
    segment.update_txn_index([AbortedTxn(0, 7, 0, 0, 1)])
    return segment


def names(suffix: str = "") -> list[str]:
    return [f"{0:020d}.{kind}{suffix}" for kind in KINDS]


def test_all_files_have_the_suffix_they_were_opened_with(room: Room) -> None:
    """A segment under construction is named .cleaned from its first byte on."""
    segment = full(room, ".cleaned")

    assert room.names() == names(".cleaned")
    assert segment.has_suffix(".cleaned")


def test_a_change_of_suffix_renames_records_first(room: Room) -> None:
    """The order is log, offset, time, transaction index.

    Scenario: LogSegmentTest.testChangeFileSuffixes
    """
    segment = full(room, ".cleaned")
    before = len(room.fs.operations)

    segment.change_suffix(".cleaned", ".swap")

    assert room.names() == names(".swap")
    renamed = [op.path for op in room.fs.operations[before:] if op.name == "rename"]
    kinds = [path.removesuffix(".swap").removesuffix(".cleaned") for path in renamed]
    assert [kind.rpartition(".")[2] for kind in kinds] == ["log", "index", "timeindex", "txnindex"]


def test_a_renamed_segment_stays_usable(room: Room) -> None:
    """Nothing is closed: appends, reads and lookups use the same files."""
    segment = full(room)

    segment.change_suffix("", ".deleted")
    room.append(segment, [1], [6])

    assert segment.read_next_offset() == 2
    assert len(room.fs.read(room.path(names(".deleted")[1]))) == segment.size_bytes


def test_files_that_were_never_created_are_ignored(room: Room) -> None:
    """A new segment has only its .log file; renaming creates no others."""
    segment = room.segment(0)

    segment.change_suffix("", ".deleted")

    assert room.names() == [f"{0:020d}.log.deleted"]


def test_a_missing_suffix_cannot_be_changed(room: Room) -> None:
    """In that case nothing is renamed."""
    segment = full(room)

    with pytest.raises(InvalidArgument):
        segment.change_suffix(".swap", "")

    assert room.names() == names()


def test_deletion_removes_all_files(room: Room) -> None:
    """A second call does nothing."""
    segment = full(room)

    segment.delete()
    segment.delete()

    assert room.names() == []


def test_deletion_of_an_unused_segment_creates_no_file(room: Room) -> None:
    """Only its .log file exists.

    Scenario: LogSegmentTest.testDeleteIfExistsWithGetParentIsNull
    """
    room.segment(0).delete()

    assert room.names() == []


def test_deletion_tries_every_file(room: Room) -> None:
    """Afterwards the first error is raised."""
    segment = full(room)
    room.fs.fail("delete", ".log", OSError(errno.EIO, "bad block"))

    with pytest.raises(OSError, match="bad block"):
        segment.delete()

    assert room.names() == [names()[1]]


def test_files_of_a_moved_future_copy_are_deleted(room: Room) -> None:
    """A copy may replace its partition between the renaming and the deletion of a segment."""
    future = f"/data/topic-0.{'0' * 32}-future"
    room.fs.make_directory(future)
    segment = full(room)
    segment.change_suffix("", ".deleted")
    segment.moved_to(future)

    segment.delete()

    assert room.names() == []


def test_a_live_file_of_that_name_is_not_deleted(room: Room) -> None:
    """Only .deleted files are looked up in the other directory."""
    future = f"/data/topic-0.{'0' * 32}-future"
    segment = full(room)
    segment.moved_to(future)

    segment.delete()

    assert room.names() == names()


def test_a_moved_segment_finds_its_files(room: Room) -> None:
    """The directory was renamed by its owner, which calls ``moved_to``.

    Scenario: TransactionIndexTest.testUpdateParentDir
    """
    segment = full(room)
    room.fs.rename(room.directory, "/data/other-0")

    segment.moved_to("/data/other-0")
    segment.change_suffix("", ".deleted")

    assert sorted(room.fs.list("/data/other-0")) == names(".deleted")


class HugeFiles:
    """A file system whose files seem to have 2 GiB."""

    def __init__(self, fs: CrashFileSystem) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file that reports a size of 2 GiB."""
        file = self._fs.open(path, mode)
        file.size = lambda: 2**31  # type: ignore[method-assign]  # the point of this class
        return file


def test_a_file_of_two_gibibytes_is_rejected(room: Room) -> None:
    """Its positions would not fit the index; the file is kept."""
    full(room).close()
    huge = HugeFiles(room.fs)

    with pytest.raises(KafkaStorageError):
        SegmentFiles.open(huge, room.directory, 0, suffix="", index_bytes=96, preallocated_bytes=0)

    assert room.names() == names()


def test_a_failed_preallocation_leaves_no_file(room: Room) -> None:
    """On a full disk no segment is created."""
    room.fs.fail("truncate", ".log", OSError(errno.ENOSPC, "full"))

    with pytest.raises(OSError, match="full"):
        room.segment(0, preallocate=True)

    assert room.names() == []


def test_the_modification_time_is_set_for_existing_files(room: Room) -> None:
    """For records, offset and time index: a cleaned segment keeps the age of its sources."""
    segment = full(room)

    segment.set_modified_ms(1_234)

    times = {name: room.fs.stat(room.path(name)).mtime_ms for name in room.names()}
    assert [times[name] for name in names()[:3]] == [1_234] * 3
