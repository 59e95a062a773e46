"""``tidelog rescue``."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.manager.test_mirror import transact

import tidelog
from tidelog.env.system_files import SystemFile

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


def test_what_can_be_read_is_in_the_new_directory(torn: Cli, tmp_path: Path) -> None:
    """The report says what is not, and why; exit code 1. The old directory is as it was."""
    before = torn.log_file().read_bytes()
    new = tmp_path / "new"

    code, out, err = torn.on("rescue", "--to", new)

    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0].startswith("t-0: copied [0, 3), 2 records, 2 batches, ")
    assert lines[1].startswith("  left out: ")
    assert lines[1].endswith(".log, offset 1: the CRC of a batch is wrong")
    assert lines[2:] == [
        "  gap: offset 1: what was left out may have held them",
        f"1 partition, 1 of them not whole; copied 2 records, {lines[-1].split(', ', 2)[2]}",
    ]
    assert torn.log_file().read_bytes() == before
    assert [row["value"] for row in torn("cat", "t", "-d", new).rows] == ["a", "c"]
    assert torn("verify", new).code == 0
    assert torn("append", "t", "-d", new, stdin="d").code == 0
    assert [row["offset"] for row in torn("cat", "t", "-d", new).rows] == [0, 2, 3]


def test_a_directory_whose_name_is_not_utf_8_is_copied(topic: Cli, tmp_path: Path) -> None:
    """By rescue and by mirror; tables of sql escape its name, as all commands do."""
    topic.append("a")
    named = tmp_path / "bad\udcff"
    try:
        topic.data.rename(named)
    except OSError:
        pytest.skip("this file system takes no such name")

    for command in ("rescue", "mirror", "mirror"):
        new = tmp_path / command
        assert topic(command, named, "--to", new).code == 0
        assert [row["value"] for row in topic("cat", "t", "-d", new).rows] == ["a"]
    query = "SELECT directory FROM tidelog.partitions"
    found = topic("sql", query, "-d", named, "--format", "csv")
    assert found.out.splitlines()[1:] == [f"{tmp_path}/bad\\udcff/t-0"]


def test_an_unfinished_copy_is_named(
    topic: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes space on a disk that is full; the command can be repeated all the same."""
    topic.append("a")
    new = tmp_path / "new"

    def full(_: SystemFile, *_data: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SystemFile, "pwrite", full)
        outcome = topic.on("rescue", "--to", new)

    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.splitlines() == [
        f"tidelog rescue: {new}.rescuing is unfinished: repeat the command, or delete that",
        f"tidelog rescue: {new}: No space left on device",
    ]
    assert topic.on("rescue", "--to", new).code == 0


def test_what_is_open_in_the_copy_and_what_is_counted_are_said(topic: Cli, tmp_path: Path) -> None:
    """Readers of committed records stop before a transaction; a marker is a batch, no record."""
    with tidelog.open(topic.data) as logs:
        log = logs.partition("t", 0).log
        transact(log, 0, is_commit=True)
        transact(log, 1, is_commit=None)
        copied_bytes = log.size_bytes
    watermark = topic.data / "replication-offset-checkpoint"
    watermark.write_text("0\n1\nt 0 9\n")  # whatever was there is lost

    code, out, _ = topic.on("rescue", "--to", tmp_path / "new")

    assert code == 1
    lines = out.splitlines()
    stop = (
        "readers of committed records stop; `tidelog serve` aborts those that __transaction_state"
        " names, `tidelog txns abort` others"
    )
    size = f"2 records, 3 batches (1 marker), {copied_bytes} bytes"
    assert lines == [
        f"t-0: copied [0, 9), {size}",
        f"  open in t-0: 1 transaction, from offset 2 on, where {stop}",
        lines[2],
        f"1 partition, 1 of them not whole; copied {size}",
    ]
    assert lines[2].startswith("  gap: offsets 3 to 8: ")
    assert lines[2].endswith("; an empty batch keeps them")
    checked = topic("verify", tmp_path / "new", "--json").counts
    assert (checked["records"], checked["batches"]) == (2 + 1, 3 + 1)


def test_the_report_as_json(torn: Cli, tmp_path: Path) -> None:
    """A line a partition, a line an entry beside them, and the counts."""
    (torn.data / "notes").mkdir()

    outcome = torn.on("rescue", "--to", tmp_path / "new", "--json")

    one, entry = outcome.rows
    assert (one["whole"], one["records"], one["leftOutCount"], one["gapOffsets"]) == (
        False,
        2,
        1,
        1,
    )
    assert [what["lost"] for what in one["leftOut"]] == [True]
    assert [(gap["startOffset"], gap["endOffset"]) for gap in one["gaps"]] == [(1, 2)]
    assert (entry["file"], entry["lost"]) == (str(torn.data / "notes"), False)
    assert outcome.counts == {
        "partitions": 1,
        "damaged": 1,
        "entries": 1,
        "batches": 2,
        "records": 2,
        "markers": 0,
        "sizeBytes": one["sizeBytes"],
        "leftOut": 1,
    }


def test_a_sound_directory_is_copied_beside_its_writer(topic: Cli, tmp_path: Path) -> None:
    """Exit code 0; nothing is done where something is at the target: 2."""
    topic.append("a", "b")
    new = tmp_path / "new"

    assert topic.on("rescue", "--to", new).code == 0
    assert topic.on("rescue", "--to", new).code == 2
    assert topic("cat", "t", "-d", new).out.count("\n") == 2
    assert topic("rescue", topic.data / "t-0", "--to", tmp_path / "other").code == 2


def test_settings_may_come_from_the_broker(topic: Cli, tmp_path: Path) -> None:
    """Of a directory without a catalogue; else nothing is deleted."""
    topic.append("a")
    (topic.data / "tidelog.topics.json").unlink()
    (topic.data / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"log.dirs={topic.data}\nlog.cleanup.policy=delete\nlog.retention.ms=77\n"
    )
    found = []
    for number, words in enumerate(((), ("--server-properties", properties))):
        new = tmp_path / str(number)
        assert topic.on("rescue", "--to", new, *words).code == 0
        (row,) = topic("describe", "t", "-d", new, "--json").rows
        found.append(row["config"]["retention.ms"] if "config" in row else None)
    assert found == ["-1", "77"]


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_link_to_a_disk_that_is_away_is_a_loss(topic: Cli, *, is_listed: bool) -> None:
    """Of a partition that a catalogue lists, and of one that only the link shows."""
    topic.append("a")
    if not is_listed:
        (topic.data / "tidelog.topics.json").unlink()
    (topic.data / "t-0").rename(topic.home / "t-0")
    (topic.data / "t-0").symlink_to(topic.home / "disk" / "t-0")

    outcome = topic.on("rescue", "--to", topic.home / "new")

    assert outcome.code == 1
    assert f"left out: {topic.data / 't-0'}: it is a link to nothing" in outcome.out


def test_a_target_below_a_file_is_wrong_usage(topic: Cli, tmp_path: Path) -> None:
    """As any other target that cannot be made; a disk that fails ends with 3."""
    (tmp_path / "file").write_bytes(b"")

    outcome = topic.on("rescue", "--to", tmp_path / "file" / "new")

    assert outcome.code == 2
    assert outcome.err == f"tidelog rescue: {tmp_path / 'file'} is a file, not a directory\n"
