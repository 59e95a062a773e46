"""Mutation tests: change the modules that hold rules, one place at a time; a test must fail.

Each module of ``rules.toml`` is mutated by cosmic-ray in a copy of the checkout, and the tests
named for it run against each mutant. A mutant that no test kills is a survivor: either a rule that
no test holds, or a change without an effect, which ``equivalent.toml`` then lists with the reason.
Results are kept in ``.mutants`` until a module or its tests change, so a run that was stopped goes
on where it was.

    make mutants [MUTANTS="segment/roll.py log/retention.py"]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
HOME: Final = ROOT / ".mutants"
COSMIC_RAY: Final = ROOT / ".venvs" / "mutants" / "bin"
PYTHON: Final = ROOT / ".venv" / "bin" / "python"
COPIED: Final = ("src", "tests", "pyproject.toml", "docs", "README.md", "tools", "examples")
WORKERS: Final = 2
SLOWEST: Final = 10
"""A mutant may take this many times as long as the tests take without one."""

OPERATORS: Final = (
    # Among them those of ``|``, which stands in annotations, and these are not evaluated.
    "core/ReplaceBinaryOperator_(?!Add_Sub$|Sub_Add$|Mul_FloorDiv$|FloorDiv_Mul$|Mod_Mul$).*",
    (
        "core/ReplaceComparisonOperator_(?!Lt_LtE$|LtE_Lt$|Gt_GtE$|GtE_Gt$|Lt_GtE$|GtE_Lt$|Gt_LtE$"
        "|LtE_Gt$|Eq_NotEq$|NotEq_Eq$|Is_IsNot$|IsNot_Is$|In_NotIn$|NotIn_In$).*"
    ),
    "core/RemoveDecorator",
    "core/AddNot",  # the same as the opposite comparison, mostly
)
"""Operators that are left out: they repeat what the others show."""


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
    """Run the mutants of the chosen modules; return 1 if any survives that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="of rules.toml; all if none is named")
    chosen = parser.parse_args().modules
    began = time.monotonic()
    rules = [rule for rule in read_rules() if not chosen or rule.module in chosen]
    if not rules:
        print("no such module in tools/mutants/rules.toml", file=sys.stderr)
        return 2
    mutants = [mutant for rule in run_all(rules) for mutant in results(rule)]
    return report(mutants, time.monotonic() - began)


def read_rules() -> list[Rule]:
    """Return the modules to mutate, in the order in which they are listed."""
    listed = tomllib.loads((ROOT / "tools/mutants/rules.toml").read_text("utf-8"))["rules"]
    return [Rule(module, tuple(tests)) for module, tests in listed.items()]


def run_all(rules: Sequence[Rule]) -> list[Rule]:
    """Run the mutants of each module, each worker in its own copy of the checkout."""
    waiting: Queue[Rule] = Queue()
    for rule in rules:
        waiting.put(rule)
    workers = [
        threading.Thread(target=work, args=(waiting, HOME / f"copy-{number}"))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return list(rules)


def work(waiting: Queue[Rule], copy: Path) -> None:
    """Take modules until there are none, and run their mutants in ``copy``."""
    while True:
        try:
            rule = waiting.get_nowait()
        except Empty:
            return
        if not session(rule).with_suffix(".done").exists():
            make_copy(copy)
            run(rule, copy)


def make_copy(copy: Path) -> None:
    """Make a copy of the checkout, without what an interrupted run changed in it."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)


def session(rule: Rule) -> Path:
    """Return the file of a module's results, named by all that they depend on."""
    digest = hashlib.sha256(json.dumps(OPERATORS).encode())
    for path in (f"src/tidelog/{rule.module}", *rule.tests):
        for file in sorted((ROOT / path).rglob("*.py")) or [ROOT / path]:
            digest.update(file.read_bytes())
    name = rule.module.replace("/", ".").removesuffix(".py")
    return HOME / f"{name}.{digest.hexdigest()[:16]}.sqlite"


def run(rule: Rule, copy: Path) -> None:
    """Run the mutants of a module that have no result yet."""
    command = [str(PYTHON), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"]
    command += rule.tests
    environ = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{COSMIC_RAY}{os.pathsep}{os.environ['PATH']}",
    }
    began = time.monotonic()
    subprocess.run(command, cwd=copy, env=environ, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    path = session(rule)
    config = path.with_suffix(".toml")
    config.write_text(
        "\n".join(
            (
                "[cosmic-ray]",
                f'module-path = "src/tidelog/{rule.module}"',
                f"timeout = {seconds * SLOWEST + 10:.1f}",
                "excluded-modules = []",
                f"test-command = {json.dumps(shlex.join(command))}",
                "[cosmic-ray.distributor]",
                'name = "local"',
                "[cosmic-ray.filters.operators-filter]",
                f"exclude-operators = {json.dumps(OPERATORS)}",
            )
        )
    )
    if not path.exists():
        cosmic_ray(copy, environ, "cosmic-ray", "init", str(config), str(path))
        cosmic_ray(copy, environ, "cr-filter-operators", str(path), str(config))
    print(f"{rule.module}: {len(list(dump(path)))} mutants, {seconds:.1f} s each", flush=True)
    cosmic_ray(copy, environ, "cosmic-ray", "exec", str(config), str(path))
    path.with_suffix(".done").touch()


def cosmic_ray(copy: Path, environ: dict[str, str], *command: str) -> None:
    """Run one of cosmic-ray's commands in a copy of the checkout."""
    subprocess.run(command, cwd=copy, env=environ, check=True, stdout=subprocess.DEVNULL)


def dump(path: Path) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    """Yield mutation and result of each mutant that was not left out."""
    output = subprocess.run(
        [str(COSMIC_RAY / "cosmic-ray"), "dump", str(path)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    for line in output.splitlines():
        job, result = json.loads(line)
        if result is None or result["worker_outcome"] != "skipped":
            yield job["mutations"][0], result or {}


def results(rule: Rule) -> Iterator[Mutant]:
    """Yield the mutants of a module."""
    for mutation, result in dump(session(rule)):
        lines = str(result.get("diff") or "").splitlines()
        changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        before = " ".join(line[1:].strip() for line in changed if line.startswith("-"))
        after = " ".join(line[1:].strip() for line in changed if line.startswith("+"))
        outcome = result.get("test_outcome")
        definition = str(mutation.get("definition_name") or "")
        yield Mutant(rule.module, definition, before, after, outcome != "survived")


def report(mutants: Sequence[Mutant], seconds: float) -> int:
    """Print what survived and the counts; return 1 if a survivor is not listed as equivalent."""
    text = (ROOT / "tools/mutants/equivalent.toml").read_text("utf-8")
    equivalent = {(e["module"], e["before"], e["after"]) for e in tomllib.loads(text)["equivalent"]}
    survivors = [mutant for mutant in mutants if not mutant.is_killed]
    unlisted = [m for m in survivors if (m.module, m.before, m.after) not in equivalent]
    for survivor in unlisted:
        print(f"survived: {survivor}")
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        ours = [mutant for mutant in mutants if mutant.module == module]
        killed = sum(mutant.is_killed for mutant in ours)
        print(f"{module}: {killed} of {len(ours)} killed")
    listed = len(survivors) - len(unlisted)
    print(
        f"{len(mutants)} mutants: {len(mutants) - len(survivors)} killed, {listed} equivalent, "
        f"{len(unlisted)} survived; {seconds / 60:.0f} minutes"
    )
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
