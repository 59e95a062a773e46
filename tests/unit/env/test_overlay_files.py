"""What an overlay adds to the file system contract: nothing below changes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.machinery.counted_lines import Lines

from tidelog.env.overlay_files import FileChange, OverlayFiles
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from pathlib import Path

FILE = "/data/a"


@pytest.fixture
def below() -> CrashFileSystem:
    fs = CrashFileSystem()
    fs.make_directory("/data/dir")
    fs.write(FILE, b"0123456789")
    return fs


def test_a_write_is_visible_here_and_not_below(below: CrashFileSystem) -> None:
    """Bytes written in the middle of a file below are only seen through the overlay."""
    overlay = OverlayFiles(below)
    with closing(overlay.open(FILE, "w")) as file:
        file.pwrite(b"ab", 4)

    assert overlay.read(FILE) == b"0123ab6789"
    assert below.read(FILE) == b"0123456789"


def test_a_truncated_file_grows_with_zeros(below: CrashFileSystem) -> None:
    """Truncated bytes do not come back when the file grows again."""
    overlay = OverlayFiles(below)
    with closing(overlay.open(FILE, "w")) as file:
        file.truncate(3)
        file.truncate(6)
        file.pwrite(b"x", 7)

    assert overlay.read(FILE) == b"012\0\0\0\0x"


def test_a_file_stays_as_it_was_when_first_opened(below: CrashFileSystem) -> None:
    """A running writer below does not make an open file longer."""
    overlay = OverlayFiles(below)
    with closing(overlay.open(FILE)) as file, closing(below.open(FILE, "w")) as other:
        other.pwrite(b"more", 10)

        assert file.size() == 10


def test_changes_name_each_file_that_differs(below: CrashFileSystem) -> None:
    """Created, truncated, renamed and deleted files are listed with sizes before and after."""
    below.write("/data/b", b"bb")
    below.write("/data/c", b"c")
    overlay = OverlayFiles(below)
    overlay.write("/data/dir/new", b"new")
    overlay.write(FILE, b"01")
    overlay.rename("/data/b", "/data/b.deleted")
    overlay.delete("/data/c")

    assert overlay.changes() == [
        FileChange(FILE, 10, 2),
        FileChange("/data/b.deleted", None, 2, "/data/b"),
        FileChange("/data/c", 1, None),
        FileChange("/data/dir/new", None, 3),
    ]


def test_a_file_rewritten_with_the_same_bytes_has_not_changed(below: CrashFileSystem) -> None:
    """Neither rewriting the same bytes nor reading is a change."""
    overlay = OverlayFiles(below)
    overlay.write(FILE, b"0123456789")
    overlay.read(FILE)

    assert overlay.changes() == []


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """As on the disk: else a plan says that all is well where the real run fails."""
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"ab")
    overlay = OverlayFiles(SYSTEM_FILES)

    for fs in (SYSTEM_FILES, overlay):
        for mode in ("r+", "w"):
            with pytest.raises(OSError, match="put the file itself in its place"):
                fs.open(str(path), mode)
    assert overlay.read(str(path)) == b"ab"


def test_a_link_to_a_missing_file_is_replaced_and_deleted_as_on_the_disk(tmp_path: Path) -> None:
    """It cannot be read; else a plan says that a log cannot be loaded where the real run does."""
    one, other, new = (str(tmp_path / name) for name in ("one", "other", "new"))
    for name in ("one", "other"):
        (tmp_path / name).symlink_to(tmp_path / "missing")
    overlay = OverlayFiles(SYSTEM_FILES)

    for fs in (overlay, SYSTEM_FILES):
        assert (fs.exists(one), fs.is_link(one)) == (False, True)
        for ask in (fs.stat, fs.open):
            with pytest.raises(OSError, match="Link to a missing file"):
                ask(one)
        fs.write(new, b"ab")
        fs.rename(new, one)
        fs.delete(other)
        assert (fs.read(one), fs.is_link(one), fs.list(str(tmp_path))) == (b"ab", False, ["one"])


def test_a_listing_costs_nothing_for_changes_elsewhere(below: CrashFileSystem) -> None:
    """Else a plan over many directories takes time with the square of their number."""
    overlay, lines = OverlayFiles(below), []
    for number in range(3):
        overlay.make_directory(f"/data/dir{number}")
        for name in range(10):
            overlay.write(f"/data/dir{number}/{name}", b"")
        counted = Lines()
        with counted.counted():
            assert len(overlay.list("/data/dir0")) == 10
        lines.append(counted.count)

    assert lines[0] == lines[1] == lines[2] > 10


def test_a_lock_below_does_not_matter(below: CrashFileSystem) -> None:
    """A directory that a writer has locked can be examined."""
    held = below.lock("/data/.lock")

    OverlayFiles(below).lock("/data/.lock").release()

    held.release()
