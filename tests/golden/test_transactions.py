"""``tidelog txns`` and ``describe`` on transactions that Kafka wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.main import main

if TYPE_CHECKING:
    Row = dict[str, Any]

DATA = Path(__file__).parent / "data" / "transactions"
OPEN = re.compile(r"producerId: (\d+) producerEpoch: (\d+) .*OptionalLong\[(\d+)\]")
ABORTED = re.compile(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)")


def rows_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[Row]:
    """Run a command on the directory and return its lines of JSON."""
    assert main([*words, "--json", "-d", str(DATA)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("partition", [0, 1])
def test_transactions_are_those_of_kafkas_snapshot_and_indexes(
    partition: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Open ones as in the newest snapshot, aborted ones as in all indexes, marker by marker."""
    dumps = sorted((DATA / "dump").glob(f"txn-mix-{partition}.*"))
    snapshot = [path for path in dumps if path.name.endswith("snapshot.txt")][-1]
    indexes = [path for path in dumps if path.name.endswith("txnindex.txt")]
    opened = [tuple(map(int, found)) for found in OPEN.findall(snapshot.read_text("utf-8"))]
    aborted = [
        tuple(map(int, found))
        for path in indexes
        for found in ABORTED.findall(path.read_text("utf-8"))
    ]

    row = rows_of(capsys, "txns", "txn-mix")[partition]

    assert (len(opened), len(aborted) > 5) == (1, True)
    names = ("producerId", "producerEpoch", "firstOffset")
    assert [tuple(txn[name] for name in names) for txn in row["open"]] == opened
    assert [tuple(txn.values())[:3] for txn in row["aborted"]] == aborted


def test_the_first_open_transaction_holds_the_last_stable_offset(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """435 of 622: which producer keeps committed readers back, and since when."""
    described = rows_of(capsys, "describe", "txn-mix")[0]
    row = rows_of(capsys, "txns", "txn-mix", "--open")[0]

    holder = {
        "producerId": 13,
        "producerEpoch": 8,
        "firstOffset": 435,
        "firstTimestamp": 1795253734763,
        "transactionalId": None,
    }
    assert (described["lastStableOffset"], described["highWatermark"]) == (435, 622)
    assert described["lastStableOffsetHeldBy"] == holder
    assert (row["lastStableOffset"], row["open"], row["aborted"]) == (435, [holder], None)


def test_people_read_who_holds_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A line below the picture, and a line for each transaction."""
    who = "producer 13, epoch 8, from offset 435 since 2026-11-21 09:35:34 UTC"

    assert main(["describe", "txn-mix", "-d", str(DATA)]) == 0
    assert f"\n  last stable offset 435, held by {who}\n" in capsys.readouterr().out
    assert main(["txns", "txn-mix", "-d", str(DATA)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "txn-mix-0: last stable offset 435, high watermark 622",
        f"  open     {who}",
        "  aborted  producer 12 from offset 0, marker at 16",
    ]
