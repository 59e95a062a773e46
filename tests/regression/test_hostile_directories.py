"""Faults that ``tests/crash/hostile_directories.py`` has found, each under the name of its rule."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[1] / "golden"
TOO_LARGE = 1 << 31


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """Copy a golden directory to where it may be damaged."""

    def copied(name: str) -> Path:
        data = tmp_path / "data"
        shutil.copytree(GOLDEN / name, data)
        return data

    return copied


def test_a_segment_that_is_too_large_is_not_sound(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """No writer loads a log with a file of 2 GiB, so verify calls that damage."""
    data = copy("own/data/short-writer")
    path = max(data.glob("codec-none-0/*.log"))
    with path.open("r+b") as file:
        file.truncate(TOO_LARGE)

    assert main(["verify", "-d", str(data), "codec-none"]) == 1
    assert "more than a segment can have" in capsys.readouterr().out
    assert main(["recover", "-d", str(data), "codec-none"]) == 1


def test_a_cut_file_larger_than_a_segment_is_refused_unread(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that was cut off a segment is larger: a hole of a terabyte is not looked through."""
    data = copy("own/data/short-writer")
    cut = data / f"tidelog.{'A' * 22}-0.{0:020d}.1.cut"
    cut.touch()
    os.truncate(cut, 1 << 40)

    assert main(["salvage", "-d", str(data), "--records"]) != 0
    assert "more than a segment" in capsys.readouterr().err


def test_an_index_with_a_hole_of_a_terabyte_is_refused_unread(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """An index is at most as large as ``segment.index.bytes`` can be; without it all is well."""
    data = copy("own/data/short-writer")
    index = max(data.glob("codec-none-0/*.index"))
    os.truncate(index, 1 << 40)

    assert main(["verify", "-d", str(data), "codec-none"]) == 1
    assert "more than an index can have" in capsys.readouterr().out
    assert main(["recover", "-d", str(data), "codec-none"]) == 1
    index.unlink()
    assert main(["recover", "-d", str(data), "codec-none"]) == 0


@pytest.mark.parametrize(
    ("name", "target", "code"),
    [
        ("00000000000000000009.index.swap", "00000000000000000009.index.swap", 0),
        ("00000000000000000900.index", "nowhere", 0),
        ("foo.log", "nowhere", 0),
        ("00000000000000000900.log", "nowhere", 3),
    ],
)
def test_a_link_to_nothing_among_the_files_of_a_log_concerns_that_log_only(
    copy: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    target: str,
    code: int,
) -> None:
    """Nothing is wrong with the disk: every other log is recovered, and the report names it."""
    data = copy("own/data/short-writer")
    (data / "codec-gzip-0" / name).symlink_to(target)

    assert main(["recover", "-d", str(data)]) == code
    printed = capsys.readouterr()
    assert "offline" not in printed.err
    assert "tides-2: [0, 25)" in printed.out
    assert ("codec-gzip-0 cannot be loaded" in printed.err) == bool(code)


def test_what_keeps_a_small_file_from_being_replaced_is_not_sound(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory under the name of the temporary file stops every writer."""
    data = copy("own/data/short-writer")
    (data / "tidelog.topics.json.tmp").mkdir()

    assert main(["verify", "-d", str(data)]) == 1
    assert "tidelog.topics.json cannot be replaced" in capsys.readouterr().out


def test_a_replacement_that_cannot_be_completed_is_not_sound(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """No writer loads a log in which a FIFO has the name of a complete new segment."""
    data = copy("own/data/short-writer")
    os.mkfifo(data / "codec-none-0" / f"{0:020d}.log.swap")

    assert main(["verify", "-d", str(data), "codec-none"]) == 1
    assert "no log manager loads the log" in capsys.readouterr().out
    assert main(["recover", "-d", str(data), "codec-none"]) == 3


def test_an_active_segment_that_is_a_link_is_not_sound(
    copy: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written through a link, so that no writer opens the log; readers do."""
    data = copy("own/data/short-writer")
    path = max(data.glob("codec-none-0/*.log"))
    elsewhere = tmp_path / "file"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()

    assert main(["verify", "-d", str(data), "codec-none"]) == 1
    assert "the active segment is a link" in capsys.readouterr().out
    assert main(["cat", "codec-none", "-d", str(data)]) == 0
    assert main(["recover", "-d", str(data), "codec-none"]) == 3
    assert elsewhere.read_bytes() == before


@pytest.mark.timeout(60)
def test_a_move_ends_where_the_catalogue_cannot_be_written(
    copy: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command reports why, and neither the log nor its copy is deleted."""
    data, other = copy("data/compaction/after"), tmp_path / "other"
    other.mkdir()
    (data / "tidelog.topics.json.tmp").mkdir()
    before = {path.name: path.read_bytes() for path in data.glob("compact-txn-0/*.log")}

    assert main(["move", "compact-txn", "--to", str(other), "-d", str(data)]) == 3
    assert "tidelog.topics.json.tmp" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in data.glob("compact-txn-0/*.log")} == before
    assert len(list(other.glob("compact-txn-0*"))) == 1


def test_an_empty_replacement_does_not_take_the_place_of_records(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """What it would replace is still there, so that it is the replacement that is deleted."""
    data = copy("data/crash/swap-left/before")
    (swap,) = data.glob("*-0/*.log.swap")
    original = swap.with_suffix("")
    assert original.stat().st_size
    swap.write_bytes(b"")
    before = original.read_bytes()

    main(["recover", "-d", str(data)])
    assert "no segment holds" not in capsys.readouterr().out
    assert original.read_bytes() == before
    assert list(data.glob("*-0/*.swap")) == []


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_index_that_is_a_link_is_not_sound(
    copy: Callable[[str], Path], tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verify says what to do, and then the log opens and its index is built again."""
    data = copy("own/data/short-writer")
    path = max(data.glob(f"codec-none-0/*.{kind}"))
    path.unlink()
    path.symlink_to(tmp_path)

    assert main(["verify", "-d", str(data), "codec-none"]) == 1
    assert "the index is a link" in capsys.readouterr().out
    path.unlink()
    assert main(["recover", "-d", str(data), "codec-none"]) == 0
    assert path.is_file()
    assert not path.is_symlink()
