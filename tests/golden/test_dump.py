"""``tidelog dump`` beside Kafka's own dump tool, on the files that Kafka wrote.

What ours prints is written anew in the words of Kafka's, and then the two must be the same text.
Kafka's dumps were cut to a length; what was cut off is not compared.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from tidelog.cli.main import main
from tidelog.records.record import text_as_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from conftest import Partition

    Row = dict[str, Any]

CUT = " ...[line cut]"
CUT_INSIDE = 2
"""Kafka's lines were cut between UTF-16 units, so the last character may be half of one."""
GAVE_UP = "DumpLogSegments ende"
"""Kafka 4.3.1 cannot print a LEADER_CHANGE record of version 1: its tool ends there."""
REMARKS = re.compile(
    r"Dumping .*|Log starting offset: \d+|Non-consecutive offsets in .*|  -?\d+ is followed by \d+"
    r"|.* is empty\.|Found timestamp mismatch in .*|  Index timestamp: -?\d+, log timestamp: -?\d+"
)
KRAFT = {
    "LEADER_CHANGE": "LeaderChange: ",
    "SNAPSHOT_HEADER": "SnapshotHeader ",
    "SNAPSHOT_FOOTER": "SnapshotFooter ",
    "KRAFT_VERSION": "KRaftVersion ",
    "KRAFT_VOTERS": "KRaftVoters ",
}


def dump(partition: Partition, name: str, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run the command on one file; return its lines, read."""
    assert main(["dump", str(partition.directory / name), *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]


def kafka_lines(partition: Partition, name: str) -> list[str]:
    """Return what Kafka printed of the file's contents, its remarks left out."""
    lines = partition.dump(name).split("\n")[:-1]
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


def log_lines(rows: list[Row]) -> Iterator[str]:
    """Write batches and records as Kafka does; text may bring line ends with it."""
    batch: Row = {}
    for row in rows:
        if "position" in row:
            batch = row
            yield batch_line(batch)
        else:
            yield from record_line(row, batch).split("\n")


def batch_line(row: Row) -> str:
    """Write a batch as Kafka does."""
    start = f"offset: {row['lastOffset']} "
    if row["magic"] == 2:
        horizon = row["deleteHorizonMs"]
        start = (
            f"baseOffset: {row['baseOffset']} lastOffset: {row['lastOffset']} "
            f"count: {row['count']} baseSequence: {row['baseSequence']} "
            f"lastSequence: {row['lastSequence']} producerId: {row['producerId']} "
            f"producerEpoch: {row['producerEpoch']} partitionLeaderEpoch: {row['leaderEpoch']} "
            f"isTransactional: {java(row['transactional'])} isControl: {java(row['control'])} "
            f"deleteHorizonMs: {optional(horizon)} "
        )
    return start + (
        f"position: {row['position']} {row['timestampType']}: {row['maxTimestamp']} "
        f"size: {row['size']} magic: {row['magic']} compresscodec: {row['compression']} "
        f"crc: {row['crc']} isvalid: {java(row['valid'])}"
    )


def record_line(row: Row, batch: Row) -> str:
    """Write a record as Kafka does; old records have a checksum of their own."""
    line = (
        f"| offset: {row['offset']} {row['timestampType']}: {row['timestamp']} "
        f"keySize: {row['keySize']} valueSize: {row['valueSize']}"
    )
    if batch["magic"] < 2:
        line += f" isValid: {java(row['valid'])} crc: {row['crc']}}}"
    else:
        names = ",".join(name for name, _ in row["headers"])
        line += f" sequence: {row['sequence']} headerKeys: [{names}]"
    if batch["control"]:
        return line + control_part(row, batch)
    line += "" if row["key"] is None else f" key: {text(row['key'])}"
    return line + ("" if row["value"] is None else f" payload: {text(row['value'])}")


def control_part(row: Row, batch: Row) -> str:
    """Write what a control record says as Kafka does."""
    kind = row["controlType"]
    if "coordinatorEpoch" in row:
        return f" endTxnMarker: {kind} coordinatorEpoch: {row['coordinatorEpoch']}"
    if kind == "UNKNOWN":
        return f" controlType: UNKNOWN({batch['controlType']})"
    return f" {KRAFT[kind]}{json.dumps(row['control'], separators=(',', ':'))}"


def text(encoded: str) -> str:
    """Return bytes as Kafka prints them."""
    return text_as_java(base64.b64decode(encoded))


def java(value: bool) -> str:
    """Write a truth value as Java does."""
    return str(value).lower()


def optional(value: int | None) -> str:
    """Write a number that may be absent as Java does."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


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
    partition: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """Batches and records are printed with all fields that Kafka's tool prints."""
    for name in partition.files(".log"):
        rows = dump(partition, name, capsys, "--records", "--encoding", "base64")

        check(partition, name, list(log_lines(rows)))


def test_dump_of_an_offset_index_says_what_kafkas_says(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """The entries of an offset index are offsets and positions."""
    for name in indexed.files(".index"):
        rows = dump(indexed, name, capsys)

        check(
            indexed, name, [f"offset: {row['offset']} position: {row['position']}" for row in rows]
        )


def test_dump_of_a_time_index_says_what_kafkas_says(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """The entries of a time index are timestamps and offsets."""
    for name in indexed.files(".timeindex"):
        rows = dump(indexed, name, capsys)

        check(
            indexed,
            name,
            [f"timestamp: {row['timestamp']} offset: {row['offset']}" for row in rows],
        )


def test_dump_of_a_transaction_index_says_what_kafkas_says(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """The entries of a transaction index are aborted transactions."""
    for name in indexed.files(".txnindex"):
        rows = dump(indexed, name, capsys)

        check(indexed, name, [fields(row) for row in rows])


def test_dump_of_a_snapshot_says_what_kafkas_says(
    indexed: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """The entries of a snapshot are producers; one that left no batch has none to show."""
    for name in indexed.files(".snapshot"):
        rows = dump(indexed, name, capsys)

        check(indexed, name, [producer_line(row) for row in rows])


def producer_line(row: Row) -> str:
    """Write a producer as Kafka does."""
    start = {**row, "currentTxnFirstOffset": optional(row["currentTxnFirstOffset"])}
    shown = 5 if row["lastOffset"] < 0 else len(start)
    return fields(dict(list(start.items())[:shown]))


def fields(row: Row) -> str:
    """Write members in their order as Kafka writes fields."""
    return " ".join(f"{name}: {value}" for name, value in row.items())


def test_control_records_say_what_kafka_reads(
    controlled: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each control record has the type, the time and the place that Kafka gives it."""
    expected = [(row["offset"], row["type"], row["timestamp"]) for row in controlled.control]

    rows = [
        (row["offset"], row["controlType"], row["timestamp"])
        for name in controlled.files(".log")
        for row in dump(controlled, name, capsys, "--records", "--encoding", "base64")
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
