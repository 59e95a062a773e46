"""Measures the house: how large each room is, and what makes a rule hard to find in it.

    python tools/house.py [--list WORD] [--src DIRECTORY]

The first table has a line for each room. Statements are those of the syntax tree, without imports
and docstrings, so that neither layout nor prose counts. The second counts what there should be
little of; ``--list manager`` names what lies there, ``--list ''`` all of it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "src" / "tidelog"
MOST_FILES: Final = 25
"""In one folder; beyond it a reader no longer sees what it is about."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One file: its name below ``tidelog``, such as ``log.state``, its folder and its content.

    ``nodes`` are all of its syntax tree, walked through once.
    """

    name: str
    place: str
    lines: int
    nodes: list[ast.AST]

    @property
    def room(self) -> str:
        """The package, or the module beside the packages, in which it lies."""
        return self.name.partition(".")[0]

    @property
    def file(self) -> str:
        """The name of the file, without folder and suffix."""
        return "__init__" if self.name == self.place.replace("/", ".") else self.name.split(".")[-1]


class Size(NamedTuple):
    """How large a room is."""

    files: int
    lines: int
    statements: int


def read_modules(sources: Path = SOURCES) -> list[Module]:
    """Return every module of the package."""
    found = []
    for path in sorted(sources.rglob("*.py")):
        parts = path.relative_to(sources).with_suffix("").parts
        text = path.read_text("utf-8")
        name = ".".join(part for part in parts if part != "__init__") or "__init__"
        tree = ast.parse(text, str(path))
        nodes = list(ast.walk(tree))
        found.append(Module(name, "/".join(parts[:-1]), text.count("\n"), nodes))
    return found


def statements(nodes: Iterable[ast.AST]) -> int:
    """Count statements, without imports and without expressions that are only a text."""
    return sum(
        isinstance(node, ast.stmt)
        and not isinstance(node, ast.Import | ast.ImportFrom)
        and not is_text(node)
        for node in nodes
    )


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring, of whatever it stands below."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def sizes(modules: Sequence[Module]) -> dict[str, Size]:
    """Return the size of each room, the largest first."""
    rooms: defaultdict[str, Size] = defaultdict(lambda: Size(0, 0, 0))
    for module in modules:
        old = rooms[module.room]
        count = statements(module.nodes)
        rooms[module.room] = Size(old.files + 1, old.lines + module.lines, old.statements + count)
    return dict(sorted(rooms.items(), key=lambda item: -item[1].statements))


def full_folders(modules: Sequence[Module]) -> list[str]:
    """Return the folders with more than ``MOST_FILES`` files."""
    counts = Counter(module.place for module in modules if module.file != "__init__")
    return [f"{place or '.'}: {n} files" for place, n in counts.items() if n > MOST_FILES]


def repeated_names(modules: Sequence[Module]) -> list[str]:
    """Return the names that files have in more than one folder."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        if not module.file.startswith("__"):
            places[module.file].append(module.place or ".")
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def names_used(modules: Sequence[Module], name: str) -> list[str]:
    """Return each line of code in which a name stands, private or not."""
    lines = {
        (module.name, node.lineno)
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Name | ast.Attribute | ast.arg | ast.keyword | Function)
        and name_of(node).strip("_") == name
    }
    return [f"{module}:{line}" for module, line in sorted(lines)]


def name_of(node: ast.Name | ast.Attribute | ast.arg | ast.keyword | Function) -> str:
    """Return the name that stands in a part of the code; empty for ``**`` in a call."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return name
        case ast.keyword(arg=given):
            return given or ""
        case _:
            return node.name


def mixins(modules: Sequence[Module]) -> list[str]:
    """Return the classes that declare the private state of the class that inherits them."""
    return [
        f"{module.name}.{node.name}: {len(state)} attributes"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and not node.decorator_list
        if (state := [each for each in node.body if is_borrowed(each)])
        and not any(isinstance(each, Function) and each.name == "__init__" for each in node.body)
    ]


def is_borrowed(statement: ast.stmt) -> bool:
    """Whether a statement of a class declares a private attribute and gives it no value."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=None):
            return name.startswith("_")
        case _:
            return False


def circles(modules: Sequence[Module]) -> list[str]:
    """Return the sets of modules that import each other, those for types only included."""
    names = {module.name for module in modules}
    edges = {module.name: set(imported(module, names)) for module in modules}
    reached = {name: reachable(name, edges) for name in edges}
    found = {
        frozenset(other for other in after if name in reached[other])
        for name, after in reached.items()
        if name in after
    }
    return sorted(" <-> ".join(sorted(circle)) for circle in found)


def imported(module: Module, names: set[str]) -> Iterator[str]:
    """Yield the other modules of the package that a module imports, wherever it does."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidelog"):
            package = (node.module or "").removeprefix("tidelog").removeprefix(".")
            for alias in node.names:
                full = f"{package}.{alias.name}".removeprefix(".")
                target = full if full in names else package
                if target in names and target != module.name:
                    yield target


def reachable(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """Return what a module imports, directly or not."""
    found: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += edges[name]
    return found


def measured(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Return what there should be little of, by kind."""
    return {
        f"folders with more than {MOST_FILES} files": full_folders(modules),
        "file names in several folders": repeated_names(modules),
        "import circles": circles(modules),
        "mixins on the state of another class": mixins(modules),
        "lines with is_service": names_used(modules, "is_service"),
    }


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--src", type=Path, default=SOURCES, help="tidelog of another checkout")
    parser.add_argument("--list", metavar="WORD", help="name what is counted, where WORD is part")
    chosen = parser.parse_args()
    modules = read_modules(chosen.src)
    found = sizes(modules)
    total = Size(*map(sum, zip(*found.values(), strict=True)))
    print(f"{'room':12} {'files':>6} {'lines':>7} {'statements':>11}")
    for room, size in [*found.items(), ("all", total)]:
        print(f"{room:12} {size.files:6} {size.lines:7} {size.statements:11}")
    print()
    for what, where in measured(modules).items():
        print(f"{len(where):6} {what}")
        for line in where:
            if chosen.list is not None and chosen.list in line:
                print(f"         {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
