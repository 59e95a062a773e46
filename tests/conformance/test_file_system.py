"""The contract of every file system, real or in memory."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tidelog.env.files import FileStat
from tidelog.env.overlay_files import OverlayFiles
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.conftest import Place

    from tidelog.env.files import OpenMode


def test_write_creates_and_replaces(place: Place) -> None:
    """A written file contains exactly the bytes written last."""
    place.fs.write(place.path("f"), b"longer")
    place.fs.write(place.path("f"), b"ab")

    assert place.fs.read(place.path("f")) == b"ab"


def test_open_for_reading_needs_the_file(place: Place) -> None:
    """Mode r does not create."""
    with pytest.raises(FileNotFoundError):
        place.fs.open(place.path("f"), "r")

    assert not place.fs.exists(place.path("f"))


def test_open_for_writing_creates_or_keeps(place: Place) -> None:
    """Mode w creates an empty file, and keeps the bytes of an existing one."""
    for expected in (b"", b"ab"):
        with closing(place.fs.open(place.path("f"), "w")) as file:
            assert file.pread(9, 0) == expected
            file.pwrite(b"ab", 0)


def test_open_exclusively_needs_a_free_name(place: Place) -> None:
    """Mode x rejects an existing file."""
    with pytest.raises(FileExistsError):
        place.fs.open(place.file("f"), "x")


@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_directory_is_not_opened(place: Place, mode: OpenMode) -> None:
    """A directory is not a file."""
    with pytest.raises(IsADirectoryError):
        place.fs.open(place.root, mode)


def test_reading_a_missing_file_fails(place: Place) -> None:
    """A missing file cannot be read."""
    with pytest.raises(FileNotFoundError):
        place.fs.read(place.path("f"))


def test_rename_replaces_the_target(place: Place) -> None:
    """After a rename the old name is free and the new one refers to the file."""
    place.file("new", b"new")
    place.file("old", b"old")

    place.fs.rename(place.path("new"), place.path("old"))

    assert place.fs.list(place.root) == ["old"]
    assert place.fs.read(place.path("old")) == b"new"


def test_rename_moves_a_directory_with_its_files(place: Place) -> None:
    """Files keep their names when their directory is renamed."""
    place.fs.make_directory(place.path("a"))
    place.file("a/f", b"ab")

    place.fs.rename(place.path("a"), place.path("b"))

    assert place.fs.read(place.path("b/f")) == b"ab"
    assert not place.fs.exists(place.path("a"))


def test_rename_needs_the_source(place: Place) -> None:
    """A missing file cannot be renamed, and the target is kept."""
    place.file("target", b"ab")

    with pytest.raises(FileNotFoundError):
        place.fs.rename(place.path("source"), place.path("target"))

    assert place.fs.read(place.path("target")) == b"ab"


def test_rename_does_not_replace_a_full_directory(place: Place) -> None:
    """A directory that is not empty is never lost to a rename."""
    place.fs.make_directory(place.path("a"))
    place.fs.make_directory(place.path("b/c"))

    with pytest.raises(OSError):
        place.fs.rename(place.path("a"), place.path("b"))


def test_link_gives_a_second_name(place: Place) -> None:
    """Both names refer to one file, which exists until both are deleted."""
    place.fs.link(place.file("f", b"ab"), place.path("g"))
    place.fs.write(place.path("f"), b"cd")
    place.fs.delete(place.path("f"))

    assert place.fs.read(place.path("g")) == b"cd"


def test_the_real_path_of_what_is_no_link_is_its_path(place: Place) -> None:
    """Dots are resolved; an entry need not exist."""
    root = place.fs.real_path(place.root)

    assert place.fs.real_path(place.file("f")) == os.path.join(root, "f")
    assert place.fs.real_path(place.path("a/../g")) == os.path.join(root, "g")


def test_the_real_path_leads_through_the_links_above(tmp_path: Path) -> None:
    """An entry that does not exist lies where the link to its directory leads."""
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "there").mkdir()

    for fs in (SYSTEM_FILES, OverlayFiles(SYSTEM_FILES)):
        assert fs.real_path(str(tmp_path / "link/a/b")) == os.path.realpath(tmp_path / "there/a/b")


def test_link_needs_a_free_name(place: Place) -> None:
    """A link never replaces a file."""
    place.file("g", b"g")

    with pytest.raises(FileExistsError):
        place.fs.link(place.file("f"), place.path("g"))

    assert place.fs.read(place.path("g")) == b"g"


def test_delete_needs_the_file(place: Place) -> None:
    """Deleting a missing file is an error."""
    with pytest.raises(FileNotFoundError):
        place.fs.delete(place.path("f"))


def test_delete_takes_files_only(place: Place) -> None:
    """A directory is not deleted as a file."""
    place.fs.make_directory(place.path("d"))

    with pytest.raises(OSError):
        place.fs.delete(place.path("d"))


def test_delete_directory_takes_empty_ones_only(place: Place) -> None:
    """A directory can be deleted once it is empty."""
    place.fs.make_directory(place.path("d"))
    place.file("d/f")
    with pytest.raises(OSError):
        place.fs.delete_directory(place.path("d"))

    place.fs.delete(place.path("d/f"))
    place.fs.delete_directory(place.path("d"))

    assert place.fs.list(place.root) == []


def test_list_gives_the_names_of_files_and_directories(place: Place) -> None:
    """A listing contains plain names of one level."""
    place.fs.make_directory(place.path("d/e"))
    place.file("f")

    assert sorted(place.fs.list(place.root)) == ["d", "f"]


@pytest.mark.parametrize(
    ("name", "error"), [("none", FileNotFoundError), ("f", NotADirectoryError)]
)
def test_list_needs_a_directory(place: Place, name: str, error: type[OSError]) -> None:
    """Only a directory can be listed."""
    place.file("f")

    with pytest.raises(error):
        place.fs.list(place.path(name))


def test_make_directory_makes_those_above(place: Place) -> None:
    """A directory is created with its parents; a second call does nothing."""
    place.fs.make_directory(place.path("a/b/c"))
    place.fs.make_directory(place.path("a/b/c"))

    assert place.fs.list(place.path("a/b")) == ["c"]


def test_make_directory_does_not_replace_a_file(place: Place) -> None:
    """The name of a file is taken."""
    with pytest.raises(FileExistsError):
        place.fs.make_directory(place.file("f"))


def test_a_file_needs_its_directory(place: Place) -> None:
    """A file cannot be created in a directory that does not exist."""
    with pytest.raises(FileNotFoundError):
        place.fs.write(place.path("none/f"), b"")


def test_stat_tells_size_time_and_kind(place: Place) -> None:
    """A file's entry has its size, and its modification time to the millisecond."""
    place.fs.set_mtime_ms(place.file("f", b"abc"), 1_700_000_000_123)

    found = place.fs.stat(place.path("f"))
    assert found._replace(inode=0) == FileStat(3, 1_700_000_000_123, is_directory=False)
    place.fs.rename(place.path("f"), place.path("g"))
    assert place.fs.stat(place.path("g")).inode == found.inode
    assert place.fs.stat(place.root).is_directory


@pytest.mark.parametrize("call", ["stat", "free_bytes", "sync_directory"])
def test_a_missing_entry_is_an_error(place: Place, call: str) -> None:
    """An entry that does not exist has no metadata."""
    with pytest.raises(FileNotFoundError):
        getattr(place.fs, call)(place.path("none"))


def test_exists_is_false_below_a_file(place: Place) -> None:
    """A path through a file does not exist."""
    place.file("f")

    assert place.fs.exists(place.path("f"))
    assert not place.fs.exists(place.path("f/g"))


def test_free_bytes_is_a_number_of_bytes(place: Place) -> None:
    """There is free space where a file was just written."""
    assert place.fs.free_bytes(place.root) > 0


def test_sync_directory_changes_nothing_to_be_seen(place: Place) -> None:
    """After a sync, a directory has the same names as before."""
    place.file("f")

    place.fs.sync_directory(place.root)

    assert place.fs.list(place.root) == ["f"]


def test_a_lock_is_held_once(place: Place) -> None:
    """A second lock in this process is rejected, and the error names this process."""
    lock = place.fs.lock(place.path(".lock"))

    with pytest.raises(DirectoryLocked) as caught:
        place.fs.lock(place.path(".lock"))

    assert caught.value.pid == os.getpid()
    lock.release()


def test_a_released_lock_can_be_taken(place: Place) -> None:
    """After a release, which can be repeated, the lock is free; the file is kept."""
    lock = place.fs.lock(place.path(".lock"))
    lock.release()
    other = place.fs.lock(place.path(".lock"))
    lock.release()

    with pytest.raises(DirectoryLocked):
        place.fs.lock(place.path(".lock"))

    other.release()
    assert place.fs.exists(place.path(".lock"))


def test_locks_of_two_files_are_apart(place: Place) -> None:
    """A process may hold many locks."""
    first = place.fs.lock(place.path("a"))
    second = place.fs.lock(place.path("b"))

    second.release()

    with pytest.raises(DirectoryLocked):
        place.fs.lock(place.path("a"))
    first.release()


def test_a_locked_file_may_be_deleted_by_its_holder(place: Place) -> None:
    """The holder of the lock may delete the file before releasing it."""
    lock = place.fs.lock(place.path(".lock"))
    place.fs.delete(place.path(".lock"))
    lock.release()

    place.fs.lock(place.path(".lock")).release()
