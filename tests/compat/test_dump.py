"""Kafka's dump tool on a log that was written here."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.machinery.kafka_dump import contents, index_lines, log_lines, snapshot_lines

from tidelog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Java, Written

pytestmark = pytest.mark.compat

TOOL = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile("isvalid: false|Found |Mismatch|Exception|ended with", re.IGNORECASE)
FIRST_OFFSET_REMARK = re.compile(r"Non-consecutive offsets in .*\n  -1 is followed by \d+\n")
"""Printed of each segment that does not begin at 0; it means nothing."""


def printed_by_kafka(java: Java, paths: list[Path], *words: str) -> list[str]:
    """Return what Kafka's tool prints of some files, by file."""
    files = ",".join(map(str, paths))
    printed = java.run(TOOL, "--files", files, "--deep-iteration", "--print-data-log", *words)
    printed = FIRST_OFFSET_REMARK.sub("", printed)
    assert not COMPLAINTS.search(printed), printed[-2000:]
    return ["Dumping " + part for part in printed.split("Dumping ")[1:]]


def printed_here(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what ``tidelog dump`` prints of a file, in the words of Kafka's tool."""
    is_log = path.suffix == ".log"
    words = ["--records", "--decode", "none", "--encoding", "base64"] if is_log else []
    assert main(["dump", str(path), *words]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]
    if is_log:
        return list(log_lines(rows))
    return list(snapshot_lines(rows) if path.suffix == ".snapshot" else index_lines(rows))


def test_kafkas_tool_prints_of_our_files_what_ours_does(
    java: Java, written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs of every codec, indexes and snapshots read without complaint, field for field."""
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    paths = sorted(path for path in written.directory.iterdir() if path.suffix in suffixes)
    assert {path.suffix for path in paths} == suffixes

    printed = printed_by_kafka(java, paths)

    assert len(printed) == len(paths) > 10
    for path, part in zip(paths, printed, strict=True):
        assert contents(part) == printed_here(path, capsys), path.name


def test_kafkas_tool_finds_our_indexes_sane(java: Java, written: Written) -> None:
    """Each index entry points at a batch that holds its offset, and fits the log's timestamps."""
    paths = [path for path in written.directory.iterdir() if path.suffix.endswith("index")]

    printed = printed_by_kafka(java, paths, "--index-sanity-check")

    assert len(printed) == len(paths)
