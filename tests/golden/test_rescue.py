"""Everything that a reader finds in a damaged directory is in the one that ``rescue`` makes."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.machinery.samples import sampled

from tidelog.cli.main import main

if TYPE_CHECKING:
    Row = dict[str, Any]

DATA: Final = Path(__file__).parent / "data"
CASES: Final = sorted([*DATA.glob("crash/*/before"), *DATA.glob("whole-dir-crash/before")])
METADATA: Final = "__cluster_metadata-0"
"""Left out: it is about the cluster, and what is left of it may contradict what was rescued."""
LOGS: Final = (".log", ".log.swap", ".log.deleted", ".log.cleaned")


def run(*words: object) -> tuple[int, list[Row]]:
    """Return the exit code of a command that prints JSON, and its rows."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with redirect_stdout(out):
        code = main([str(word) for word in words])
    out.seek(0)
    return code, [json.loads(line) for line in out]


def records_of(directory: Path) -> dict[tuple[str, int, int], str]:
    """Return all records that readers find, those of partitions and those that were cut."""
    rows: list[Row] = []
    for path in sorted(directory.glob("*-[0-9]*")):
        if path.is_dir() and path.name != METADATA:
            how = ["--skip-damage", "--up-to", "logEnd", "--encoding", "base64"]
            for more in ([], ["--below-start"]):
                rows += run("cat", "-d", path, *how, *more)[1]
    rows += run("salvage", "--records", "--encoding", "base64", "-d", directory)[1]
    return {
        (row["topic"], row["partition"], row["offset"]): json.dumps(row, sort_keys=True)
        for row in rows
    }


@dataclass(frozen=True)
class Copy:
    """A copy that was made of a directory: the exit code, partitions, counts and records."""

    directory: Path
    code: int
    parts: list[Row]
    counts: Row
    records: dict[tuple[str, int, int], str]


def copied(source: Path, target: Path) -> Copy:
    """Rescue a directory."""
    code, rows = run("rescue", source, "--to", target, "--json")
    assert code in {0, 1}
    *others, last = rows
    parts = [row for row in others if "partition" in row]
    return Copy(target, code, parts, last["counts"], records_of(target))


@pytest.fixture(scope="module", params=sampled(CASES, 16), ids=lambda path: path.parent.name)
def case(request: pytest.FixtureRequest) -> Path:
    """Each directory as a crash or damage left it."""
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def before(case: Path) -> dict[str, bytes]:
    """What was in it, before anything was done."""
    return snapshot(case)


@pytest.fixture(scope="module")
def copy(case: Path, before: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The copy of it that the tests look at."""
    assert before
    return copied(case, tmp_path_factory.mktemp("of") / "new")


def snapshot(directory: Path) -> dict[str, bytes]:
    """Return all files of a directory."""
    found = directory.rglob("*")
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def test_each_record_that_a_reader_finds_is_in_the_copy(
    case: Path, before: dict[str, bytes], copy: Copy
) -> None:
    """At its offset, and equal; the copy verifies, and the damaged directory is as it was."""
    there = records_of(case)
    code, rows = run("verify", "--json", copy.directory)

    assert there.items() <= copy.records.items()
    assert code == 0, rows
    assert run("cat", "-d", copy.directory)[0] in {0, 2}
    assert snapshot(case) == before


def test_the_counts_are_those_of_the_copy(case: Path, copy: Copy) -> None:
    """Batches, records and bytes; what was copied and what was left out is all there is."""
    for part in copy.parts:
        name = f"{part['topic']}-{part['partition']}"
        dumped = [
            line
            for path in sorted((copy.directory / name).glob("*.log"))
            for line in run("dump", path)[1]
            if "baseOffset" in line
        ]
        fillers = [one for one in dumped if one["count"] == 0 and one["producerId"] < 0]
        files = [path for path in (case / name).iterdir() if path.name.endswith(LOGS)]
        size = sum(path.stat().st_size for path in files)

        assert len(dumped) - len(fillers) == part["batches"]
        assert size == part["sizeBytes"] + part["leftOutBytes"]
        assert part["leftOutCount"] == len(part["leftOut"])
    assert copy.counts["records"] == sum(part["records"] for part in copy.parts)
    assert (copy.code == 0) == all(part["whole"] for part in copy.parts)


def test_what_is_missing_is_in_the_gaps(case: Path, copy: Copy) -> None:
    """The records that the log had before its damage are in the copy, or in one of its gaps."""
    lost = 0
    for part in copy.parts:
        name = f"{part['topic']}-{part['partition']}"
        listed = case / "expected" / f"{name}.undamaged.jsonl"
        gaps = {
            offset for gap in part["gaps"] for offset in range(gap["startOffset"], gap["endOffset"])
        }
        if listed.exists():
            rows = map(json.loads, listed.read_text("utf-8").splitlines())
            offsets = {row["offset"] for row in rows}
            found = {offset for *_, offset in copy.records}
            lost += len(offsets - found)
            assert offsets - found <= gaps
            assert not gaps & found
    assert copy.code == 1 or not lost


def test_what_a_recovery_cut_comes_back(case: Path, copy: Copy, tmp_path: Path) -> None:
    """A directory that was recovered gives the same copy, from its logs and its cut files."""
    about = json.loads((case.parent / "case.json").read_text("utf-8"))
    data = tmp_path / "data"
    shutil.copytree(case, data, copy_function=shutil.copyfile)
    recovered, _ = run("recover", "--full", "-d", data, "--now", about["takenAtMs"], "--json")
    there = records_of(data)
    second = copied(data, tmp_path / "second").records

    assert recovered in {0, 1}
    assert there.items() <= second.items()
    assert copy.records.keys() - second.keys() == set()
