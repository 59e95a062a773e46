"""``tidelog roll``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


def bases(directory: Path) -> list[int]:
    """Return the base offsets of the segments of a partition."""
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def test_an_active_segment_with_records_is_closed_once(cli: Cli) -> None:
    """The next one begins at the log end; one without a record stays, so a repeat does no harm."""
    assert cli.on("create", "t", "-p", 2).code == 0
    assert cli.on("append", "t", "-p", 0, stdin="a\nb\n").code == 0

    first = cli.on("roll", "t")
    again = cli.on("roll", "t", "--json")

    assert first.code == again.code == 0
    assert first.out.splitlines()[0].startswith("t-0: closed [0, 2), ")
    assert "t-1: nothing to close: no record is in the active segment" in first.out
    assert bases(cli.data / "t-0") == [0, 2]
    assert bases(cli.data / "t-1") == [0]
    assert [row["closedBaseOffset"] for row in again.rows[:2]] == [None, None]
    assert [row["activeBaseOffset"] for row in again.rows[:2]] == [2, 0]
    assert cli.values() == ["a", "b"]
    assert cli.on("verify").code == 0


def test_a_cleaning_reaches_what_was_closed(cli: Cli) -> None:
    """A value and the tombstone after it need no further record to be cleaned."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", config={"cleanup.policy": "compact"})
        logs.append("t", b"private", key=b"a")
        logs.append("t", None, key=b"a")

    assert cli.on("roll", "t").code == 0
    assert cli.on("compact", "t").code == 0

    assert cli.values() == [None]
    assert "limited by the active segment, which is empty" in cli.on("compact", "t").out
    assert all(b"private" not in path.read_bytes() for path in cli.data.rglob("*.log"))


def test_an_active_segment_whose_first_records_are_deleted_is_not_empty(cli: Cli) -> None:
    """It counts as clean; what else it has is cleaned once it is closed."""
    cli.on("create", "t")
    cli.append("a", "b", "c")
    cli.on("delete-records", "t", "-p", "0", "--before", "1")
    cli.on("alter", "t", "-o", "cleanup.policy=compact")

    found = cli.on("plan", "compaction", "t").out
    assert "from offset 1 on, limited by the active segment, which is never cleaned: an" in found


def test_deleted_records_leave_the_disk_with_the_segment_that_was_closed(cli: Cli) -> None:
    """Of the active segment they stay, though readers do not see them."""
    assert cli.on("create", "t", "-o", "retention.ms=-1").code == 0
    cli.append("private")
    words = ("delete-records", "t", "-p", "all", "--before", "latest")

    kept = cli.on(*words).out
    on_disk = cli.log_file().exists()
    assert cli.on("roll", "t").code == 0
    done = cli.on(*words)

    assert "tidelog roll" in kept
    assert on_disk
    assert "deleted 1 segment" in done.out
    assert not cli.log_file().exists()
