"""``tidelog recover`` and ``tidelog plan recovery``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.embedded.doors import open_briefly

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


def everything(data: Path) -> dict[str, bytes]:
    """Return all files below a directory with their bytes."""
    return {str(path): path.read_bytes() for path in data.rglob("*") if path.is_file()}


PLANS = (["recover", "--dry-run"], ["plan", "recovery"])


@pytest.mark.parametrize("words", PLANS)
def test_a_plan_prints_what_would_be_cut_and_changes_nothing(torn: Cli, words: list[str]) -> None:
    """The byte of the cut, the records after it, and the files that change; exit code 1."""
    before = everything(torn.data)

    code, rows = torn.on(*words, "--full", "--json").code, torn.on(*words, "--full", "--json").rows

    size = torn.log_file().stat().st_size
    loss = rows[0]["losses"][0]
    assert (code, everything(torn.data)) == (1, before)
    assert (rows[0]["logEndOffset"], rows[0]["lostRecords"]) == (1, 1)
    assert (loss["byte"], loss["bytes"], loss["records"]) == (size // 3, 2 * size // 3, 1)
    assert (loss["firstOffset"], loss["lastOffset"]) == (2, 2)
    assert loss["unreadableBytes"] == size // 3
    cut = {"file": str(torn.log_file()), "bytesBefore": size, "bytesAfter": size // 3}
    cut["movedFrom"] = None
    assert cut in rows[0]["files"]


def test_recovery_does_what_its_plan_printed(torn: Cli) -> None:
    """The same losses are printed, and the log is cut there."""
    plan = torn.on("recover", "--dry-run", "--full", "--json").rows
    done = torn.on("recover", "--full", "--json")

    assert done.code == 1
    assert done.rows == [{**row, "files": []} for row in plan]
    assert torn.values() == ["a"]


def test_a_plan_says_the_same_as_often_as_it_is_asked(torn: Cli) -> None:
    """Though a recovery draws the epoch that begins where records are lost, of 4 to 7 digits."""
    plans = {torn.on("recover", "--dry-run", "--full").out for _ in range(30)}

    assert len(plans) == 1
    assert "leader-epoch-checkpoint: would be" in plans.pop()


def test_a_log_with_one_damaged_batch_waits_for_its_recovery(topic: Cli) -> None:
    """Until then it is read and takes no appends; the recovery cuts it at the damaged batch."""
    for value in ("a", "b", "c", "d"):
        topic.append(value)
    data = bytearray(topic.log_file().read_bytes())
    data[len(data) // 4 + 7] ^= 8
    topic.log_file().write_bytes(data)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (topic.data / name).unlink()

    refused = topic.on("append", "t", "-", stdin="x")
    kept = topic.log_file().read_bytes()
    plan = topic.on("plan", "recovery", "--json").rows
    done = topic.on("recover", "t", "--json")

    assert (refused.code, kept) == (1, data)
    assert "`tidelog recover t` cuts the log there" in refused.err
    assert done.rows == [{**row, "files": []} for row in plan]
    assert (done.code, done.rows[0]["logEndOffset"], done.rows[0]["lostRecords"]) == (1, 1, 3)
    assert topic.values() == ["a"]
    assert topic.on("append", "t", "-", stdin="x").code == 0


def test_a_log_that_ends_before_its_start_loses_what_readers_have_seen(topic: Cli) -> None:
    """It is emptied, and begins above all that it had."""
    for value in ("a", "b", "c"):
        topic.append(value)
    (topic.data / ".kafka_cleanshutdown").unlink()
    (topic.data / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1003\n")
    data = bytearray(topic.log_file().read_bytes())
    data[-1] ^= 8
    topic.log_file().write_bytes(data)

    plan = topic.on("plan", "recovery")
    (row,) = topic.on("recover", "--json").rows

    text = "offsets 0 to 2 would be lost: 2 readable records; readers have seen offsets up to 2"
    assert text in plan.out
    assert (row["logEndOffset"], row["firstLostOffset"], row["lastLostOffset"]) == (1003, 0, 2)


def test_a_recovery_does_not_mark_the_directory_as_cleanly_shut_down(torn: Cli) -> None:
    """The mark would vouch for what is not loaded; the next start has one segment to check."""
    assert torn.on("recover", "--full").code == 1

    checkpoint = (torn.data / "recovery-point-offset-checkpoint").read_text()
    assert checkpoint.splitlines()[2:] == ["t 0 1"]
    assert not (torn.data / ".kafka_cleanshutdown").exists()


def test_after_a_clean_shutdown_only_full_checks(torn: Cli) -> None:
    """A log that was closed cleanly is not checked otherwise, as in Kafka."""
    (torn.data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')

    assert torn.on("recover", "--dry-run").code == 0
    assert torn.on("recover", "--dry-run", "--full").code == 1


def test_a_plan_can_be_read(torn: Cli) -> None:
    """Without ``--json`` the plan is text, one line for each loss and each file."""
    lines = torn.on("plan", "recovery", "--full").out.splitlines()

    assert lines[0].startswith("t-0: [0, 1), ")
    assert lines[1].startswith("  offsets 1 to 2 would be lost: 1 readable record; readers have")
    assert "cut at byte" in lines[2]
    assert "1 readable record at offset 2" in lines[2]
    assert any("would be changed" in line for line in lines)


def test_a_log_that_does_not_load_stops_no_other(topic: Cli) -> None:
    """The error names it, the others are recovered; exit code 1."""
    assert topic.on("create", "u").code == 0
    (topic.data / "u-0" / "partition.metadata").write_bytes(b"nonsense")

    code, out, err = topic.on("recover", "u", "t")

    assert code == 1
    assert "t-0: [0, 0)" in out
    assert "u-0" in err


def test_beside_a_writer_only_records_are_checked(topic: Cli) -> None:
    """Its index files are not said to change: they are being written. Damage is still found."""
    for value in ("a", "b", "c"):
        topic.append(value)
    with open_briefly(topic.data) as logs:
        logs.partition("t", 0)
        sound = topic.on("plan", "recovery", "--full", "--json")
        data = bytearray(topic.log_file().read_bytes())
        data[len(data) // 2] ^= 1
        topic.log_file().write_bytes(data)
        damaged = topic.on("plan", "recovery", "--full", "--json")

    [row] = sound.rows
    assert (sound.code, row["losses"], row["files"]) == (0, [], [])
    assert (row["logEndOffset"], row["checkedBytes"]) == (3, len(data))
    assert "another process is writing" in sound.err
    [loss] = damaged.rows[0]["losses"]
    assert (damaged.code, loss["byte"], loss["records"]) == (1, len(data) // 3, 1)


def test_the_last_line_has_the_sums_of_all_logs(torn: Cli) -> None:
    """In text, and in JSON with the counts; those of a recovery are those of its plan."""
    assert torn.on("create", "u").code == 0
    torn.append("sound", topic="u")
    size = torn.log_file().stat().st_size
    checked = size + torn.log_file("u-0").stat().st_size

    plan = torn.on("plan", "recovery", "--full", "--json")
    text = torn.on("plan", "recovery", "--full").out
    done = torn.on("recover", "--full", "--json")

    assert plan.counts == done.counts
    assert done.counts == {
        "partitions": 2,
        "damaged": 1,
        "refused": 0,
        "missing": 0,
        "checkedBytes": checked,
        "lostBytes": 2 * size // 3,
        "lostRecords": 1,
        "removedSegments": 0,
    }
    assert text.splitlines()[-1] == (
        f"total: 2 partitions, 1 damaged; {checked} bytes checked, {2 * size // 3} bytes with"
        " 1 readable record would be cut, 0 segments would be removed"
    )


@pytest.mark.parametrize("target", ["nothing", "same", "other"])
def test_a_snapshot_that_is_a_link_is_written_again(
    topic: Cli, tmp_path: Path, target: str
) -> None:
    """It is made of the records in any case; what the link leads to is left alone."""
    topic.append("a")
    (snapshot,) = (topic.data / "t-0").glob("*.snapshot")
    outside, content = tmp_path / "outside", snapshot.read_bytes()
    if target != "nothing":
        outside.write_bytes(content if target == "same" else b"theirs")
    snapshot.unlink()
    snapshot.symlink_to(outside)

    assert topic.on("recover", "--full").code == 0

    assert (snapshot.is_symlink(), snapshot.read_bytes()) == (False, content)
    assert not outside.exists() or outside.read_bytes() in {content, b"theirs"}


def test_an_active_segment_that_is_a_link_is_told(topic: Cli, tmp_path: Path) -> None:
    """With what to do: nothing is written through it."""
    topic.append("a")
    log = topic.log_file()
    log.rename(tmp_path / "outside")
    log.symlink_to(tmp_path / "outside")

    answer = topic.on("recover", "--full")

    assert answer.code == 3
    assert "put the file itself in its place" in answer.err
    assert log.is_symlink()
