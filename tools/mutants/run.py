"""Mutation tests: change the modules that hold rules, one place at a time; a test must fail.

cosmic-ray makes the mutants of each module of ``rules.toml``, and the tests named for the module
run against each mutant. A mutant that no test kills is a survivor: either a rule that no test
holds, or a change without an effect, which ``equivalent.toml`` then lists with the reason. Results
are kept in ``.mutants`` until a module or its tests change, so a stopped run is resumed.

    make mutants [MUTANTS="segment/roll.py log/retention/retention_rules.py"]
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / "tools" / "mutants"
HOME: Final = ROOT / ".mutants"
COPY: Final = HOME / "copy"
COSMIC_RAY: Final = ROOT / ".venvs" / "mutants" / "bin" / "python"
PYTHON: Final = ROOT / ".venv" / "bin" / "python"
COPIED: Final = ("src", "tests", "pyproject.toml", "docs", "README.md", "tools", "examples")
WORKERS: Final = 2


class Rule(NamedTuple):
    """A module below ``src/tidelog``, and the tests that hold its rules."""

    module: str
    tests: tuple[str, ...]


class Mutant(NamedTuple):
    """One mutant: where it is, what it changes, and whether a test failed."""

    module: str
    definition: str
    before: str
    after: str
    is_killed: bool

    def __str__(self) -> str:
        return f"{self.module} {self.definition}: {self.before!r} -> {self.after!r}"


def main() -> int:
    """Run the mutants of the chosen modules; return 1 if one survives that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="of rules.toml; all if none is named")
    chosen = parser.parse_args().modules
    began = time.monotonic()
    rules = [rule for rule in read_rules() if not chosen or rule.module in chosen]
    if not rules:
        print("no such module in tools/mutants/rules.toml", file=sys.stderr)
        return 2
    make_copy()
    with ThreadPoolExecutor(WORKERS) as workers:
        counts = sum(map(report, workers.map(run, rules)), Counter())
    print(
        ", ".join(f"{count} {what}" for what, count in counts.items()),
        f"in {(time.monotonic() - began) / 60:.0f} minutes",
    )
    return 1 if counts["survived"] else 0


def read_rules() -> list[Rule]:
    """Return the modules to mutate, in the order in which they are listed."""
    listed = tomllib.loads((TOOLS / "rules.toml").read_text("utf-8"))["rules"]
    return [Rule(module, tuple(tests)) for module, tests in listed.items()]


def make_copy() -> None:
    """Copy the checkout, so that it can be edited while the mutants run."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, COPY / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, COPY / name)


def run(rule: Rule) -> list[Mutant]:
    """Run the mutants of a module that have no result yet; return all of them."""
    source = COPY / "src" / "tidelog" / rule.module
    command = [str(COSMIC_RAY), str(TOOLS / "mutate.py"), str(source)]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    path = results_path(rule)
    command = [str(PYTHON), str(TOOLS / "execute.py"), rule.module, str(path), *rule.tests]
    environ = os.environ | {"PYTHONPATH": str(COPY / "src")}
    subprocess.run(command, cwd=COPY, env=environ, check=True, input=lines)
    killed = dict(json.loads(line) for line in path.read_text("utf-8").splitlines())
    return [
        Mutant(rule.module, mutated["definition"], *changed, killed[number])
        for number, mutated in enumerate(map(json.loads, lines.splitlines()))
        for changed in [changed_lines(source.read_text("utf-8"), mutated["source"])]
    ]


def results_path(rule: Rule) -> Path:
    """Return the file of a module's results, named by all that they depend on."""
    digest = hashlib.sha256((TOOLS / "mutate.py").read_bytes())
    for path in (f"src/tidelog/{rule.module}", *rule.tests):
        for file in sorted((COPY / path).rglob("*.py")) or [COPY / path]:
            digest.update(file.read_bytes())
    name = rule.module.replace("/", ".").removesuffix(".py")
    return HOME / f"{name}.{digest.hexdigest()[:16]}.jsonl"


def changed_lines(source: str, mutated: str) -> tuple[str, str]:
    """Return the lines that a mutant changes, joined, before and after."""
    diff = list(difflib.unified_diff(source.splitlines(), mutated.splitlines(), n=0))[2:]
    before = " ".join(line[1:].strip() for line in diff if line.startswith("-"))
    return before, " ".join(line[1:].strip() for line in diff if line.startswith("+"))


def report(mutants: Sequence[Mutant]) -> Counter[str]:
    """Print what survived of a module's mutants, and count them by outcome."""
    text = (TOOLS / "equivalent.toml").read_text("utf-8")
    equivalent = {(e["module"], e["before"], e["after"]) for e in tomllib.loads(text)["equivalent"]}
    counts = Counter(killed=0, equivalent=0, survived=0)
    for mutant in mutants:
        if mutant.is_killed:
            counts["killed"] += 1
        elif (mutant.module, mutant.before, mutant.after) in equivalent:
            counts["equivalent"] += 1
        else:
            counts["survived"] += 1
            print(f"survived: {mutant}", flush=True)
    print(
        f"{mutants[0].module}:", ", ".join(f"{n} {what}" for what, n in counts.items()), flush=True
    )
    return counts


if __name__ == "__main__":
    sys.exit(main())
