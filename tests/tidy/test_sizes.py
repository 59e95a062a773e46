"""Functions, files and lines stay small, with no list of exceptions."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tidy.conftest import Source

MAX_FUNCTION_LINES = 50
MAX_FILE_LINES = 800
MAX_LINE_LENGTH = 100


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function's body without its docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_a_function_body_has_at_most_50_lines(sources: list[Source]) -> None:
    """A function body has at most 50 lines, its docstring not counted."""
    too_long = [
        f"{source.name}:{node.lineno} {node.name}: {body_lines(node)} lines"
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and body_lines(node) > MAX_FUNCTION_LINES
    ]

    assert too_long == []


def test_a_file_has_at_most_800_lines(sources: list[Source]) -> None:
    """A Python file has at most 800 lines."""
    lines = {source.name: source.text.count("\n") for source in sources}

    assert {name: count for name, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_a_line_has_at_most_100_characters(sources: list[Source]) -> None:
    """A line of Python has at most 100 characters, an explained suppression not counted."""
    too_long = [
        f"{source.name}:{number}"
        for source in sources
        for number, line in enumerate(source.text.splitlines(), 1)
        if len(line.split("  # noqa")[0].split("  # type: ignore")[0]) > MAX_LINE_LENGTH
    ]

    assert too_long == []


def test_complexity_is_at_most_10_without_exception(root: Path) -> None:
    """No function is more complex than 10, and no comment can excuse one."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "C901", "--ignore-noqa", "src"]

    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stdout) == (0, "All checks passed!\n")
