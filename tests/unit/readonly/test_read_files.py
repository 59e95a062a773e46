"""A file system that only reads, and whose errors are tidelog's."""

from __future__ import annotations

import errno

import pytest

from tidelog.errors import InvariantError, KafkaStorageError
from tidelog.readonly.read_files import ReadFiles, reading
from tidelog.testing import CrashFileSystem


@pytest.fixture
def disk() -> CrashFileSystem:
    """A disk with one file."""
    fs = CrashFileSystem()
    fs.make_directory("/d")
    fs.write("/d/f", b"abc")
    return fs


def test_what_is_there_is_read(disk: CrashFileSystem) -> None:
    """As on the disk below."""
    fs = ReadFiles(disk)
    file = fs.open("/d/f")

    assert (fs.read("/d/f"), fs.list("/d"), fs.stat("/d/f").size_bytes) == (b"abc", ["f"], 3)
    assert (fs.exists("/d/f"), fs.exists("/d/g"), fs.is_link("/d/f")) == (True, False, False)
    assert (file.size(), file.pread(2, 1), file.path) == (3, b"bc", "/d/f")
    assert reading(fs) is fs


LOOKS = {
    "open": lambda fs: fs.open("/d/f"),
    "read": lambda fs: fs.read("/d/f"),
    "list": lambda fs: fs.list("/d"),
    "stat": lambda fs: fs.stat("/d/f"),
    "exists": lambda fs: fs.exists("/d/f"),
    "pread": lambda fs: fs.open("/d/f").pread(1, 0),
    "size": lambda fs: fs.open("/d/f").size(),
}


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.EACCES, errno.EISDIR])
@pytest.mark.parametrize("name", LOOKS)
def test_an_error_of_the_disk_is_a_storage_error(
    disk: CrashFileSystem, name: str, code: int
) -> None:
    """It names the file and the reason."""
    fs = ReadFiles(disk)
    disk.fail(name, "", OSError(code, "why", "/d/f"), count=100)

    with pytest.raises(KafkaStorageError, match="/d/f: why"):
        LOOKS[name](fs)


def test_a_missing_file_is_an_answer(disk: CrashFileSystem) -> None:
    """Beside a writer each look has to know what it means."""
    for name in ("open", "read", "list", "stat"):
        with pytest.raises(FileNotFoundError):
            getattr(ReadFiles(disk), name)("/d/g")


def test_nothing_can_be_changed(disk: CrashFileSystem) -> None:
    """Neither by path nor through an open file."""
    fs, before = ReadFiles(disk), len(disk.operations)
    file = fs.open("/d/f")
    changes = [
        lambda: fs.open("/d/g", "w"),
        lambda: fs.write("/d/f", b""),
        lambda: fs.rename("/d/f", "/d/g"),
        lambda: fs.link("/d/f", "/d/g"),
        lambda: fs.delete("/d/f"),
        lambda: fs.delete_directory("/d"),
        lambda: fs.make_directory("/e"),
        lambda: fs.set_mtime_ms("/d/f", 1),
        lambda: fs.lock("/d/.lock"),
        lambda: fs.sync_directory("/d"),
        lambda: file.pwrite(b"x", 0),
        lambda: file.truncate(0),
        file.sync,
    ]

    for change in changes:
        with pytest.raises(InvariantError, match="opened to be read only"):
            change()

    assert len(disk.operations) == before
