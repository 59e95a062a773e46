"""The life of an index file: created, preallocated, trimmed, resized, renamed, closed."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptIndex, InvalidArgument
from tidelog.segment.index_file import MAX_INDEX_BYTES, read_index_file, read_whole_index
from tidelog.segment.offset_index import OffsetIndex

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.segment.conftest import Room

NAME = "00000000000000000000.index"


def make(room: Room, max_bytes: int = 100) -> OffsetIndex:
    return OffsetIndex(room.fs, room.path(NAME), 0, max_bytes)


def size(room: Room) -> int:
    return room.fs.stat(room.path(NAME)).size_bytes


def opened(room: Room) -> int:
    return sum(operation.name == "open" for operation in room.fs.operations)


def test_a_new_file_is_zeros_up_to_the_maximum_size_rounded_down(room: Room) -> None:
    """Preallocation only takes whole entries."""
    make(room).create()

    assert room.fs.read(room.path(NAME)) == bytes(96)


def test_queries_do_not_create_a_missing_file(room: Room) -> None:
    """Lookups, sizes and ``repr`` leave the directory unchanged."""
    index = make(room)

    answers = index.lookup(5), index.entry_count, index.is_full, index.max_entries, repr(index)

    assert answers[:4] == ((0, 0), 0, False, 12)
    assert room.names() == []


def test_closing_an_unused_index_does_nothing(room: Room) -> None:
    """A missing file is not created and an existing one not touched."""
    make(room).close()
    assert room.names() == []

    room.fs.write(room.path(NAME), b"whatever it holds")
    make(room).close()

    assert size(room) == 17


def test_trailing_zeros_are_not_entries(room: Room) -> None:
    """A crash leaves them if trimming was lost; closing then trims the file."""
    make(room).append(5, 10)
    before = size(room)

    again = make(room)
    last, count = again.last(), again.entry_count
    again.close()

    assert (last, count) == ((5, 10), 1)
    assert (before, size(room)) == (96, 8)


def test_zeros_alone_are_not_entries(room: Room) -> None:
    """The exception is a file of one entry, since the first entry may be zero."""
    room.fs.write(room.path(NAME), bytes(24))
    assert (make(room).last(), make(room).entry_count) == (None, 0)

    room.fs.write(room.path(NAME), bytes(8))
    assert (make(room).last(), make(room).entry_count) == ((0, 0), 1)


def test_an_odd_end_is_ignored_and_trimmed_on_close(room: Room) -> None:
    """Bytes after the last whole entry are not an entry."""
    room.fs.write(room.path(NAME), np.array([1, 7], ">i4").tobytes() + b"odd")
    index = make(room)

    found = index.lookup(9)
    index.close()

    assert found == (1, 7)
    assert size(room) == 8


def test_an_odd_end_is_trimmed_even_if_only_the_last_entry_was_read(room: Room) -> None:
    """On close, any use leaves the file as Kafka does."""
    room.fs.write(room.path(NAME), np.array([1, 7], ">i4").tobytes() + b"odd")
    index = make(room)

    found = index.last()
    index.close()

    assert found == (1, 7)
    assert size(room) == 8


def test_close_trims_to_the_entries_durably(room: Room) -> None:
    """After a power cut, the closed file is unchanged."""
    index = make(room)
    index.append(5, 10)

    index.close()
    room.fs.sync_directory(room.directory)
    room.fs.sync_directory("/data")
    room.fs.sync_directory("/")
    room.fs.power_cut()

    assert room.fs.read(room.path(NAME)) == np.array([5, 10], ">i4").tobytes()


def test_resizing_makes_room_after_the_entries(room: Room) -> None:
    """The trimmed file of a segment that becomes active gets its full size, with zeros at the end.

    Scenario: TimeIndexTest.testResize
    """
    index = make(room)
    index.append(5, 10)
    index.close()

    again = make(room)
    again.resize()
    again.append(6, 20)

    assert again.entry_count == 2
    assert size(room) == 96
    assert room.fs.read(room.path(NAME))[16:] == bytes(80)


def test_resizing_clears_truncated_entries(room: Room) -> None:
    """Readers of the file never see entries that were removed."""
    index = make(room)
    index.append_all(np.array([1, 2, 3]), np.array([1, 2, 3]))

    index.truncate_to(2)
    index.resize()

    assert room.fs.read(room.path(NAME)) == np.array([1, 1], ">i4").tobytes() + bytes(88)


def test_reset_removes_any_entries(room: Room) -> None:
    """Recovery starts from an empty file, whatever its content, with room up to the full size."""
    room.fs.write(room.path(NAME), b"garbage instead of entries")
    index = make(room)

    index.reset()
    seen = index.entry_count, index.free_entries
    index.trim()

    assert seen == (0, 12)
    assert room.fs.read(room.path(NAME)) == b""


def test_a_file_rebuilt_with_the_same_content_is_not_written(room: Room) -> None:
    """After a kill most indexes are right; a thousand logs are recovered without a write."""
    index = make(room)
    index.append(3, 0)
    index.close()
    again = make(room)
    before = [operation.name for operation in room.fs.operations]

    again.reset()
    again.append(3, 0)
    again.trim()

    done = [operation.name for operation in room.fs.operations][len(before) :]
    assert {"pwrite", "truncate", "sync"}.isdisjoint(done)
    assert again.entry_count == 1


def test_a_maximum_size_below_one_entry_is_rejected(room: Room) -> None:
    """Kafka's minimum of 4 bytes is less than one entry; no file is created."""
    with pytest.raises(InvalidArgument):
        make(room, max_bytes=7).create()

    assert room.names() == []


def test_entries_are_appended_with_one_write(room: Room) -> None:
    """This holds for any number of entries."""
    index = make(room)
    index.create()
    before = len(room.fs.operations)

    index.append_all(np.arange(1, 9), np.arange(8))

    assert [operation.name for operation in room.fs.operations[before:]] == ["pwrite"]


def test_a_failed_write_leaves_the_entries_unchanged(room: Room) -> None:
    """Entries that are not in the file are not in memory."""
    index = make(room)
    index.append(1, 1)
    room.fs.fail("pwrite", ".index", OSError(errno.ENOSPC, "full"))

    with pytest.raises(OSError, match="full"):
        index.append(2, 2)

    assert index.last_offset == 1
    index.append(3, 3)
    assert index.entry_count == 2


def test_the_last_entry_is_known_without_loading_the_file(room: Room) -> None:
    """Reading the last entries of thousands of segments reads a few bytes of each."""
    index = make(room)
    index.append_all(np.arange(1, 9), np.arange(8))
    index.close()
    again = make(room)

    assert again.last_offset == 8
    assert again._entries is None


def test_memory_grows_with_the_entries_not_with_the_maximum_size(room: Room) -> None:
    """A preallocated file of megabytes costs no memory while it is empty."""
    index = make(room, max_bytes=10 << 20)

    index.append_all(np.arange(1, 301), np.arange(300))

    assert len(index.entries().keys) < 1_000
    assert index.lookup(250) == (250, 249)


def test_sync_creates_a_missing_file(room: Room) -> None:
    """After a flush of a segment all its index files exist."""
    index = make(room)

    index.sync()

    assert size(room) == 96


def test_sync_closes_a_sealed_file(room: Room) -> None:
    """An inactive segment's index has no descriptor once it is durable, and stays readable."""
    index = make(room)
    index.append(1, 5)
    index.seal()
    index.sync()
    before = opened(room)

    index.sync()
    found = index.lookup(3)

    assert found == (1, 5)
    assert opened(room) == before
    assert index._file is None


def test_closing_the_handlers_writes_nothing(room: Room) -> None:
    """After a disk failure the file stays unchanged."""
    index = make(room)
    index.append(1, 5)
    before = len(room.fs.operations)

    index.close_handlers()

    assert len(room.fs.operations) == before
    assert size(room) == 96


def test_renaming_continues_with_the_same_file(room: Room) -> None:
    """Entries written after a rename are in the renamed file."""
    index = make(room)
    index.append(1, 5)

    index.rename(room.path(NAME + ".deleted"))
    index.append(2, 6)
    index.close()

    assert room.names() == [NAME + ".deleted"]
    assert size_of_entries(room, NAME + ".deleted") == 2


def size_of_entries(room: Room, name: str) -> int:
    return room.fs.stat(room.path(name)).size_bytes // 8


def test_renaming_an_index_without_a_file_creates_none(room: Room) -> None:
    """The file will be created under the new name."""
    index = make(room)

    index.rename(room.path(NAME + ".deleted"))
    assert room.names() == []

    index.append(1, 5)
    assert room.names() == [NAME + ".deleted"]


def test_deletion_returns_whether_the_file_existed(room: Room) -> None:
    """A missing file is not an error."""
    index = make(room)
    assert not index.delete_if_exists()

    index.append(1, 5)

    assert index.delete_if_exists()
    assert room.names() == []


@pytest.mark.parametrize("entries", [0, 1, 87_381, 87_382, 131_072, 131_073])
@pytest.mark.parametrize("zeros", [0, 12, 5_000_000])
def test_the_zeros_of_an_index_are_not_kept_in_memory(room: Room, entries: int, zeros: int) -> None:
    """All bytes of its entries are, also of one that ends in zeros at the end of a block."""
    data = b"\1\0\0\0\0\0\0\0\0\0\0\0" * entries
    room.fs.write(room.path(NAME), data + bytes(zeros))

    found, size = read_index_file(room.fs, room.path(NAME))

    assert size == len(data) + zeros
    assert found.startswith(data)
    assert found.count(0) == len(found) - entries
    assert len(data) + min(zeros, 24) <= len(found) <= len(data) + (1 << 20) + 64


def test_an_index_of_more_entries_than_a_segment_has_batches_is_corrupt(tmp_path: Path) -> None:
    """A sparse file with a last entry would take as much memory as it seems to have bytes."""
    path = tmp_path / NAME
    with path.open("wb") as file:
        file.seek(MAX_INDEX_BYTES + 8)
        file.write(b"x" * 8)

    for read in (read_index_file, read_whole_index):
        with pytest.raises(CorruptIndex):
            read(SYSTEM_FILES, str(path))
