"""``tidelog table``: the same answers as the commands that plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.cli.commands.records.test_staged_command import leave_pending

import tidelog
from tidelog.embedded.doors import open_briefly
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.records.builder import build_batch
from tidelog.staging.directory import CommitPoint

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Cli

SMALL = ("-o", "internal.segment.bytes=150")
FIRST_MS = 1_000_000_000_000


def fill(cli: Cli, count: int = 5) -> None:
    """Append records, each about as large as a segment and a second later than the one before."""
    for number in range(count):
        record = {"value": "v" * 60, "timestamp": FIRST_MS + number * 1000}
        words = ("append", "t", "--format", "json")
        assert cli.on(*words, stdin=json.dumps(record) + "\n").code == 0


def planned(cli: Cli, *words: str) -> list[dict[str, Any]]:
    """Return the segments of ``plan retention`` as rows of the table."""
    found = []
    for log in cli.on("plan", "retention", "--json", *words).rows:
        for segment in (*log["deleted"], *log["kept"]):
            reason = segment.get("reason")
            found.append(
                {name: segment[name] for name in ("baseOffset", "endOffset", "sizeBytes", "rule")}
                | {"topic": log["topic"], "partition": log["partition"]}
                | {"isDeleted": reason is not None, "reason": reason}
                | {"due": segment.get("dueMs"), "moreBytes": segment.get("moreBytes")}
                | {"heldBy": segment.get("heldBy"), "isOnDisk": segment.get("isOnDisk")}
            )
    return found


def test_the_table_of_retention_is_its_plan(cli: Cli) -> None:
    """By time, by size, and by what deletes nothing."""
    cli.on("create", "t", *SMALL)
    fill(cli)

    for words in (
        ("-o", "retention.ms=-1"),
        ("-o", "retention.ms=2500", "--now", str(FIRST_MS + 5000)),
        ("-o", "retention.bytes=500", "--now", str(FIRST_MS)),
        ("-o", "cleanup.policy=compact"),
    ):
        rows = cli.on("table", "plan_retention", "--json", *words).rows

        assert len(rows) == 5
        assert rows == planned(cli, *words)


def test_a_transaction_that_is_not_applied_holds_segments_in_the_table_too(cli: Cli) -> None:
    """It is named with the offset from which on nothing is deleted."""
    cli.on("create", "t", *SMALL)
    fill(cli, 2)
    leave_pending(cli.data, CommitPoint.PLACED)
    words = ("-o", "retention.ms=-1", "-o", "retention.bytes=0")

    rows = cli.on("table", "plan_retention", "--json", *words).rows

    assert rows == planned(cli, *words)
    assert rows[-1]["heldBy"] == "a transaction that is committed and not applied yet, from 2 on"


def test_a_limit_holds_for_an_unknown_policy_in_the_table_too(cli: Cli) -> None:
    """Without one nothing is deleted."""
    cli.on("create", "t", *SMALL)
    fill(cli)
    (cli.data / "tidelog.topics.json").unlink()

    limited = ("-o", "retention.bytes=0")
    for words in ((), limited):
        assert cli.on("table", "plan_retention", "--json", *words).rows == planned(cli, *words)
    kept = cli.on("table", "plan_retention", "--json").rows
    assert {row["heldBy"] for row in kept} == {"unknown cleanup.policy"}
    assert any(
        row["isDeleted"] for row in cli.on("table", "plan_retention", "--json", *limited).rows
    )


def test_the_share_of_the_disk_is_planned_of_all_logs(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the table is of one topic: its logs give what they would give among all."""
    cli.on("create", "t", *SMALL)
    fill(cli)
    cli.on("create", "u")
    cli.append("x" * 2000, topic="u")
    monkeypatch.setattr(type(SYSTEM_FILES), "free_bytes", lambda *_: 0)
    setting = ("-o", "tidelog.retention.disk.percent=90", "-o", "retention.ms=-1")

    rows = cli.on("table", "plan_retention", "--json", *setting).rows
    of_one = cli.on("table", "plan_retention", "t", "--json", *setting).rows
    wrong = cli.on("table", "plan_retention", "-o", "tidelog.retention.disk.percent=101")

    assert rows == planned(cli, "--disk-percent", "90", "-o", "retention.ms=-1")
    assert of_one == [row for row in rows if row["topic"] == "t"]
    assert "share of the disk" in {row["rule"] for row in of_one}
    assert (wrong.code, "tidelog.retention.disk.percent" in wrong.err) == (2, True)


def test_the_table_of_keys_is_of_records_with_and_without_keys(topic: Cli) -> None:
    """A row for all records, one for those without a key, then one for each of the first keys."""
    lines = [
        {"key": "a", "value": "1"},
        {"key": "wyk=", "keyEncoding": "base64", "value": None},
        {"value": "xyz"},
        {"key": "a", "value": "22"},
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    assert topic.on("append", "t", "--format", "json", stdin=given).code == 0

    rows = topic.on("table", "keys", "--json").rows

    names = ("kind", "key", "keyEncoding", "records", "bytes", "supersededRecords")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("all", None, None, 4, 10, 1),
        ("no key", None, None, 1, 3, 0),
        ("key", "a", "utf8", 2, 5, 1),
        ("key", "wyk=", "base64", 1, 2, 0),
    ]
    assert all(row["isExact"] for row in rows)


def test_identifiers_are_shown_digit_by_digit(topic: Cli) -> None:
    """As other tools print them; counts and offsets have separators."""
    with tidelog.open(topic.data) as logs:
        batch = build_batch(
            [(1, None, b"v" * 2000, ())], producer_id=12_345, producer_epoch=1_234, base_sequence=0
        )
        logs.partition("t", 0).append(batch)
    [row] = topic.on("table", "batches", "--json").rows

    shown = topic.on("table", "batches").out.split()

    assert {"12345", "1234", str(row["crc"])} <= set(shown)
    assert f"{row['sizeBytes']:,}" in shown


def test_a_long_key_is_shown_up_to_a_whole_character(topic: Cli) -> None:
    """Its size is that of all of it; bytes that are not text are in base64."""
    keys = ("x" * 255 + "üü", "x" * 256)
    given = "".join(json.dumps({"key": key, "value": ""}) + "\n" for key in keys)
    assert topic.on("append", "t", "--format", "json", stdin=given).code == 0

    rows = topic.on("table", "keys", "--json").rows[1:]

    assert [(row["key"], row["keyEncoding"], row["keySize"]) for row in rows] == [
        ("x" * 255, "utf8", 259),
        ("x" * 256, "utf8", 256),
    ]


def test_keys_of_a_damaged_log_are_not_counted(torn: Cli) -> None:
    """Nothing is known of the whole log then, so there are no rows, and the damage is named."""
    outcome = torn.on("table", "keys", "--json")

    assert (outcome.code, outcome.rows) == (1, [])
    assert "byte" in outcome.err


@pytest.mark.parametrize("table", ["batches", "keys", "gaps", "transactions", "plan_compaction"])
def test_damage_hides_the_rows_of_no_other_partition(cli: Cli, table: str) -> None:
    """It is named, and ends the command with 1."""
    compacted = ("-o", "cleanup.policy=compact", "-o", "internal.segment.bytes=90")
    assert cli.on("create", "t", "-p", 3, *compacted).code == 0
    for _ in range(3):
        lines = "".join(f'{{"partition": {n}, "key": "k"}}\n' for n in range(3))
        assert cli.on("append", "t", "--format", "json", stdin=lines).code == 0
    path = cli.log_file("t-1")
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")

    outcome = cli.on("table", table, "--json")

    sound = [cli.on("table", table, "--json", "-p", n).rows for n in (0, 2)]
    rows = [row for row in outcome.rows if row["partition"] != 1]
    assert (outcome.code, rows) == (1, [*sound[0], *sound[1]])
    assert bool(rows) is (table not in {"gaps", "transactions"})
    assert outcome.err.startswith("tidelog table: t-1: ")
    assert outcome.err.count("\n") == 1
    assert cli.on("table", table).code == 1


def test_keys_are_counted_beside_a_writer(topic: Cli) -> None:
    """No lock is taken, and what the writer has appended by then is counted."""
    with open_briefly(topic.data) as logs:
        logs.append_all("t", [(b"k", b"v"), (b"k", None)])
        logs.flush()

        rows = topic.on("table", "keys", "--json").rows

    assert [(row["key"], row["records"], row["lastOffset"]) for row in rows] == [
        (None, 2, 1),
        ("k", 2, 1),
    ]
