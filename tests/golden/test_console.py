"""The console over logs that Kafka and tidelog wrote, whole and damaged, and beside the commands.

Every page answers, whatever is damaged, and its numbers are those that the commands print.
"""

from __future__ import annotations

import json
import shutil
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.golden.conftest import DATA
from tests.golden.own.conftest import DATA as OWN
from tests.machinery.console_visitor import Visitor
from tests.machinery.samples import sampled

from tidelog.cli.main import main
from tidelog.console.page_links import partition_link
from tidelog.env.clock import SYSTEM_CLOCK, ClockAt
from tidelog.explain.printable_text import counted, format_bytes, printable
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated
    from tests.machinery.console_visitor import ReadPage

    Row = dict[str, Any]

NOW_MS = 1_795_260_000_000
CHECKPOINT = "recovery-point-offset-checkpoint"
TABS = ("", "records", "batches", "transactions", "plans", "check")


def directories() -> list[Path]:
    """Return all data directories among the golden data."""
    of_kafka = {path.parent for path in DATA.rglob(CHECKPOINT)}
    of_logs = {path.parents[1] for path in DATA.rglob("*.log")}
    return sorted({*of_kafka, *of_logs, *OWN.iterdir()})


def name_of(path: Path) -> str:
    return "/".join(path.relative_to(DATA.parent).parts)


class Command:
    """Runs commands on a directory, and returns their rows."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = directory
        self._capsys = capsys

    def __call__(self, *words: str) -> list[Row]:
        """Return the lines of JSON, without the counts."""
        main([*words, "-d", str(self._directory), "--json", "--allow-partial"])
        lines = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        return [line for line in lines if "counts" not in line]


def text_of(page: ReadPage) -> str:
    return "".join(page.texts)


@pytest.mark.parametrize("directory", sampled(directories(), 12), ids=name_of)
def test_pages_show_the_numbers_of_the_commands(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each partition: list, describe, txns, plan retention, verify; and of each group."""
    visitor, command = Visitor(str(directory), clock=ClockAt(NOW_MS)), Command(directory, capsys)
    shown = {row[0]: row for row in visitor.get("/partitions").page.rows}
    listed = command("list")

    assert {key_of(row) for row in listed} == set(visitor.room.desk.directory.partitions)
    for row in listed:
        name = f"{row['topic']}-{row['partition']}"
        numbers = (
            "logStartOffset",
            "lastStableOffset",
            "highWatermark",
            "logEndOffset",
            "segments",
        )
        cells = [format_bytes(row["sizeBytes"]), *(f"{row[one]:,}" for one in numbers)]
        assert shown[name][1:7] == cells
        assert (shown[name][-1] == "damaged") == (row["damage"] is not None)
    check_descriptions(visitor, command("describe"))
    check_transactions(visitor, command("txns"))
    check_plans(visitor, command("plan", "retention", "--now", str(NOW_MS)))
    check_findings(visitor, command("verify"))
    groups = command("groups")
    for row in groups:
        lag = "unknown" if row["lag"] is None else f"{row['lag']:,}"
        page = visitor.get(f"/group?name={row['group']}").page
        place = f"{row['topic']}-{row['partition']}"
        assert [found[1:4:2] for found in page.rows if found[0] == place] == [
            [f"{row['offset']:,}", lag]
        ]


def check_descriptions(visitor: Visitor, rows: list[Row]) -> None:
    """Compare the first page of each partition with describe."""
    for row in rows:
        page = visitor.get(partition_link(key_of(row))).page
        assert page.facts["Log start"] == f"{row['logStartOffset']:,}"
        assert page.facts["Last stable offset"] == f"{row['lastStableOffset']:,}"
        assert page.facts["High watermark"] == f"{row['highWatermark']:,}"
        assert page.facts["Log end"] == f"{row['logEndOffset']:,}"
        assert page.facts["Topic id"] == (row["topicId"] or "unknown")
        segments = [found for found in page.rows if len(found) == 6 and found[0][:1].isdecimal()]
        assert [found[0] for found in segments] == [
            f"{one['baseOffset']:,}" for one in reversed(row["segments"])
        ]
        text = text_of(page)
        assert row["damage"] is None or printable(row["damage"]) in text
        settings = {found[0]: found[1] for found in page.rows if len(found) == 3}
        assert row["config"].items() <= settings.items()


def check_transactions(visitor: Visitor, rows: list[Row]) -> None:
    """Compare the page of transactions with txns."""
    for row in rows:
        page = visitor.get(partition_link(key_of(row), "transactions")).page
        assert page.facts["Open"] == f"{len(row['open']):,}"
        assert page.facts["Aborted"] == f"{len(row['aborted']):,}"
        assert page.facts["Last stable offset"] == f"{row['lastStableOffset']:,}"


def check_plans(visitor: Visitor, rows: list[Row]) -> None:
    """Compare the page of plans with plan retention."""
    for row in rows:
        text = text_of(visitor.get(partition_link(key_of(row), "plans")).page)
        deleted = counted(len(row["deleted"]), "segment")
        assert f"It would delete {deleted}, {format_bytes(row['freedBytes'])}" in text


def check_findings(visitor: Visitor, rows: list[Row]) -> None:
    """Compare the page of the check with verify."""
    found: dict[TopicPartition, set[str]] = {}
    for row in rows:
        if row["topic"] is not None:
            found.setdefault(key_of(row), set()).add(printable(row["what"]))
    for key in visitor.room.desk.directory.partitions:
        page = visitor.get(partition_link(key, "check")).page
        text = text_of(page)
        assert ("Sound: nothing was found." in text) == (key not in found), key
        assert all(what in text for what in found.get(key, ())), key


def key_of(row: Row) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_every_page_of_every_directory_answers(enumerated: Enumerated) -> None:
    """With 200 and whole HTML, wherever links lead, damaged or not."""
    count = 0
    for directory in directories():
        for address, got in Visitor(str(directory), clock=SYSTEM_CLOCK).crawl(limit=400):
            count += 1
            assert (got.status, got.page.odd) == (200, []), (directory, address)

    enumerated("pages", count, at_least=10_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_damage_is_shown_in_pages(tmp_path: Path, seed: int) -> None:
    """Bytes that are changed, cut off or added in any file of a directory fail no page."""
    rng = Random(seed)
    whole = (*(OWN / name for name in ("service-a", "power-cut-a")), DATA / "whole-dir")
    data = tmp_path / "data"
    shutil.copytree(rng.choice([*whole, DATA / "internal", DATA / "transactions"]), data)
    files = sorted(path for path in data.rglob("*") if path.is_file() and path.stat().st_size)
    for path in rng.choices(files, k=rng.choice([1, 3, 30])):
        content = bytearray(path.read_bytes() or b"0")
        at = rng.randrange(len(content))
        how = rng.choice(["change", "change", "cut", "add"])
        content[at:] = {
            "change": bytes([rng.randrange(256), *content[at + 1 :]]),
            "cut": b"",
            "add": content[at:] + rng.randbytes(60),
        }[how]
        path.write_bytes(content)

    count = 0
    for address, got in Visitor(str(data)).crawl(limit=100):
        count += 1
        assert (got.status, got.page.odd) == (200, []), address
    assert count > 3
