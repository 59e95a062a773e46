"""``tidelog cat`` on logs that Kafka wrote."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.golden.conftest import as_printed, of_some_partitions

import tidelog
from tidelog.cli.main import main

if TYPE_CHECKING:
    from tests.conftest import Enumerated
    from tests.golden.conftest import Partition, Row

DATA = Path(__file__).parent / "data"


def test_cat_prints_the_records_that_kafka_gives(
    partition: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line is the record as Kafka's consumer got it, its members in the one order used here."""
    place = {"topic": partition.topic, "partition": partition.number}
    expected = [
        json.dumps({**place, **as_printed(record)}, ensure_ascii=False)
        for record in partition.records
    ]

    code = main(["cat", "-d", str(partition.directory), "--encoding", "base64"])

    assert (0, expected) == (code, capsys.readouterr().out.split("\n")[:-1])


KEPT = ("partition", "timestamp", "key", "value", "headers")


@of_some_partitions
def test_what_cat_prints_append_takes(
    partition: Partition, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cat A | append B`` keeps keys, values, headers, timestamps and nulls.

    Negative timestamps are refused, as by Kafka's producers; those lines are left out here.
    """
    check_appended(partition, "base64", tmp_path, capsys)


@pytest.mark.parametrize("encoding", ["utf8", "json"])
def test_what_cat_prints_as_text_append_takes(
    of_each_case: Partition, encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As above, in the encodings that show text as it is."""
    check_appended(of_each_case, encoding, tmp_path, capsys)


def check_appended(
    partition: Partition, encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Append what is printed of a log to another one, and compare both."""
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


@pytest.mark.slow
def test_a_topic_copied_by_cat_and_append_is_what_kafka_reads(
    partitions: list[Partition],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    enumerated: Enumerated,
) -> None:
    """Each golden topic, all its partitions at once, against the listings by Kafka's consumer.

    Offsets, leader epochs, timestamp types, producers and markers are not copied.
    """
    topics: dict[tuple[str, str], list[Partition]] = {}
    for partition in partitions:
        topics.setdefault((partition.case, partition.topic), []).append(partition)
    rows: list[Row] = []
    for at, ((case, topic), members) in enumerate(topics.items()):
        data, lines = str(tmp_path / str(at)), tmp_path / f"{at}.json"
        read = ["cat", topic, "-d", str(DATA / case), "--encoding", "base64"]
        assert main(read) == 0
        printed = capsys.readouterr().out.splitlines()
        lines.write_text("\n".join(line for line in printed if can_be_appended(json.loads(line))))
        count = max(member.number for member in members) + 1
        assert main(["create", "t", "-d", data, "-p", str(count), *NO_LIMITS]) == 0
        form = ["--format", "json", "--encoding", "base64"]
        assert main(["append", "t", str(lines), "-d", data, *form]) == 0
        capsys.readouterr()
        for member in members:
            expected = [row for row in member.records if can_be_appended(row)]
            with tidelog.open_read_only(f"{data}/t-{member.number}") as log:
                copied = [member.listed(record) for record in log.records()]
            assert [[row[name] for name in COPIED] for row in copied] == [
                [row[name] for name in COPIED] for row in expected
            ], member
            rows += expected

    texts = [row[part] for row in rows for part in ("key", "value")]
    names = [[name for name, _ in row["headers"]] for row in rows]
    enumerated("topics", len(topics), at_least=30)
    enumerated("nulls", texts.count(None), at_least=10)
    enumerated("empty texts", texts.count(""), at_least=10)
    enumerated("texts that are not UTF-8", sum(map(is_binary, texts)), at_least=10)
    enumerated("repeated headers", sum(len(set(n)) < len(n) for n in names), at_least=5)
    enumerated("headers out of order", sum(sorted(n) != n for n in names), at_least=5)
    enumerated("append times", sum(r["timestampType"] != "CreateTime" for r in rows), at_least=5)


COPIED = ("timestamp", "key", "value", "headers")
NO_LIMITS = (
    *("-o", "max.message.bytes=10485880"),
    *("-o", f"message.timestamp.after.max.ms={2**63 - 1}"),
)


def can_be_appended(row: Row) -> bool:
    """Return whether a leader takes the record's timestamp: none, or one from 1970 on."""
    return bool(row["timestamp"] >= -1)


def is_binary(text: str | None) -> bool:
    """Return whether base64 stands for bytes that are not UTF-8."""
    try:
        base64.b64decode(text or "").decode()
    except UnicodeDecodeError:
        return True
    return False


def test_a_line_that_cannot_be_copied_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A timestamp below -1, which old producers wrote, is refused with the line and the value."""
    data, lines = str(tmp_path / "data"), tmp_path / "lines"
    lines.write_text('{"value": "a"}\n{"value": "b", "timestamp": -7}\n')
    assert main(["create", "t", "-d", data]) == 0

    code = main(["append", "t", str(lines), "-d", data, "--format", "json"])

    error = capsys.readouterr().err
    assert code == 2
    assert "line 2" in error
    assert "-7" in error


def test_a_copy_has_no_markers_and_may_have_no_aborted_records(
    transactional: Partition, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With read_committed a copy holds what Kafka gives such a consumer, and nothing else."""
    data, lines = str(tmp_path / "data"), tmp_path / "lines"
    form = ["--encoding", "base64"]
    read = ["cat", "-d", str(transactional.directory), "--isolation", "read_committed", *form]
    assert main(read) == 0
    lines.write_text(capsys.readouterr().out)
    count = str(transactional.number + 1)
    assert main(["create", "t", "-d", data, "-p", count, *NO_LIMITS]) == 0

    assert main(["append", "t", str(lines), "-d", data, "--format", "json", *form]) == 0

    with tidelog.open_read_only(f"{data}/t-{transactional.number}") as log:
        copied = [transactional.listed(record) for record in log.records()]
        counted = log.count_records()
    expected = transactional.committed
    assert [[row[name] for name in COPIED] for row in copied] == [
        [row[name] for name in COPIED] for row in expected
    ]
    assert (counted.records, counted.aborted, counted.control) == (len(expected), 0, 0)


def test_cat_leaves_out_what_is_not_committed(
    transactional: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """With read_committed the records are those that such a consumer of Kafka got."""
    place = {"topic": transactional.topic, "partition": transactional.number}
    rows = transactional.committed
    expected = [json.dumps({**place, **as_printed(record)}, ensure_ascii=False) for record in rows]
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
