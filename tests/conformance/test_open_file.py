"""The contract of every open file, real or in memory."""

from __future__ import annotations

import errno
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.conformance.conftest import Place


def test_pread_returns_what_was_written_at_the_position(place: Place) -> None:
    """A read at a position returns the bytes written there."""
    with closing(place.fs.open(place.path("f"), "x")) as file:
        file.pwrite(b"abcdef", 0)
        file.pwrite(b"XY", 2)

        assert file.pread(3, 1) == b"bXY"


def test_pread_is_short_only_at_the_end_of_the_file(place: Place) -> None:
    """A read across the end returns the remaining bytes; at the end, none."""
    with closing(place.fs.open(place.file("f", b"abc"))) as file:
        assert (file.pread(10, 1), file.pread(10, 3), file.pread(10, 9)) == (b"bc", b"", b"")


def test_pread_into_fills_a_writable_array(place: Place) -> None:
    """A buffer is filled up to the end of the file; the rest is not touched."""
    buffer = np.full(5, 0x2E, np.uint8)
    with closing(place.fs.open(place.file("f", b"abcd"))) as file:
        count = file.pread_into(buffer, 1)

    assert (count, buffer.tobytes()) == (3, b"bcd..")


def test_pwrite_takes_any_buffer(place: Place) -> None:
    """Arrays of wide items and slices of views are written as bytes."""
    with closing(place.fs.open(place.path("f"), "w")) as file:
        file.pwrite(np.array([0x6261, 0x6463], "<u2"), 0)
        file.pwrite(memoryview(b"__ef__")[2:4], 4)

        assert file.pread(9, 0) == b"abcdef"


def test_nothing_is_written_and_read_in_no_bytes(place: Place) -> None:
    """Empty buffers are accepted and leave the file unchanged, even beyond its end."""
    with closing(place.fs.open(place.file("f", b"ab"), "w")) as file:
        file.pwrite(np.empty(0, np.uint8), 1)
        file.pwrite(b"", 9)

        assert (file.pread(0, 0), file.pread_into(bytearray(), 0), file.size()) == (b"", 0, 2)


def test_pwrite_beyond_the_end_leaves_zeros(place: Place) -> None:
    """The gap before a write beyond the end reads as zeros."""
    with closing(place.fs.open(place.file("f", b"a"), "w")) as file:
        file.pwrite(b"b", 3)

        assert file.pread(9, 0) == b"a\0\0b"


def test_truncate_cuts_and_extends(place: Place) -> None:
    """A file can be truncated, and extended with zeros."""
    with closing(place.fs.open(place.file("f", b"abcd"), "w")) as file:
        file.truncate(2)
        file.truncate(3)

        assert (file.size(), file.pread(9, 0)) == (3, b"ab\0")


def test_sync_keeps_the_bytes(place: Place) -> None:
    """A sync has no visible effect."""
    with closing(place.fs.open(place.file("f", b"ab"), "w")) as file:
        file.sync()

        assert file.pread(9, 0) == b"ab"


def test_a_start_of_the_writeback_changes_nothing(place: Place) -> None:
    """Neither the bytes nor what a sync does; a closed file refuses it."""
    file = place.fs.open(place.file("f"), "w")
    file.pwrite(b"ab", 0)
    file.start_writeback(2, 0)
    file.sync()
    file.start_writeback(100, 1)
    found = file.pread(9, 0)
    file.close()

    assert found == b"ab"
    with pytest.raises(OSError) as caught:
        file.start_writeback(2, 0)
    assert caught.value.errno == errno.EBADF


def test_the_file_closes_with_its_last_holder(place: Place) -> None:
    """Each hold needs its own close; after the last one nothing can be read."""
    file = place.fs.open(place.file("f", b"ab"))
    assert file.hold() is file
    file.close()
    assert file.pread(2, 0) == b"ab"

    file.close()

    with pytest.raises(OSError) as caught:
        file.pread(2, 0)
    assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("use", ["hold", "close", "size", "sync"])
def test_a_closed_file_cannot_be_used(place: Place, use: str) -> None:
    """Any use of a closed file is EBADF, including another close."""
    file = place.fs.open(place.file("f"), "w")
    file.close()

    with pytest.raises(OSError) as caught:
        getattr(file, use)()

    assert caught.value.errno == errno.EBADF


def test_a_file_opened_for_reading_is_not_written(place: Place) -> None:
    """A write or truncation through a read-only file fails and changes nothing."""
    with closing(place.fs.open(place.file("f", b"ab"))) as file:
        with pytest.raises(OSError):
            file.pwrite(b"x", 0)
        with pytest.raises(OSError):
            file.truncate(0)

        assert file.pread(9, 0) == b"ab"


def test_an_open_file_outlives_its_name(place: Place) -> None:
    """After a rename or a delete, a holder still reads the same file."""
    with closing(place.fs.open(place.file("f", b"ab"))) as file:
        place.fs.rename(place.path("f"), place.path("g"))
        place.fs.delete(place.path("g"))

        assert (file.path, file.pread(9, 0)) == (place.path("f"), b"ab")


def test_a_file_that_must_exist_is_opened_for_writing(place: Place) -> None:
    """Mode "r+" does not create a file."""
    path = place.file("f", b"abc")
    with closing(place.fs.open(path, "r+")) as file:
        file.pwrite(b"X", 1)
        assert file.pread(9, 0) == b"aXc"

    with pytest.raises(FileNotFoundError):
        place.fs.open(place.path("none"), "r+")
    assert not place.fs.exists(place.path("none"))


def test_holders_are_counted(place: Place) -> None:
    """The opener is the first holder."""
    file = place.fs.open(place.file("f"))
    held = file.hold()

    assert file.holders == 2
    held.close()
    assert file.holders == 1
    file.close()
