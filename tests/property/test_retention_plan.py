"""Retention does what its plan announced, for any logs."""

from __future__ import annotations

import io
import json
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.scale import examples

from tidelog.cli.main import main
from tidelog.embedded.doors import open_briefly

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


class Case(NamedTuple):
    """Logs and the time at which they are examined; ages in hours, before ``NOW_MS``."""

    config: dict[str, str]
    ages: list[list[int]]
    """Ages of the records of each partition, in order of offset."""
    start: int
    """Records below it were deleted, if there are that many."""
    later: int
    """Hours after ``NOW_MS``."""


CASES = st.builds(
    Case,
    st.fixed_dictionaries(
        {
            "internal.segment.bytes": st.sampled_from(["80", "160", "400"]),
            "retention.bytes": st.sampled_from(["-1", "0", "100", "300"]),
            "retention.ms": st.sampled_from(["-1", "0", str(5 * HOUR_MS), str(50 * HOUR_MS)]),
            "cleanup.policy": st.sampled_from(["delete", "delete", "compact,delete", "compact"]),
            "segment.ms": st.sampled_from([str(HOUR_MS), str(10**12)]),
        }
    ),
    st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=1, max_size=3),
    st.integers(0, 8),
    st.integers(0, 60),
)


def make(path: str, case: Case) -> None:
    """Write the logs."""
    with open_briefly(path) as opened:
        opened.create_topic("t", len(case.ages), case.config)
        for number, ages in enumerate(case.ages):
            partition = opened.partition("t", number)
            for age in ages:
                partition.append_records([(NOW_MS - age * HOUR_MS, b"k", b"v" * 9, ())])
            if case.config["cleanup.policy"] != "compact" and case.start <= len(ages):
                partition.log.maybe_increment_log_start_offset(case.start)


def run(*arguments: object) -> list[Any]:
    """Run a command and return its JSON lines, except counts at the end."""
    raw, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(raw)
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    assert code == 0, err.getvalue()
    out.flush()
    rows = map(json.loads, raw.getvalue().splitlines())
    return [row for row in rows if "counts" not in row]


def logs_in(path: str) -> set[str]:
    """Return the names of all .log files, including those scheduled for deletion."""
    return {str(file.relative_to(path)) for file in Path(path).glob("t-*/*.log*")}


def offsets_in(path: str) -> set[tuple[int, int]]:
    """Return partition and offset of every record visible to readers."""
    return {(row["partition"], row["offset"]) for row in run("cat", "t", "-d", path)}


def report_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the report on a log without the time at which an empty segment was created."""
    return {
        **row,
        "kept": [{**one, "dueMs": one["sizeBytes"] and one["dueMs"]} for one in row["kept"]],
    }


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(case=CASES)
def test_retention_deletes_the_files_and_records_that_its_plan_names(case: Case) -> None:
    """It does so at the same time, and the files are deleted when the command ends."""
    with tempfile.TemporaryDirectory() as path:
        make(path, case)
        arguments = ("-d", path, "--now", NOW_MS + case.later * HOUR_MS, "--json")
        files, records = logs_in(path), offsets_in(path)

        plan = run("plan", "retention", *arguments)
        kept = logs_in(path), offsets_in(path)
        done = run("retain", *arguments)

        stay = {
            f"t-{row['partition']}/{segment['baseOffset']:020}.log"
            for row in plan
            for segment in row["kept"]
        }
        starts = {row["partition"]: row["logStartOffset"] for row in plan}
        assert kept == (files, records)
        assert [report_of(row) for row in done] == [report_of(row) for row in plan]
        assert logs_in(path) == stay
        assert offsets_in(path) == {(n, offset) for n, offset in records if offset >= starts[n]}


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(case=CASES, before=st.integers(0, 12) | st.just("highWatermark"))
def test_a_deletion_of_records_does_what_its_dry_run_names(case: Case, before: int | str) -> None:
    """Where one is refused, so is the other."""
    with tempfile.TemporaryDirectory() as path:
        make(path, case)
        words = ("delete-records", "t", "-p", "all", "--before", before, "-d", path, "--json")
        files, records = logs_in(path), offsets_in(path)
        ends = {number: len(ages) for number, ages in enumerate(case.ages)}
        is_beyond = isinstance(before, int) and before > min(ends.values())
        is_refused = is_beyond or case.config["cleanup.policy"] == "compact"

        if is_refused:
            assert main([*map(str, words)]) == main([*map(str, words), "--dry-run"]) == 2
            return
        plan = run(*words, "--dry-run")
        kept = logs_in(path), offsets_in(path)
        done = run(*words)

        starts = {row["partition"]: row["logStartOffset"] for row in plan}
        assert kept == (files, records)
        assert done == plan
        assert offsets_in(path) == {(n, offset) for n, offset in records if offset >= starts[n]}
