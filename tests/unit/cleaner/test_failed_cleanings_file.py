"""Failures of cleanings, for other processes to read."""

from __future__ import annotations

from tidelog.cleaner.failed_cleanings import next_failure
from tidelog.cleaner.failed_cleanings_file import FILE_NAME, read_failures, write_failures
from tidelog.testing import CrashFileSystem

FAILURE = next_failure(None, ValueError("bad"), 1000)


def test_what_is_written_is_read() -> None:
    """Partition, error, count and times come back; without failures there is no file."""
    fs = CrashFileSystem()
    fs.make_directory("/data")

    write_failures(fs, "/data", {("t", 1): FAILURE})
    found = read_failures(fs, "/data")
    write_failures(fs, "/data", {})

    assert found == {("t", 1): FAILURE}
    assert not fs.exists(f"/data/{FILE_NAME}")
    assert read_failures(fs, "/data") == {}


def test_a_damaged_file_says_nothing() -> None:
    """Nonsense is a warning, not an error: the file is only for people."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    for content in (b"nonsense", b'[{"topic": 1}]', b"[1]"):
        fs.write(f"/data/{FILE_NAME}", content)

        assert read_failures(fs, "/data") == {}


def test_a_disk_that_refuses_is_no_failure_of_the_cleaner() -> None:
    """The file is a service to readers; a full disk must not stop the cleaner over it."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.fail("open", ".tmp", OSError(28, "full"))

    write_failures(fs, "/data", {("t", 1): FAILURE})

    assert read_failures(fs, "/data") == {}
