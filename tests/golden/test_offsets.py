"""``tidelog offsets`` on logs that Kafka wrote, against what the broker answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tidelog
from tidelog.cli.main import main

if TYPE_CHECKING:
    import pytest
    from tests.golden.conftest import Partition


DATA = Path(__file__).parent / "data"


def ask(partition: Partition, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """Run the command on one partition and return its line without topic and partition."""
    assert main(["offsets", "-d", str(partition.directory), *options]) == 0
    row: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (row.pop("topic"), row.pop("partition")) == (partition.topic, partition.number)
    return row


def answered(row: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of the broker in the form of ours: null for what there is not."""
    names = ("offset", "timestamp", "leaderEpoch")
    return {name: None if row[name] == -1 else row[name] for name in names}


def test_offsets_are_those_of_the_broker(
    partition: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """Start, high watermark, last stable offset and end are what the broker had."""
    state = partition.state
    end = state["logEndOffset"]
    row = ask(partition, capsys)
    stable = row["lastStableOffset"]  # unknown for logs that no broker had

    assert row == {
        "logStartOffset": state["logStartOffset"],
        "highWatermark": state.get("highWatermark", end),
        "lastStableOffset": state.get("lastStableOffset", stable),
        "logEndOffset": end,
    }


def test_earliest_and_latest_are_the_ends_that_consumers_see(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """Earliest is the log start, latest the high watermark or the last stable offset."""
    state = indexed.state
    committed = ("--isolation", "read_committed")

    earliest = ask(indexed, capsys, "--at", "earliest")
    latest = ask(indexed, capsys, "--at", "latest")
    stable = ask(indexed, capsys, "--at", "latest", *committed)

    start, end = state["logStartOffset"], state.get("highWatermark", state["logEndOffset"])
    assert (earliest["offset"], latest["offset"]) == (start, end)
    assert stable["offset"] == state.get("lastStableOffset", end)
    if "latestLeaderEpoch" in state:
        epochs = (state["earliestLeaderEpoch"], state["latestLeaderEpoch"])
        assert (earliest["leaderEpoch"], latest["leaderEpoch"]) == epochs


def test_a_time_gives_the_offset_that_the_broker_gives(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first record at or after a time, and the one with the greatest timestamp."""
    state = indexed.state

    for row in indexed.by_time:
        assert answered(row) == ask(indexed, capsys, "--at", str(row["query"]))
    assert answered(state["maxTimestamp"]) == ask(indexed, capsys, "--at", "max-timestamp")


def test_the_pages_example_of_a_count_is_the_commands_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """docs/monitoring.md explains a lag with a log that Kafka wrote."""
    page = (DATA.parents[2] / "docs" / "monitoring.md").read_text("utf-8")
    words = ["offsets", "txn-mix", "-p", "0", "--count", "--isolation", "read_committed"]

    assert main([*words, "-d", str(DATA / "transactions")]) == 0

    assert f"$ tidelog {' '.join(words)}\n{capsys.readouterr().out}" in page


def test_records_add_up_with_markers_aborted_records_and_gaps(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a reader of committed records gets, and every offset has its reason."""
    state = indexed.state
    count = ask(indexed, capsys, "--count", "--isolation", "read_committed")["count"]

    with tidelog.open_read_only(str(indexed.directory)) as log:
        committed = sum(len(found) for found in log.columns(committed=True))
    assert count["records"] == committed
    assert count["startOffset"] == state["logStartOffset"]
    kinds = ("records", "aborted", "control", "gaps")
    assert sum(count[kind] for kind in kinds) == count["endOffset"] - count["startOffset"]
