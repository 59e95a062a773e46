"""What tests may use, and where they lie."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.tidy.conftest import Source

BANNED_EVERYWHERE = {"unittest.mock", "mock", "time.sleep"}
BANNED_IN_UNIT_TESTS = {"time", "socket", "threading", "multiprocessing", "pyspark"}


CHECKS = ("check", "enumerated")
"""How the names of functions begin that assert for a test."""


def imported(source: Source) -> set[str]:
    """Name every module, and every name out of a module, that a file imports."""
    names: set[str] = set()
    for node in source.nodes:
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
    found = {source.name: imported(source) & BANNED_EVERYWHERE for source in tests}

    assert {name: banned for name, banned in found.items() if banned} == {}


def test_unit_tests_know_no_clock_thread_or_socket(sources: list[Source]) -> None:
    """A unit test gives the same answer at any time, on any machine."""
    units = [source for source in sources if source.name.startswith("tests/unit/")]
    found = {source.name: imported(source) & BANNED_IN_UNIT_TESTS for source in units}
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
    """Every test is found by its path from the top of the checkout, as ``tests.crash.test_log``."""
    inits = [s.name for s in sources if s.name.startswith("tests/") and s.name.endswith("__.py")]

    assert inits == []


def test_what_tests_share_knows_none_of_them(sources: list[Source]) -> None:
    """``tests/machinery`` can be read, and imported, without any test."""
    shared = [source for source in sources if source.name.startswith("tests/machinery/")]
    found = {
        source.name: [name for name in imported(source) if name.startswith("tests.")]
        for source in shared
    }

    assert len(shared) > 20
    assert {
        file: names
        for file, names in found.items()
        if any(not name.startswith("tests.machinery") for name in names)
    } == {}


def test_no_test_passes_for_want_of_cases(sources: list[Source]) -> None:
    """A test whose checks all stand in loops over what it computes takes ``enumerated``."""
    tests = [source for source in sources if source.name.startswith("tests/")]
    functions = [(source.name, test) for source in tests for test in functions_of(source)]
    hollow = [
        f"{name}:{test.lineno} {test.name}"
        for name, test in functions
        if may_loop_zero_times(test) and not checks_anyway(test.body, fixed_names(test))
    ]

    assert len(functions) > 2000
    assert hollow == []


def functions_of(source: Source) -> list[ast.FunctionDef]:
    """Return the test functions of a file."""
    found = [node for node in source.nodes if isinstance(node, ast.FunctionDef)]
    return [node for node in found if node.name.startswith("test_")]


def fixed_names(test: ast.FunctionDef) -> set[str]:
    """Return the parameters of a test that come from a decorator, not from a fixture."""
    decorators = [word for node in test.decorator_list for word in ast.walk(node)]
    texts = [node.value for node in decorators if isinstance(node, ast.Constant)]
    return {text for text in texts if isinstance(text, str)}


def is_fixed(node: ast.expr, names: set[str]) -> bool:
    """Say whether the length of an iterable, or a number, is plain to see and not 0."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name.isupper() or name[0].isupper() or name in names
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
            return bool(elts)
        case ast.BinOp(left=left, right=right):
            return is_fixed(left, names) and is_fixed(right, names)
        case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
            return is_fixed(inner, names)
        case ast.Call(func=ast.Attribute(value=inner, attr="items" | "values" | "keys")):
            return is_fixed(inner, names)
        case ast.Call(func=ast.Name(id="range" | "zip" | "enumerate" | "len"), args=args):
            return all(is_fixed(each, names) for each in args)
        case _:
            return False


def may_loop_zero_times(test: ast.FunctionDef) -> bool:
    """Say whether a test asserts in a loop over what it computes."""
    names = fixed_names(test)
    loops = [node for node in ast.walk(test) if isinstance(node, ast.For)]
    computed = [loop for loop in loops if not is_fixed(loop.iter, names)]
    return any(is_check(node) for loop in computed for node in ast.walk(loop))


def checks_anyway(body: list[ast.stmt], names: set[str]) -> bool:
    """Say whether some statement asserts, and not only in a loop over what is computed."""
    for statement in body:
        if isinstance(statement, ast.For) and not is_fixed(statement.iter, names):
            continue
        inner: list[ast.stmt] = getattr(statement, "body", [])
        parts = [statement] if not inner else getattr(statement, "items", [])
        if any(is_check(node) for part in parts for node in ast.walk(part)):
            return True
        if not isinstance(statement, ast.FunctionDef) and checks_anyway(inner, names):
            return True
    return False


def is_check(node: ast.AST) -> bool:
    """Say whether a node asserts, or calls what does."""
    match node:
        case ast.Assert():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="raises" | "warns")):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name.startswith(CHECKS)
        case _:
            return False
