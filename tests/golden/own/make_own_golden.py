"""Makes data/, expected/ and cases.json beside this file again. Runs on one commit only: the base.

That is 0f6f9c3, the last before the inside of tidelog was rebuilt; the names it imports from there
are gone since. It stays as the account of how the directories came about. In a worktree of base::

    PYTHONPATH=<worktree>/src python make_own_golden.py [TARGET]

Every random number comes from a seed and every time from a clock that stands still, so a second
run gives the same bytes. ``short-writer`` is written by the command line on a real disk. All else
is written on the disk in memory of ``tidelog.testing`` and copied out: there a process can end at
any operation, and paths that stand in files name no machine.
"""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from made_by_hand import SEED
from made_by_services import (
    write_damaged,
    write_dead_services,
    write_killed_service,
    write_power_cut,
    write_service,
)
from made_by_short_writers import write_dead_short_writers, write_short_writer

import tidelog

HERE = Path(__file__).parent
BASE = "0f6f9c3"


def write_data(facts: Any, target: Path) -> None:
    """Write every data directory."""
    shared = Random(SEED)
    random.SystemRandom = lambda: shared  # type: ignore[assignment,misc]  # ids by the seed
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    write_short_writer(facts, target)
    write_dead_short_writers(target)
    write_service(target)
    write_killed_service(target)
    write_dead_services(target)
    write_power_cut(target)
    write_damaged(target)


def write_expected(facts: Any, target: Path) -> None:
    """Write what base makes of every directory, once base has said the same twice."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for case in facts.CASES:
        found: dict[str, Any] = {}
        for _ in range(2):
            before, found = found, facts_of(facts, case)
        for name, told in found.items():
            assert before[name] == told, name
            write_text(target / f"{name}.json", told)


def facts_of(facts: Any, case: Any) -> dict[str, Any]:
    """Return what base makes of a case: of each directory alone, and of all in a service."""
    found = {}
    for name in case.directories:
        with tempfile.TemporaryDirectory() as scratch:
            told = {"read": facts.read_facts(facts.DATA / name)}
            copy = facts.copy_directory(name, Path(scratch))
            told["recovered"] = facts.recovered_facts(copy)
            told["written"] = facts.written_facts(copy, Path(scratch) / "batch.jsonl")
            found[name] = told
    with tempfile.TemporaryDirectory() as scratch:
        copies = [facts.copy_directory(name, Path(scratch)) for name in case.directories]
        found[f"{case.name}.service"] = facts.service_facts(copies)
    return found


def write_text(path: Path, content: Any) -> None:
    """Write JSON for people to read, and for ``git diff``."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def main(target: Path) -> None:
    """Make everything in ``target``."""
    source = Path(tidelog.__file__).parent
    words = ["git", "-C", str(source), "rev-parse", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if not commit.startswith(BASE):
        sys.exit(f"this runs on {BASE} only, not on {commit[:7]} in {source}")
    spec = importlib.util.spec_from_file_location("own_facts", HERE / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    facts = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = facts
    spec.loader.exec_module(facts)
    facts.HERE, facts.DATA, facts.EXPECTED = target, target / "data", target / "expected"
    write_data(facts, target / "data")
    write_expected(facts, target / "expected")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
