"""The system tables over logs that Kafka wrote."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from tests.golden.conftest import DATA
from tests.machinery.scale import stride

from tidelog.cli.commands.inspection.table_command import TABLES
from tidelog.cli.main import main
from tidelog.env.clock import ClockAt
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptMessage, InvalidArgument, InvalidConfig
from tidelog.explain.tables.system_table import ColumnType, TableSource, open_tables
from tidelog.explain.tables.system_tables import SYSTEM_TABLES, system_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated
    from tests.golden.conftest import Partition

    from tidelog.explain.tables.system_table import Keys

    Row = dict[str, Any]

V2 = 2
INT32, INT64 = 1 << 31, 1 << 63
NOW_MS = 1_795_260_000_000

SAME_NAMES = (
    *("position", "lastOffset", "magic", "maxTimestamp", "producerId"),
    *("producerEpoch", "baseSequence", "lastSequence", "leaderEpoch", "crc"),
)


def source_of(directory: Path | str) -> TableSource:
    """Open a directory for tables at a fixed time."""
    return open_tables(SYSTEM_FILES, str(directory), clock=ClockAt(NOW_MS))


def rows_of(name: str, source: TableSource, *keys: Any) -> list[Row]:
    """Return the rows of a table as dicts."""
    table = system_table(name)
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows(source, keys or None)]


def fits(value: Any, column_type: ColumnType) -> bool:
    """Return whether a value is one of its column's type."""
    match column_type:
        case ColumnType.TEXT:
            return isinstance(value, str)
        case ColumnType.INT:
            return type(value) is int and -INT32 <= value < INT32
        case ColumnType.LONG | ColumnType.TIME:
            return type(value) is int and -INT64 <= value < INT64
        case ColumnType.DOUBLE:
            return isinstance(value, float) and math.isfinite(value)
        case ColumnType.BOOLEAN:
            return type(value) is bool
        case ColumnType.COUNTS:
            return all(type(key) is str and type(one) is int for key, one in value.items())
        case ColumnType.TEXTS:
            return all(type(key) is type(one) is str for key, one in value.items())


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_rows_have_the_columns_that_are_declared(name: str, enumerated: Enumerated) -> None:
    """In each directory that Kafka left, damaged or not, every value has its column's type."""
    table, count = system_table(name), 0
    for path in sorted(DATA.rglob("replication-offset-checkpoint"))[:: stride()]:
        source = source_of(path.parent)
        keys = source.directory.partitions if table.of_partition else ()
        choices: list[Keys] = [[key] for key in keys]
        for chosen in choices or [None]:
            try:
                for row in table.rows(source, chosen):
                    assert len(row) == len(table.columns)
                    for value, column in zip(row, table.columns, strict=True):
                        is_fit = column.is_nullable if value is None else fits(value, column.type)
                        assert is_fit, (path.parent, chosen, column, value)
                    count += 1
            except CorruptMessage as error:
                assert "crash" in str(path), error  # noqa: PT017 - the others are sound
    enumerated("rows", count, at_least=1)


def test_the_batches_are_those_that_kafka_finds(partition: Partition) -> None:
    """Each field that both list is the same."""
    source = source_of(partition.directory.parent)
    key = next(key for key in source.directory.partitions if str(key) == partition.name)
    with source.open(key) as log:
        start = log.log_start_offset
    rows = rows_of("batches", source, key)
    kafkas = [batch for batch in partition.batches if batch["lastOffset"] >= start]

    found = [
        {name: -1 if row[name] is None else row[name] for name in SAME_NAMES}
        | {
            "file": f"{row['segment']:020}.log",
            "size": row["sizeBytes"],
            "compression": row["codec"],
            "transactional": row["isTransactional"],
            "control": row["isControl"],
            "deleteHorizonMs": row["deleteHorizon"],
        }
        for row in rows
    ]
    names = found[0] if found else ()
    assert [{name: batch[name] for name in names} for batch in kafkas] == found
    first_offsets = [row["baseOffset"] for row in rows if row["magic"] >= V2]
    assert first_offsets == [one["baseOffset"] for one in kafkas if one["magic"] >= V2]


def test_offsets_and_open_transactions_are_the_brokers(indexed: Partition) -> None:
    """The open transaction that holds the last stable offset begins there."""
    source, state = source_of(indexed.directory.parent), indexed.state
    key = next(key for key in source.directory.partitions if str(key) == indexed.name)
    (row,) = rows_of("partitions", source, key)
    holders = [txn for txn in rows_of("transactions", source, key) if txn["holdsLastStableOffset"]]

    names = ("logStartOffset", "lastStableOffset", "highWatermark", "logEndOffset")
    assert {name: row[name] for name in names} == {name: state[name] for name in names}
    held = [state["lastStableOffset"]] * (state["lastStableOffset"] < state["highWatermark"])
    assert [txn["firstOffset"] for txn in holders] == held


def test_the_command_knows_every_table() -> None:
    """Its list of names is written beside the tables, so that help loads none of them."""
    assert tuple(SYSTEM_TABLES) == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_the_command_prints_the_rows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON one object for each row, else a line for each, under a title."""
    directory = str(DATA / "whole-dir")
    words = [name, directory, "--now", str(NOW_MS)]
    assert main(["table", *words, "--json"]) == 0
    *printed, _counts = map(json.loads, capsys.readouterr().out.splitlines())
    assert main(["table", *words]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert printed == rows_of(name, source_of(directory))
    assert len(lines) == len(printed) + 1 + len(printed) // 1001


def test_topics_and_partitions_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows about others are left out, and those about the directory."""
    directory = str(DATA / "whole-dir")
    assert main(["table", "checkpoints", "whole-part", "-d", directory, "-p", "1", "--json"]) == 0
    *rows, counts = map(json.loads, capsys.readouterr().out.splitlines())
    assert counts == {"counts": {"rows": len(rows)}}

    assert {(row["topic"], row["partition"]) for row in rows} == {("whole-part", 1)}


def test_what_is_unknown_is_an_error(tmp_path: Path) -> None:
    """A table, a directory, a setting."""
    with pytest.raises(InvalidArgument, match="no system table 'segment'; there are topics,"):
        system_table("segment")
    with pytest.raises(InvalidArgument, match="is missing"):
        source_of(tmp_path / "none")
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        open_tables(
            SYSTEM_FILES, str(tmp_path), clock=ClockAt(0), overrides={"retention.ms": "soon"}
        )


def test_the_keys_are_those_of_kafkas_records(partition: Partition) -> None:
    """Few keys are counted exactly; of each the last record is not superseded."""
    source = source_of(partition.directory.parent)
    key = next(key for key in source.directory.partitions if str(key) == partition.name)
    with source.open(key) as log:
        records = list(log.records(log.log_start_offset, log.log_end_offset))
    sizes: dict[bytes | None, list[int]] = {}
    for record in records:
        size = len(record.key or b"") + len(record.value or b"")
        sizes.setdefault(record.key, []).append(size)
    without = sizes.pop(None, [])

    rows: dict[str, list[Row]] = {kind: [] for kind in ("all", "no key", "key")}
    for row in rows_of("keys", source, key):
        assert row["isExact"]
        assert (row["records"], row["bytes"]) == (row["recordsAtMost"], row["bytesAtMost"])
        rows[row["kind"]].append(row)

    assert sum(row["records"] for row in rows["all"]) == len(records)
    assert sum(row["records"] for row in rows["no key"]) == len(without)
    superseded = sum(len(one) - 1 for one in sizes.values())
    assert sum(row["supersededRecords"] for row in rows["all"]) == superseded
    by_bytes = sorted((sum(one) for one in sizes.values()), reverse=True)[:20]
    by_records = sorted((len(one) for one in sizes.values()), reverse=True)[:20]
    ranked = [(row["rankByBytes"], row["bytes"]) for row in rows["key"] if row["rankByBytes"]]
    assert sorted(ranked) == list(enumerate(by_bytes, start=1))
    ranked = [(row["rankByRecords"], row["records"]) for row in rows["key"] if row["rankByRecords"]]
    assert sorted(ranked) == list(enumerate(by_records, start=1))
    for row in rows["key"]:
        if row["keyEncoding"] == "utf8" and row["keySize"] == len(row["key"].encode()):
            of_key = sizes[row["key"].encode()]
            assert row["supersededBytes"] == sum(of_key[:-1])
