"""``tidelog verify`` on logs that Kafka wrote, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.golden.conftest import of_some_partitions

from tidelog.cli.main import main

if TYPE_CHECKING:
    from tests.golden.conftest import Partition

    Found = set[tuple[str, str, int | None]]

HERE = Path(__file__).parent
CRASHES = HERE / "data" / "crash"
LISTINGS = frozenset({"dump", "expected", "offsets"})
"""Beside golden directories: they are not part of them."""
HEALTHY = (
    *(
        f"data/{case}"
        for case in (
            "codecs",
            "compaction/before",
            "compaction/after",
            "compaction/later",
            "compaction/last",
            "epochs",
            "internal",
            "logappendtime",
            "segments",
            "transactions",
            "whole-dir",
            "whole-dir-crash/after",
            "crash/kill/after",
            "crash/unclean-only/after",
            "crash/swap-and-cleaned/after",
            "crash/torn-batch/after",
        )
    ),
    *(f"own/data/{name}" for name in ("short-writer", "short-writer-killed")),
    *(f"own/data/{name}" for name in ("service-a", "service-b", "altering-a", "altering-b")),
)
"""Directories that a broker, a service or a short-lived writer left in order, or after recovery."""

# What verify has to say of each damaged directory: severity, file (the offset of a segment and its
# suffix) and byte. Where Kafka's own start notices nothing, this is all there is to go by.
TOLD: dict[str, Found] = {
    "cleaned-left": {("unusual", "0.log.cleaned", None)},
    "deleted-left": {("unusual", "59.log.deleted", None)},
    "epochs-beyond": {("damage", "leader-epoch-checkpoint", None)},
    "epochs-missing": {("damage", "leader-epoch-checkpoint", None)},
    "flip-first": {("damage", "125.log", 0)},
    "flip-last": {
        ("damage", "112.log", 1505),
        ("damage", "150.snapshot", None),
        ("damage", "replication-offset-checkpoint", None),
    },
    "flip-middle": {("damage", "116.log", 1796)},
    "flip-old": {("damage", "54.log", 1353)},
    "flip-old-norp": {("damage", "63.log", 1639)},
    "garbage-tail": {("unusual", "111.log", 918)},
    "index-garbage": {("damage", "103.index", 8)},
    "index-garbage-old": {("damage", "64.index", 0), ("damage", "64.index", 8)},
    "index-missing": {("unusual", "116.index", None)},
    "index-missing-old": {("unusual", "63.index", None)},
    "index-oddsize-old": {("damage", "69.index", 40)},
    "indexes-missing-norp": {("unusual", "102.index", None)},
    "log-empty": {
        ("damage", "193.snapshot", None),
        ("damage", "replication-offset-checkpoint", None),
    },
    "logstart-beyond": {("damage", "log-start-offset-checkpoint", None)},
    "orphan-index": {("unusual", "164.index", None)},
    "rp-beyond": {("unusual", "recovery-point-offset-checkpoint", None)},
    "segment-missing": {("damage", "117.log", 0)},
    "snapshot-all-corrupt": {("damage", "61.snapshot", 0), ("damage", "153.snapshot", 0)},
    "snapshot-corrupt": {("damage", "165.snapshot", 0)},
    "snapshot-missing": {("unusual", "59.snapshot", None)},
    "snapshot-stray": {("unusual", "62.snapshot", None), ("damage", "230.snapshot", None)},
    "swap-and-cleaned": {("unusual", "48.log.swap", None), ("unusual", "0.log.cleaned", None)},
    "swap-left": {("unusual", "0.log.swap", None)},
    "swap-old-deleted": {("unusual", "0.log.swap", None), ("unusual", "0.log.deleted", None)},
    "timeindex-missing": {("unusual", "123.timeindex", None)},
    "timeindex-missing-old": {("damage", "59.timeindex", None)},
    "torn-batch": {
        ("damage", "128.log", 2051),
        ("damage", "replication-offset-checkpoint", None),
    },
    "torn-header": {("unusual", "126.log", 3142)},
    "txn-index-garbage": {("damage", "59.txnindex", 0)},
    "txn-index-missing": {("unusual", "0.txnindex", None), ("unusual", "58.txnindex", None)},
    "txn-torn-batch": {("damage", "179.log", 2210), ("damage", "215.snapshot", None)},
    "unclean-only": set(),
    "zero-last": {("unusual", "123.log", 2346), ("damage", "169.snapshot", None)},
    "zero-tail": {("unusual", "117.log", 3636)},
}


def verify(directory: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Found]:
    """Run the command; return its exit code and what it found, by file and byte."""
    code = main(["verify", "--json", "-d", str(directory)])
    found = set()
    *rows, total = map(json.loads, capsys.readouterr().out.splitlines())
    assert total["counts"]["partitions"]
    for row in rows:
        assert row["what"]
        assert row["remedy"]
        name = Path(row["file"]).name
        found.add((row["severity"], name.lstrip("0") if name[:2] == "00" else name, row["byte"]))
    return code, {(how, f"0{name}" if name[:1] == "." else name, at) for how, name, at in found}


@of_some_partitions
def test_a_log_that_kafka_serves_is_not_damaged(
    partition: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gaps, sparse indexes, old formats and emptied batches are not damage."""
    code, found = verify(partition.directory, capsys)

    assert [row for row in found if row[0] == "damage" and not partition.is_refused] == []
    assert code == int(partition.is_refused)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_directory_has_no_findings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that Kafka or tidelog leaves behind in health is even unusual; all of it is read."""
    code = main(["verify", "--json", "--allow-partial", "-d", str(HERE / name)])

    *rows, last = map(json.loads, capsys.readouterr().out.splitlines())
    total = last["counts"]
    found = [row for row in rows if Path(row["file"]).name not in LISTINGS]
    logs = [
        path
        for path in (HERE / name).glob("*-[0-9]*/*.log")
        if not path.parent.name.startswith("__cluster")
        and path.parent.name.rpartition("-")[2].isdigit()
    ]
    assert (found, code, total["damaged"]) == ([], 0, 0)
    assert total["segments"] == len(logs) > 0
    assert 0 < total["bytes"] <= sum(path.stat().st_size for path in logs)
    assert min(total["batches"], total["records"], total["indexEntries"]) > 0


@pytest.mark.parametrize("case", sorted(path.name for path in CRASHES.iterdir() if path.is_dir()))
def test_each_damage_is_told_with_its_place(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What a crash or a failing disk did is found, with file and byte; exit code 1 on damage."""
    code, found = verify(CRASHES / case / "before", capsys)

    expected = TOLD.get(case, set())
    assert expected <= found
    damaged = {row for row in expected if row[0] == "damage"}
    assert code == int(bool(damaged))


def test_a_crash_without_damage_is_told_from_damage(capsys: pytest.CaptureFixture[str]) -> None:
    """Torn ends and untrimmed files that a kill leaves are not damage."""
    code, _ = verify(CRASHES.parent / "whole-dir-crash" / "before", capsys)

    assert code == 0
