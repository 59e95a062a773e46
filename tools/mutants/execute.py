"""Run tests against mutants of a module, each in a fork of a process that has imported the rest.

Most of the time of a short test file is spent on imports. So this process imports all that the
tests use except the module and what imports it; for each mutant a child imports these again, with
the mutant's source in place of the module's, and runs the tests. No file of the checkout changes.

    execute.py MODULE RESULTS TEST... < mutants.jsonl

The mutants are those that ``mutate.py`` prints. A line with the number of the mutant and whether a
test failed is appended to RESULTS for each mutant that has none yet.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

SOURCES: Final = Path("src")
SLOWEST: Final = 10
"""A mutant may take this many times as long as the tests take without one."""

OPTIONS: Final = (
    "-qx",
    "-pno:cacheprovider",
    "-mnot slow",
    "--assert=plain",  # else pytest itself loads the modules of a package that has a plugin
    "-Wignore::pytest.PytestAssertRewriteWarning",  # plugins are imported before pytest starts
)


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from the source of a mutant."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for the mutated module only."""
        del path, target
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        """Execute the source of the mutant."""
        code = compile(self._source, f"<mutant of {self._name}>", "exec")
        exec(code, vars(module))  # noqa: S102 - a mutant of our own source


def main(path: str, results: Path, tests: Sequence[str]) -> int:
    """Run the mutants that standard input lists; return 1 if the tests fail without a mutant."""
    name = f"tidelog.{path.removesuffix('.py').replace('/', '.')}"
    began = time.monotonic()
    imported = import_by_tests(tests)
    if imported is None:
        print(f"{path}: its tests fail", file=sys.stderr)
        return 1
    limit_seconds = (time.monotonic() - began) * SLOWEST + 10
    dependents = importers(name)
    for module in sorted(set(imported) - dependents):
        # A private module comes with the public one. Before it, ``_asyncio`` would leave asyncio
        # with two ideas of which task runs.
        if not module.startswith("_"):
            with contextlib.suppress(Exception):  # what a plugin made up; the child imports others
                importlib.import_module(module)
    unchanged = Mutated(name, (SOURCES / "tidelog" / path).read_text("utf-8"))
    if name in sys.modules or not passes(unchanged, tests, limit_seconds):
        print(f"{path}: its tests fail when it is imported in a fork", file=sys.stderr)
        return 1
    if passes(Mutated(name, "raise ImportError"), tests, limit_seconds):
        print(f"{path}: its tests do not load the mutant", file=sys.stderr)
        return 1
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    done = {json.loads(line)[0] for line in lines}
    for number, line in enumerate(sys.stdin):
        if number not in done:
            mutant = Mutated(name, json.loads(line)["source"])
            is_killed = not passes(mutant, tests, limit_seconds)
            with results.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps([number, is_killed])}\n")
    return 0


def import_by_tests(tests: Sequence[str]) -> list[str] | None:
    """Return the modules that the tests import, or ``None`` if a test fails."""
    read_end, write_end = os.pipe()

    def report() -> int:
        code = run_tests(tests)
        with os.fdopen(write_end, "w") as file:
            json.dump([name for name in sys.modules if name.partition(".")[0] != "tests"], file)
        return code

    child = fork(report)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    names: list[str] = json.loads(text) if text else []
    return names if status == 0 and names else None


def importers(name: str) -> set[str]:
    """Return ``name`` and the modules that import it when they are imported themselves."""
    imports = {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"): set(
            imports_of(ast.parse(path.read_bytes()).body)
        )
        for path in SOURCES.rglob("*.py")
    }
    found = {name}
    while more := {one for one, others in imports.items() if others & found} - found:
        found |= more
    return found


def imports_of(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the modules that statements outside of functions import."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            package = statement.module or ""
            yield package
            yield from (f"{package}.{alias.name}" for alias in statement.names)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
                continue
            inner = [node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.stmt)]
            yield from imports_of(inner)


def passes(mutant: Mutated, tests: Sequence[str], limit_seconds: float) -> bool:
    """Return whether all tests pass with the mutant, in time."""

    def run() -> int:
        sys.meta_path.insert(0, mutant)
        return run_tests(tests)

    child = fork(run)
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def fork(run: Callable[[], int]) -> int:
    """Run ``run`` in a child, in a process group of its own; return the child's id."""
    child = os.fork()
    if child:
        return child
    code = 2
    with contextlib.suppress(BaseException):
        os.setpgid(0, 0)
        code = run()
    os._exit(code)  # not the parent's handlers


def run_tests(tests: Sequence[str]) -> int:
    """Run the tests without output; return pytest's exit code."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    return int(pytest.main([*OPTIONS, *tests]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
