"""What tests may use, and where they lie."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.tidy.conftest import Source

BANNED_EVERYWHERE = {"unittest.mock", "mock", "time.sleep"}
BANNED_IN_UNIT_TESTS = {"time", "socket", "threading", "multiprocessing", "pyspark"}


def imported(tree: ast.Module) -> set[str]:
    """Name every module, and every name out of a module, that a file imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    return names


def test_no_test_patches_or_sleeps(sources: list[Source]) -> None:
    """Tests use the fakes of tidelog.testing and wait for nothing by the clock."""
    tests = [source for source in sources if source.name.startswith("tests/")]
    found = {source.name: imported(source.tree) & BANNED_EVERYWHERE for source in tests}

    assert {name: banned for name, banned in found.items() if banned} == {}


def test_unit_tests_know_no_clock_thread_or_socket(sources: list[Source]) -> None:
    """A unit test gives the same answer at any time, on any machine."""
    units = [source for source in sources if source.name.startswith("tests/unit/")]
    found = {source.name: imported(source.tree) & BANNED_IN_UNIT_TESTS for source in units}
    threaded = ("test_scheduler", "test_system_files", "test_task_gate")
    allowed = {f"tests/unit/env/{name}.py" for name in threaded}

    assert {n: banned for n, banned in found.items() if banned and n not in allowed} == {}


def test_unit_tests_mirror_the_source(sources: list[Source]) -> None:
    """A unit test lies in the folder of its package: tests/unit/<package>/test_<what>.py."""
    places = [Path(source.name) for source in sources]
    packages = {path.parent for path in places if path.name == "__init__.py"}
    unit = Path("tests/unit")
    astray = [
        path.as_posix()
        for path in places
        if unit in path.parents and "src/tidelog" / path.parent.relative_to(unit) not in packages
    ]

    assert astray == []


def test_test_folders_are_no_packages(sources: list[Source]) -> None:
    """Tests share code through tidelog.testing and conftest.py, never through imports."""
    inits = [s.name for s in sources if s.name.startswith("tests/") and s.name.endswith("__.py")]

    assert inits == []
