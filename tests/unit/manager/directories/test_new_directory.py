"""A directory that is made beside its place: what a failing disk leaves."""

from __future__ import annotations

import errno
import os

import pytest

from tidelog.errors import DirectoryLocked
from tidelog.manager.directories.new_directory import NewDirectory
from tidelog.testing import CrashFileSystem


def begun(fs: CrashFileSystem) -> NewDirectory:
    """Make the directory, or continue with the one of an earlier call."""
    made = NewDirectory(fs, "/new", ".restoring")
    made.begin("lake", what="this archive", continues=True)
    fs.write(os.path.join(made.path, "content"), b"all")
    return made


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_a_name_that_may_not_be_durable_is_taken_back(code: int) -> None:
    """So a repetition is not refused because there is something at the target."""
    fs = CrashFileSystem()
    with begun(fs) as made:
        fs.fail("sync_directory", "/", OSError(code, "bad block"))
        with pytest.raises(OSError, match="bad block"):
            made.put_in_place()

    assert not fs.exists("/new")
    fs.mend()
    with begun(fs) as made:
        made.put_in_place()
    assert fs.list("/new") == ["content"]
    assert not fs.exists("/new.restoring")


@pytest.mark.parametrize("continues", [True, False])
def test_nobody_else_makes_it_meanwhile(*, continues: bool) -> None:
    """A second call would truncate files that the first one has finished, or remove them."""
    fs = CrashFileSystem()
    with begun(fs) as made:
        with (
            pytest.raises(DirectoryLocked, match=r"/new\.restoring"),
            NewDirectory(fs, "/new", ".restoring") as other,
        ):
            other.begin("lake", what="this archive", continues=continues)
        made.put_in_place()

    assert fs.list("/new") == ["content"]


def test_a_mark_that_cannot_be_deleted_is_no_error() -> None:
    """The directory is complete by then, and durable."""
    fs = CrashFileSystem()
    made = begun(fs)
    fs.fail("delete", "tidelog.restoring", OSError(errno.EIO, "bad block"))

    made.put_in_place()

    assert sorted(fs.list("/new")) == ["content", "tidelog.restoring"]
