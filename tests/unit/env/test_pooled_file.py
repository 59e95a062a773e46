"""Files that are closed when too many are open, and reopened on the next use."""

from __future__ import annotations

import errno
import io
from typing import TYPE_CHECKING

import pytest

from tidelog.env.pooled_file import PooledFile
from tidelog.testing import CrashFileSystem
from tidelog.testing.crash_files import CrashFile

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile, OpenMode


class CountingFiles(CrashFileSystem):
    """Counts the openings of files."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.descriptors.limit = limit
        self.opens: list[tuple[str, str]] = []
        self.make_directory("/data")
        self.sync_directory("/")

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open and count a file."""
        self.opens.append((path, mode))
        return super().open(path, mode)

    def pooled(self, name: str, data: bytes = b"") -> PooledFile:
        """Create a file with these bytes, written and synced."""
        file = PooledFile(self, f"/data/{name}").open("w")
        if data:
            file.pwrite(data, 0)
            file.sync()
        return file

    def syncs(self) -> list[str]:
        """Return the paths of all files synced so far."""
        return [operation.path for operation in self.operations if operation.name == "sync"]


def test_below_the_limit_nothing_is_closed_synced_or_opened_again() -> None:
    """The budget costs nothing below its limit."""
    fs = CountingFiles(limit=3)
    files = [fs.pooled(name) for name in "abc"]
    for file in files * 5:
        file.pwrite(b"x", 0)
        file.pread(1, 0)

    assert (fs.descriptors.evictions, fs.descriptors.open_count, fs.syncs()) == (0, 3, [])
    assert len(fs.opens) == 3


def test_the_least_recently_used_file_is_closed() -> None:
    """Use is any read or write; here the second file has gone unused for longest."""
    fs = CountingFiles(limit=3)
    files = [fs.pooled(name, b"1") for name in "abc"]
    for file in (files[1], files[0], files[2]):
        file.pread(1, 0)
    files.append(fs.pooled("d"))

    assert [file.is_open for file in files] == [True, False, True, True]
    assert (fs.descriptors.evictions, fs.descriptors.open_count) == (1, 3)


def test_a_closed_file_is_opened_again_for_each_kind_of_use() -> None:
    """Readers and writers need not know of the limit."""
    fs = CountingFiles(limit=1)
    one, other = fs.pooled("one", b"abc"), fs.pooled("other")
    buffer = bytearray(2)

    def disturbed() -> PooledFile:
        other.pread(1, 0)
        assert not one.is_open
        return one

    assert disturbed().pread(2, 1) == b"bc"
    assert (disturbed().pread_into(buffer, 0), bytes(buffer)) == (2, b"ab")
    disturbed().pwrite(b"X", 1)
    assert disturbed().size() == 3
    disturbed().truncate(2)
    assert disturbed().pread(9, 0) == b"aX"
    disturbed().sync()
    held = disturbed().hold()
    assert held.pread(9, 0) == b"aX"
    held.close()


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_renamed_file_is_opened_again_where_it_is_now(is_moved: bool) -> None:
    """Whether it was renamed itself, or the directory around it."""
    fs = CountingFiles(limit=1)
    one, other = fs.pooled("one", b"abc"), fs.pooled("other")
    fs.make_directory("/data/later")
    if is_moved:
        fs.rename("/data/one", "/data/later/one")
        one.moved_to("/data/later/one")
    else:
        one.rename("/data/later/one")
    fs.write("/data/one", b"not this one")
    other.pread(1, 0)

    assert (one.pread(9, 0), one.path, one.is_open) == (b"abc", "/data/later/one", True)


def test_what_is_held_is_never_closed() -> None:
    """It stays readable after renaming, deletion and the opening of any number of files."""
    fs = CountingFiles(limit=1)
    one = fs.pooled("one", b"abc")
    held = one.hold()
    others = [fs.pooled(name) for name in "xyz"]
    one.rename("/data/two")
    one.close()
    fs.delete("/data/two")

    assert held.pread(3, 0) == b"abc"
    assert [file.is_open for file in others] == [False, False, True]
    held.close()
    with pytest.raises(OSError, match="closed"):
        one.pread(1, 0)


def test_where_all_files_are_held_more_than_the_limit_are_open() -> None:
    """Then only the process's own limit applies."""
    fs = CountingFiles(limit=2)
    files = [fs.pooled(name, name.encode()) for name in "ab"]
    held = [file.hold() for file in files]
    files += [fs.pooled(name, name.encode()) for name in "cd"]
    held += [file.hold() for file in files[2:]]

    assert [file.pread(1, 0) for file in held] == [b"a", b"b", b"c", b"d"]
    assert (fs.descriptors.open_count, fs.descriptors.evictions) == (4, 2)


def test_what_was_written_is_synced_before_the_descriptor_is_closed() -> None:
    """Otherwise no descriptor would be left to report a later write error."""
    fs = CountingFiles(limit=1)
    one = fs.pooled("one")
    one.pwrite(b"abc", 0)
    fs.sync_directory("/data")
    fs.pooled("other")

    assert fs.syncs() == ["/data/one"]
    one.sync()
    assert (one.is_open, fs.syncs()) == (False, ["/data/one"])
    fs.power_cut("none")
    assert fs.read("/data/one") == b"abc"


def test_bytes_from_before_the_file_was_opened_are_synced_too() -> None:
    """An earlier process may have left them unsynced: only a sync made here is relied on."""
    fs = CountingFiles(limit=1)
    fs.write("/data/one", b"abc")
    fs.sync_directory("/data")
    one = PooledFile(fs, "/data/one")
    one.pread(1, 0)
    fs.pooled("other")
    one.sync()
    fs.power_cut("none")

    assert fs.read("/data/one") == b"abc"


def test_a_file_that_needs_no_sync_is_closed_rather_than_an_older_one_that_does() -> None:
    """Among the older half; a file used lately stays open even if that costs a sync."""
    fs = CountingFiles(limit=4)
    files = [fs.pooled(name, b"1") for name in "abcd"]
    for file in files:
        file.pread(1, 0)
    files[0].pwrite(b"2", 0)
    for file in files[1:]:
        file.pread(1, 0)
    before = len(fs.syncs())
    later = [fs.pooled("e", b"1")]
    assert [file.is_open for file in files] == [True, False, True, True]
    assert fs.syncs()[before:] == ["/data/e"]

    files[2].pwrite(b"2", 0)
    for file in (files[3], *later):
        file.pread(1, 0)
    fs.pooled("f")
    assert [file.is_open for file in files] == [False, False, True, True]
    assert fs.syncs()[before:] == ["/data/e", "/data/a"]


def test_a_sync_that_fails_while_room_is_made_fails_the_files_next_sync_and_write() -> None:
    """Not the file that needed the room. The kernel reports such an error once only."""
    fs = CountingFiles(limit=1)
    one = fs.pooled("one", b"abc")
    one.pwrite(b"xyz", 0)
    fs.fail("sync", "/one", OSError(errno.EIO, "bad block"))
    other = fs.pooled("other", b"other")

    assert (one.is_open, other.pread(5, 0)) == (False, b"other")
    for use in (one.sync, lambda: one.pwrite(b"1", 0), lambda: one.truncate(0), one.sync):
        with pytest.raises(OSError, match="bad block") as raised:
            use()
        assert raised.value.errno == errno.EIO
    assert one.size() == 3


def test_a_file_that_vanished_is_not_made_anew() -> None:
    """An empty file in its place would hide the loss."""
    fs = CountingFiles(limit=1)
    one, _ = fs.pooled("one", b"abc"), fs.pooled("other")
    fs.delete("/data/one")

    with pytest.raises(FileNotFoundError):
        one.pwrite(b"x", 0)
    assert fs.list("/data") == ["other"]


def test_a_reader_goes_on_while_the_file_is_opened_for_writing() -> None:
    """Its descriptor closes when it has ended, and nobody else keeps it open."""
    fs = CountingFiles(limit=9)
    fs.write("/data/one", b"abc")
    one = PooledFile(fs, "/data/one")
    held = one.hold()
    one.pwrite(b"x", 0)

    assert (held.pread(3, 0), held.holders) == (b"xbc", 1)
    held.close()


def test_a_read_that_an_opening_for_writing_meets_keeps_its_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On another thread it has got it just before."""
    fs = CountingFiles(limit=9)
    fs.write("/data/one", b"abc")
    one = PooledFile(fs, "/data/one").open()
    read = CrashFile.pread

    def read_late(file: CrashFile, size: int, position: int) -> bytes:
        monkeypatch.undo()
        one.pwrite(b"x", 0)
        return read(file, size, position)

    monkeypatch.setattr(CrashFile, "pread", read_late)

    assert one.pread(3, 0) == b"xbc"
    assert len(fs.opens) == 2
    one.close()


def test_a_closed_file_counts_no_longer() -> None:
    """Nor does a file that is no longer referenced."""
    fs = CountingFiles(limit=9)
    one = fs.pooled("one")
    fs.pooled("forgotten")
    assert fs.descriptors.open_count == 1
    one.close()

    assert fs.descriptors.open_count == 0
    for use in (one.size, one.sync, one.hold, one.open):
        with pytest.raises(OSError, match="file is closed"):
            use()


def test_only_what_is_held_has_a_descriptor() -> None:
    """A number taken from elsewhere may be another file's a moment later."""
    one: OpenFile = CountingFiles(limit=1).pooled("one")

    assert one.native_reads() is None
    with pytest.raises(io.UnsupportedOperation):
        one.fileno()


def test_a_start_of_the_writeback_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose descriptor was closed has been synced."""
    started = []

    def note(file: CrashFile, size: int, position: int) -> None:
        started.append((file.path, size, position))

    monkeypatch.setattr(CrashFile, "start_writeback", note)
    fs = CountingFiles(limit=1)
    one, two = fs.pooled("one", b"abc"), fs.pooled("two", b"abc")
    opens = list(fs.opens)
    one.start_writeback(3, 0)
    two.start_writeback(2, 1)

    assert (started, fs.opens) == ([("/data/two", 2, 1)], opens)


def test_a_file_that_has_not_changed_since_its_sync_is_not_synced_again() -> None:
    """Each commit flushes its logs, and closing flushes them again."""
    fs = CrashFileSystem()
    file = PooledFile(fs, "/f").open("w")
    file.pwrite(b"a", 0)
    file.sync()
    before = len(fs.operations)
    file.sync()
    assert len(fs.operations) == before

    file.pwrite(b"b", 1)
    file.sync()
    file.truncate(1)
    file.sync()
    assert [one.name for one in fs.operations[before:]] == ["pwrite", "sync", "truncate", "sync"]
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.sync()
