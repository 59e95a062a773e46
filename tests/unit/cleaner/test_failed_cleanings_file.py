"""The file of failed cleanings."""

from __future__ import annotations

import errno
import json

from tidelog.cleaner.failed_cleanings import next_failure
from tidelog.cleaner.failed_cleanings_file import FILE_NAME, read_failures, write_failures
from tidelog.testing import CrashFileSystem

FAILURE = next_failure(None, ValueError("bad"), 1000)


def test_what_is_written_is_read() -> None:
    """Partition, error, count and times are read back; without failures there is no file."""
    fs = CrashFileSystem()
    fs.make_directory("/data")

    write_failures(fs, "/data", {("t", 1): FAILURE})
    found = read_failures(fs, "/data")
    write_failures(fs, "/data", {})

    assert found == {("t", 1): FAILURE}
    assert not fs.exists(f"/data/{FILE_NAME}")
    assert read_failures(fs, "/data") == {}


def test_a_damaged_file_counts_as_empty() -> None:
    """It is a warning, not an error: the file is only for people."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    for content in (b"nonsense", b'[{"topic": 1}]', b"[1]"):
        fs.write(f"/data/{FILE_NAME}", content)

        assert read_failures(fs, "/data") == {}


def test_a_file_that_cannot_be_looked_for_counts_as_empty() -> None:
    """An error of the disk is a warning, too."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    write_failures(fs, "/data", {("t", 1): FAILURE})
    fs.fail("exists", FILE_NAME, OSError(errno.EIO, "the disk failed"))

    assert read_failures(fs, "/data") == {}


def test_an_io_error_of_the_file_does_not_stop_the_cleaner() -> None:
    """The file only informs people, so a full disk must not stop the cleaner because of it."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.fail("open", ".tmp", OSError(28, "full"))

    write_failures(fs, "/data", {("t", 1): FAILURE})

    assert read_failures(fs, "/data") == {}


def test_the_form_of_the_first_release_is_read() -> None:
    """It was a list without a version."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    line = {"topic": "t", "partition": 1, **FAILURE._asdict()}
    fs.write(f"/data/{FILE_NAME}", json.dumps([line]).encode())

    assert read_failures(fs, "/data") == {("t", 1): FAILURE}


def test_a_file_of_a_newer_release_is_left_alone() -> None:
    """It is neither read nor replaced nor deleted."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    newer = b'{"version": 99, "failures": "elsewhere"}'
    fs.write(f"/data/{FILE_NAME}", newer)

    write_failures(fs, "/data", {("t", 1): FAILURE})
    write_failures(fs, "/data", {})

    assert (fs.read(f"/data/{FILE_NAME}"), read_failures(fs, "/data")) == (newer, {})
