"""``tidelog dump`` beside Kafka's own dump tool, on the files that Kafka wrote.

What ours prints is written again in the words of Kafka's, and then the two must be the same text.
Kafka's dumps were cut to a length; what was cut off is not compared.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.machinery.kafka_dump import contents, index_lines, log_lines, snapshot_lines

from tidelog.cli.main import main

if TYPE_CHECKING:
    import pytest
    from tests.conftest import Enumerated
    from tests.golden.conftest import Partition

    Row = dict[str, Any]

CUT = " ...[line cut]"
CUT_INSIDE = 2
"""Kafka's lines were cut between UTF-16 units, so the last character may be half of one."""
GAVE_UP = "DumpLogSegments ende"
"""Kafka 4.3.1 cannot print a LEADER_CHANGE record of version 1: its tool ends there."""
REMARKS = re.compile(
    r"Non-consecutive offsets in .*|  -?\d+ is followed by \d+"
    r"|Found timestamp mismatch in .*|  Index timestamp: -?\d+, log timestamp: -?\d+"
)


def dump(partition: Partition, name: str, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run the command on one file; return its lines, read."""
    assert main(["dump", str(partition.directory / name), *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]


def kafka_lines(partition: Partition, name: str) -> list[str]:
    """Return what Kafka printed of the file's contents, its remarks left out."""
    lines = contents(partition.dump(name))
    kept = [line for line in lines if not REMARKS.fullmatch(line)]
    return kept[:-1] if kept and GAVE_UP in kept[-1] else kept


def as_cut(ours: list[str], kafkas: list[str]) -> list[str]:
    """Cut each of our lines where Kafka's was cut, if it says the same up to there."""
    lines = []
    for line, kafka in zip(ours, kafkas, strict=False):
        start = kafka.removesuffix(CUT)[:-CUT_INSIDE]
        lines.append(kafka if kafka.endswith(CUT) and line.startswith(start) else line)
    return lines + ours[len(lines) :]


def check(partition: Partition, name: str, ours: list[str]) -> None:
    """Compare our lines with Kafka's."""
    kafkas = kafka_lines(partition, name)
    ours = ours[: len(kafkas)] if GAVE_UP in partition.dump(name) else ours

    assert kafkas == as_cut(ours, kafkas), name


def test_dump_finds_the_batches_that_kafka_finds(
    partition: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each header field of each batch, its place and its validity are as Kafka reads them."""
    rows = [
        {"file": name, **row}
        for name in partition.files(".log")
        for row in dump(partition, name, capsys)
    ]

    assert partition.batches == rows


def test_dump_of_a_log_says_what_kafkas_says(
    partition: Partition, capsys: pytest.CaptureFixture[str], enumerated: Enumerated
) -> None:
    """Batches and records are printed with all fields that Kafka's tool prints."""
    names = partition.files(".log")
    enumerated("files", len(names), at_least=1)
    for name in names:
        rows = dump(
            partition, name, capsys, "--records", "--decode", "none", "--encoding", "base64"
        )

        check(partition, name, list(log_lines(rows)))


def test_dump_of_indexes_says_what_kafkas_says(
    indexed: Partition, capsys: pytest.CaptureFixture[str], enumerated: Enumerated
) -> None:
    """The entries of all three kinds of index are printed with Kafka's names and numbers."""
    names = indexed.files(".index", ".timeindex", ".txnindex")
    enumerated("files", len(names), at_least=2)
    for name in names:
        rows = dump(indexed, name, capsys)

        check(indexed, name, list(index_lines(rows)))


def test_dump_of_a_snapshot_says_what_kafkas_says(
    with_snapshots: Partition, capsys: pytest.CaptureFixture[str], enumerated: Enumerated
) -> None:
    """The entries of a snapshot are producers, with their last batch if they have one."""
    names = with_snapshots.files(".snapshot")
    enumerated("files", len(names), at_least=1)
    for name in names:
        rows = dump(with_snapshots, name, capsys)

        check(with_snapshots, name, list(snapshot_lines(rows)))


def test_control_records_say_what_kafka_reads(
    controlled: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each control record has the type, the time and the place that Kafka gives it."""
    expected = [(row["offset"], row["type"], row["timestamp"]) for row in controlled.control]

    rows = [
        (row["offset"], row["controlType"], row["timestamp"])
        for name in controlled.files(".log")
        for row in dump(
            controlled, name, capsys, "--records", "--decode", "none", "--encoding", "base64"
        )
        if "controlType" in row and "position" not in row
    ]

    assert expected == rows


def test_dump_of_leader_epochs_begins_and_ends_as_the_broker_says(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """The epochs on disk go from the broker's earliest to its latest."""
    state = indexed.state
    rows = dump(indexed, "leader-epoch-checkpoint", capsys) or [{"epoch": None}]

    assert state["latestLeaderEpoch"] == rows[-1]["epoch"]
    assert state["earliestLeaderEpoch"] in {rows[0]["epoch"], None}
