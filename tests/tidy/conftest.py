"""What the tidy tests look at: the files of this checkout, read once."""

from __future__ import annotations

import ast
import gc
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CODE_FOLDERS = ("src", "tests", "benchmarks", "examples", "tools")
TEXT_FOLDERS = (*CODE_FOLDERS, "docs", "peer", ".ci", ".github")
TEXT_SUFFIXES = {".cfg", ".md", ".py", ".sh", ".toml", ".txt", ".xml", ".yaml", ".yml", ""}


class Source(NamedTuple):
    """One Python file: where it lies below the checkout, its text, and its syntax tree.

    ``nodes`` are all of the tree, in the order of ``ast.walk``.
    """

    name: str
    text: str
    tree: ast.Module
    nodes: list[ast.AST]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every Python file of the checkout."""
    paths = sorted(path for folder in CODE_FOLDERS for path in (ROOT / folder).rglob("*.py"))
    texts = [(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]
    gc.disable()  # a collection goes over all trees so far, again and again as they grow
    try:
        return [source_of(name, text) for name, text in texts]
    finally:
        gc.freeze()  # nor do those of the tests, which use them as long as the run lasts
        gc.enable()


def source_of(name: str, text: str) -> Source:
    """Parse a file, and walk through its tree once for all tests: a walk takes longer."""
    tree = ast.parse(text, name)
    return Source(name, text, tree, nodes_of(tree))


def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """Return what ``ast.walk`` yields, in a third of its time."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # which grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


@pytest.fixture(scope="session")
def shipped(sources: list[Source]) -> list[Source]:
    """The Python files that users install."""
    return [source for source in sources if source.name.startswith("src/")]


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """Every text file written by hand, golden data left out."""
    inside = [path for folder in TEXT_FOLDERS for path in (ROOT / folder).rglob("*")]
    wanted = [path for path in [*ROOT.iterdir(), *inside] if is_text(path)]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(wanted)}


def is_text(path: Path) -> bool:
    """Say whether ``path`` is a file that a person wrote."""
    made = "__pycache__" in path.parts or path.name in {".coverage", ".git", "requirements.lock"}
    golden = (ROOT / "tests" / "golden") in path.parents and path.suffix != ".md"
    return path.suffix in TEXT_SUFFIXES and not made and not golden and path.is_file()
