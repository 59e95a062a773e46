"""``tidelog sql`` on logs that Kafka wrote."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from tests.golden.conftest import is_timely, link_all, topic_of

from tidelog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.golden.conftest import Partition

COLUMNS = {
    "offset": '"offset"',
    "key": "base64(key) AS key",
    "value": "base64(value) AS value",
    "timestamp": "epoch_ms(timestamp) AS timestamp",
}


def check(
    partition: Partition,
    isolation: str,
    path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Compare queries for some columns, of all offsets and of a range, with listed records."""
    link_all([partition], path)
    records = partition.committed if isolation == "read_committed" else partition.records
    known = [name for name in COLUMNS if name != "timestamp" or is_timely(records)]
    rng = random.Random(str(partition))
    offsets = [record["offset"] for record in records] or [0]
    first, last = sorted(rng.choices(offsets, k=2))
    for names, start, end in ((known, 0, 2**63 - 1), (rng.sample(known, 2), first, last)):
        query = (
            f"SELECT {', '.join(COLUMNS[name] for name in names)} FROM"
            f' "{topic_of(partition)}" t WHERE t."offset" BETWEEN {start} AND {end}'
            ' ORDER BY t."offset"'
        )
        words = ["sql", query, "-d", str(path), "--format", "json", "--isolation", isolation]

        code = main(words)

        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        wanted = [record for record in records if start <= record["offset"] <= end]
        assert code == 0
        assert [{name: record[name] for name in names} for record in wanted] == found


def test_a_query_gives_the_records_that_kafka_gives(
    of_each_case: Partition, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every record that a Java consumer received is a row, and nothing else is.

    That DuckDB reads every log so is in ``test_table_tools``.
    """
    check(of_each_case, "read_uncommitted", tmp_path, capsys)


def test_a_query_gives_the_committed_records_that_kafka_gives(
    committed: Partition, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With isolation read_committed, rows are what such a Java consumer received."""
    check(committed, "read_committed", tmp_path, capsys)
