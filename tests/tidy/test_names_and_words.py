"""Names, docstrings and comments that every file keeps to."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from tests.tidy.conftest import Source

VAGUE_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}
# Besides codec: the operating system's own structures, and the plain twins of word loads.
BYTE_WORKERS = ("codec/", "env/", "kernels/runtime/intrinsics.py")
DOORS = {"tidelog", "tidelog/arrow", "tidelog/spark", "tidelog/testing", "pyspark_tidelog"}
# Spelled in parts, so that this file does not hold what it looks for.
MACHINE_PATHS = ("/wor" + "k/", "../sha" + "red", "/ro" + "ot/", "/ho" + "me/")
OPEN_ENDS = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
EXPLAINED_NOQA = re.compile(r"# noqa: [A-Z]+[0-9]+(, [A-Z]+[0-9]+)* - \S")
EXPLAINED_TYPE_IGNORE = re.compile(r"# type: ignore\[[a-z-]+(, ?[a-z-]+)*\]  # \S")


def test_no_module_has_a_vague_name(sources: list[Source]) -> None:
    """A module is named after what it holds, never utils, helpers or common."""
    assert [source.name for source in sources if Path(source.name).stem in VAGUE_NAMES] == []


def test_every_shipped_module_says_what_it_owns(shipped: list[Source]) -> None:
    """Each module under src opens with a docstring."""
    assert [source.name for source in shipped if not ast.get_docstring(source.tree)] == []


def test_every_test_states_its_rule(sources: list[Source]) -> None:
    """Each test has a docstring that states the rule it protects."""
    silent = [
        f"{source.name}::{node.name}"
        for source in sources
        if source.name.startswith("tests/")
        for node in source.nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not ast.get_docstring(node)
    ]

    assert silent == []


def test_an_init_file_holds_a_docstring_only(shipped: list[Source]) -> None:
    """Names are imported from the module that defines them; only the public doors re-export."""
    busy = [
        source.name
        for source in shipped
        if source.name.endswith("/__init__.py")
        and source.name.removeprefix("src/").removesuffix("/__init__.py") not in DOORS
        and len(source.tree.body) != 1
    ]

    assert busy == []


def test_no_file_names_the_machine_it_was_written_on(texts: dict[str, str]) -> None:
    """No file of the project holds a path of some machine."""
    found = [(name, path) for name, text in texts.items() for path in MACHINE_PATHS if path in text]

    assert found == []


def test_no_loose_ends_are_left_in_comments(sources: list[Source]) -> None:
    """What is left to do stands in an issue, not in a comment."""
    pattern = re.compile(rf"#.*\b({'|'.join(OPEN_ENDS)})\b")

    assert [source.name for source in sources if pattern.search(source.text)] == []


def test_a_suppressed_check_names_its_rule_and_its_reason(sources: list[Source]) -> None:
    """Each noqa and type-ignore names the rule that it silences and says why."""
    bare = [
        f"{source.name}:{number}"
        for source in sources
        if not source.name.startswith("tests/tidy/")
        for number, line in enumerate(source.text.splitlines(), 1)
        if ("# noqa" in line and not EXPLAINED_NOQA.search(line))
        or ("# type: ignore" in line and not EXPLAINED_TYPE_IGNORE.search(line))
    ]

    assert bare == []


def test_bytes_are_packed_in_codec_only(shipped: list[Source]) -> None:
    """Only codec turns numbers into bytes: one place spells the byte order."""
    elsewhere = [
        f"{source.name}:{node.lineno}"
        for source in shipped
        if not source.name.removeprefix("src/tidelog/").startswith(BYTE_WORKERS)
        for node in source.nodes
        if is_byte_work(node)
    ]

    assert elsewhere == []


def is_byte_work(node: ast.AST) -> TypeGuard[ast.stmt | ast.expr]:
    """Say whether ``node`` imports struct or calls from_bytes or to_bytes."""
    if isinstance(node, ast.Import):
        return any(alias.name == "struct" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module == "struct"
    return isinstance(node, ast.Attribute) and node.attr in {"from_bytes", "to_bytes"}
