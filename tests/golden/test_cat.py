"""``tidelog cat`` on logs that Kafka wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.main import main

if TYPE_CHECKING:
    from tests.golden.conftest import Partition

DATA = Path(__file__).parent / "data"


def test_cat_prints_the_records_that_kafka_gives(
    partition: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line is the record as Kafka's consumer got it, its members in the one order used here."""
    place = {"topic": partition.topic, "partition": partition.number}
    expected = [json.dumps({**place, **record}, ensure_ascii=False) for record in partition.records]

    code = main(["cat", "-d", str(partition.directory), "--encoding", "base64"])

    assert (0, expected) == (code, capsys.readouterr().out.split("\n")[:-1])


KEPT = ("partition", "timestamp", "key", "value", "headers")


@pytest.mark.parametrize("encoding", ["base64", "utf8"])
def test_what_cat_prints_append_takes(
    partition: Partition,
    encoding: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``cat A | append B`` keeps keys, values, headers, timestamps and nulls.

    Negative timestamps are refused, as by Kafka's producers; those lines are left out here.
    """
    data, lines = str(tmp_path / "data"), tmp_path / "lines"
    read = ["cat", "--encoding", encoding, "-d"]
    if main([*read, str(partition.directory)]) == 2:
        assert encoding == "utf8"  # bytes that are not text are refused, not altered
        return
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rows = [row for row in rows if row["timestamp"] >= -1]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    count = str(partition.number + 1)
    limits = ["max.message.bytes=10485880", f"message.timestamp.after.max.ms={2**63 - 1}"]
    settings = [word for setting in limits for word in ("-o", setting)]
    assert main(["create", "t", "-d", data, "-p", count, *settings]) == 0

    written = ["append", "t", str(lines), "-d", data, "--format", "json", "--encoding", encoding]
    assert main(written) == 0
    capsys.readouterr()
    assert main([*read, data, "-p", str(partition.number)]) == 0

    copied = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[row[name] for name in KEPT] for row in copied] == [
        [row[name] for name in KEPT] for row in rows
    ]


def test_cat_leaves_out_what_is_not_committed(
    transactional: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """With read_committed the records are those that such a consumer of Kafka got."""
    place = {"topic": transactional.topic, "partition": transactional.number}
    rows = transactional.committed
    expected = [json.dumps({**place, **record}, ensure_ascii=False) for record in rows]
    where = ["-d", str(transactional.directory), "--encoding", "base64"]

    code = main(["cat", *where, "--isolation", "read_committed"])

    assert (0, expected) == (code, capsys.readouterr().out.split("\n")[:-1])


def test_cat_reads_on_behind_damage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A damaged batch (offsets 148 to 151) before the first offset asked for does not matter."""
    partition = DATA / "crash" / "flip-middle" / "before" / "dmg-flip-middle-0"

    code = main(["cat", "-d", str(partition), "--from", "152", "--encoding", "base64"])
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert json.loads(lines[0])["offset"] == 152
