"""Everything that a reader finds in a damaged directory is in the one that ``rescue`` makes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tidelog.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = dict[str, Any]

DATA: Final = Path(__file__).parent / "data"
CASES: Final = sorted([*DATA.glob("crash/*/before"), *DATA.glob("whole-dir-crash/before")])
METADATA: Final = "__cluster_metadata-0"
"""Left out: it is about the cluster, and what is left of it may contradict what was rescued."""
LOGS: Final = (".log", ".log.swap", ".log.deleted", ".log.cleaned")


@pytest.fixture(params=CASES, ids=lambda path: path.parent.name)
def case(request: pytest.FixtureRequest) -> Path:
    """Each directory as a crash or damage left it."""
    found: Path = request.param
    return found


class Commands:
    """Runs commands that print JSON."""

    def __init__(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        self._capsys = capsysbinary

    def __call__(self, *words: object) -> tuple[int, list[Row]]:
        """Return the exit code of a command, and its rows."""
        self._capsys.readouterr()
        code = main([str(word) for word in words])
        rows = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        return code, rows

    def records(self, directory: Path) -> Iterator[Row]:
        """Yield all records that readers find, those of partitions and those that were cut."""
        for path in sorted(directory.glob("*-[0-9]*")):
            if path.is_dir() and path.name != METADATA:
                how = ["--skip-damage", "--up-to", "logEnd", "--encoding", "base64"]
                for more in ([], ["--below-start"]):
                    yield from self("cat", "-d", path, *how, *more)[1]
        yield from self("salvage", "--records", "--encoding", "base64", "-d", directory)[1]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Commands:
    """What runs commands."""
    return Commands(capsysbinary)


def as_set(rows: Iterator[Row]) -> dict[tuple[str, int, int], str]:
    """Return records by topic, partition and offset."""
    found = {}
    for row in rows:
        found[row["topic"], row["partition"], row["offset"]] = json.dumps(row, sort_keys=True)
    return found


def copied(run: Commands, source: Path, target: Path) -> tuple[int, list[Row], Row]:
    """Rescue a directory; return the exit code, the rows of partitions and the counts."""
    code, rows = run("rescue", source, "--to", target, "--json")
    assert code in {0, 1}
    *others, last = rows
    return code, [row for row in others if "partition" in row], last["counts"]


def snapshot(directory: Path) -> dict[str, bytes]:
    """Return all files of a directory."""
    found = directory.rglob("*")
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def test_each_record_that_a_reader_finds_is_in_the_copy(
    case: Path, tmp_path: Path, run: Commands
) -> None:
    """At its offset, and equal; the copy verifies, and the damaged directory is as it was."""
    before = snapshot(case)
    there = as_set(run.records(case))
    copied(run, case, tmp_path / "new")
    here = as_set(run.records(tmp_path / "new"))
    code, rows = run("verify", "--json", tmp_path / "new")

    assert there.items() <= here.items()
    assert code == 0, rows
    assert run("cat", "-d", tmp_path / "new")[0] in {0, 2}
    assert snapshot(case) == before


def test_the_counts_are_those_of_the_copy(case: Path, tmp_path: Path, run: Commands) -> None:
    """Batches, records and bytes; what was copied and what was left out is all there is."""
    new = tmp_path / "new"
    code, parts, counts = copied(run, case, new)
    for part in parts:
        name = f"{part['topic']}-{part['partition']}"
        dumped = [
            line
            for path in sorted((new / name).glob("*.log"))
            for line in run("dump", path)[1]
            if "baseOffset" in line
        ]
        fillers = [one for one in dumped if one["count"] == 0 and one["producerId"] < 0]
        files = [path for path in (case / name).iterdir() if path.name.endswith(LOGS)]
        size = sum(path.stat().st_size for path in files)

        assert len(dumped) - len(fillers) == part["batches"]
        assert size == part["sizeBytes"] + part["leftOutBytes"]
        assert part["leftOutCount"] == len(part["leftOut"])
    assert counts["records"] == sum(part["records"] for part in parts)
    assert (code == 0) == all(part["whole"] for part in parts)


def test_what_is_missing_is_in_the_gaps(case: Path, tmp_path: Path, run: Commands) -> None:
    """The records that the log had before its damage are in the copy, or in one of its gaps."""
    code, parts, _ = copied(run, case, tmp_path / "new")
    here = as_set(run.records(tmp_path / "new"))
    lost = 0
    for part in parts:
        name = f"{part['topic']}-{part['partition']}"
        listed = case / "expected" / f"{name}.undamaged.jsonl"
        gaps = {
            offset for gap in part["gaps"] for offset in range(gap["startOffset"], gap["endOffset"])
        }
        if listed.exists():
            rows = map(json.loads, listed.read_text("utf-8").splitlines())
            offsets = {row["offset"] for row in rows}
            found = {offset for *_, offset in here}
            lost += len(offsets - found)
            assert offsets - found <= gaps
            assert not gaps & found
    assert code == 1 or not lost


def test_what_a_recovery_cut_comes_back(case: Path, tmp_path: Path, run: Commands) -> None:
    """A directory that was recovered gives the same copy, from its logs and its cut files."""
    about = json.loads((case.parent / "case.json").read_text("utf-8"))
    data = tmp_path / "data"
    shutil.copytree(case, data, copy_function=shutil.copyfile)
    copied(run, data, tmp_path / "first")
    recovered, _ = run("recover", "--full", "-d", data, "--now", about["takenAtMs"], "--json")
    there = as_set(run.records(data))
    copied(run, data, tmp_path / "second")
    first = as_set(run.records(tmp_path / "first"))
    second = as_set(run.records(tmp_path / "second"))

    assert recovered in {0, 1}
    assert there.items() <= second.items()
    assert first.keys() - second.keys() == set()
