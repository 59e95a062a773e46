"""Archives of a topic whose cleanup policy was compact, and is delete now.

What its compaction left out was not lost; what a disk lost since was.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any

FILE = "cleaner-offset-checkpoint"
CLEANED = [0, 3, 4, 5, 6]
"""The offsets that compaction has left, each in a segment of its own."""


@pytest.fixture
def cleaned(cli: Cli) -> Cli:
    """Topic t, cleaned up to offset 7, whose segments of offsets 1 and 2 have no record left."""
    return cli.made(make_cleaned)


def make_cleaned(cli: Cli) -> None:
    settings = {"internal.segment.bytes": "800", "retention.ms": "-1", "cleanup.policy": "compact"}
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("t", config=settings)
    add(cli, *b"abbbcdef")
    assert cli.on("compact", "t").code == 0
    assert cli.on("alter", "t", "-o", "cleanup.policy=delete").code == 0


def add(cli: Cli, *keys: int) -> None:
    """Append records, of which each fills a segment."""
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        for key in keys:
            logs.append("t", bytes(600), key=b"%c" % key)


def archive(cli: Cli, tmp_path: Path, *words: str) -> str:
    """Archive the directory; return the archive's URI."""
    uri = (tmp_path / "lake").as_uri()
    assert cli.on("archive", "t", "--to", uri, *words).code == 0
    return uri


def offsets_in(cli: Cli, place: object) -> list[int]:
    """Return the offsets of all records at a place, where nothing is lost or damaged."""
    assert cli("verify", place).code == 0
    shown = cli("cat", "t", "-d", place)
    assert (shown.code, "a file seems to be lost" in shown.err) == (0, False)
    return [row["offset"] for row in shown.rows]


def restored(cli: Cli, uri: str, tmp_path: Path, *words: str) -> Path:
    back = tmp_path / "back"
    assert cli("restore", uri, "--to", back, *words).code == 0
    return back


def test_what_compaction_left_out_is_no_loss(cleaned: Cli, tmp_path: Path) -> None:
    """In the archive, in what is restored or mirrored from it, and in the archive of that."""
    uri = archive(cleaned, tmp_path)
    back = restored(cleaned, uri, tmp_path, "--keep-ids")
    assert cleaned("mirror", uri, "--to", tmp_path / "mirror").code == 0

    found = [offsets_in(cleaned, place) for place in (uri, back, tmp_path / "mirror")]

    assert found == [CLEANED] * 3
    assert (back / FILE).read_text("ascii") == "0\n1\nt 0 7\n"
    again = cleaned("archive", back, "--to", uri, "--continue")
    assert (again.code, offsets_in(cleaned, uri)) == (0, CLEANED)


def test_a_snapshot_says_how_far_its_log_was_cleaned(cleaned: Cli, tmp_path: Path) -> None:
    """That of a compacted topic, too: what is restored of it need not be cleaned again."""
    uri = archive(cleaned, tmp_path, "--snapshot", "monday")
    back = restored(cleaned, f"{uri}/snapshots/monday", tmp_path)

    assert offsets_in(cleaned, f"{uri}/snapshots/monday") == [*CLEANED, 7]
    assert offsets_in(cleaned, back) == [*CLEANED, 7]
    assert (back / FILE).read_text("ascii") == "0\n1\nt 0 7\n"


@pytest.mark.parametrize("lost", [7, 8])
def test_what_the_disk_has_lost_since_is_reported(cleaned: Cli, tmp_path: Path, lost: int) -> None:
    """Where the log was cleaned up to the loss, too; by reads and by ``verify``."""
    add(cleaned, *b"ghij")
    (cleaned.data / "t-0" / f"{lost:020}.log").unlink()
    uri = archive(cleaned, tmp_path)
    back = restored(cleaned, uri, tmp_path)

    for place in (cleaned.data, uri, back):
        found = cleaned("verify", place)
        assert (found.code, f"no segment holds offset {lost}\n" in found.out) == (1, True)
        shown = cleaned("cat", "t", "-d", place)
        assert (shown.code, f"offset {lost}" in shown.err) == (1, True)


def test_what_is_lost_between_two_copies_is_reported(cleaned: Cli, tmp_path: Path) -> None:
    """The archive ends before it, so no cleaning has left it out of what was copied."""
    uri = archive(cleaned, tmp_path)
    add(cleaned, *b"gh")
    first = cleaned.data / "t-0" / f"{7:020}.log"
    first.unlink()

    assert cleaned.on("archive", "t", "--to", uri).code == 0

    assert cleaned("cat", "t", "-d", uri).code == 1
    assert cleaned("verify", uri).code == 1


def test_a_lost_partition_comes_back_with_its_line(cleaned: Cli, tmp_path: Path) -> None:
    """Into the checkpoint of the directory that has lost it, whose other lines stay."""
    uri = archive(cleaned, tmp_path)
    shutil.rmtree(cleaned.data / "t-0")
    (cleaned.data / FILE).write_text("0\n1\nu 0 3\n")

    assert cleaned("restore", uri, "t", "--to", cleaned.data).code == 0

    assert (cleaned.data / FILE).read_text("ascii") == "0\n2\nu 0 3\nt 0 7\n"
    assert offsets_in(cleaned, cleaned.data) == CLEANED


def test_an_archive_of_an_earlier_release_is_read_as_before(cleaned: Cli, tmp_path: Path) -> None:
    """It says nothing about cleanings until what the log has closed since is added to it."""
    uri = archive(cleaned, tmp_path)
    for version in (tmp_path / "lake").glob("*/0/m/*"):
        fields = json.loads(version.read_bytes())
        del fields["cleaned"]
        version.write_text(json.dumps(fields) + "\n")
    assert cleaned("cat", "t", "-d", uri).code == 1
    assert cleaned("verify", uri).code == 1
    back = restored(cleaned, uri, tmp_path)
    assert cleaned("verify", back).code == 1
    assert not (back / FILE).exists()

    add(cleaned, *b"g")
    archive(cleaned, tmp_path)

    assert offsets_in(cleaned, uri) == [*CLEANED, 7]
