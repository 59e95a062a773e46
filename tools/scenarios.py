"""Writes docs/scenarios.md: which test here stands for which scenario of Kafka's own tests.

A test's docstring names the scenarios it stands for, behind ``Scenario:``, as Class.method, with
commas between. ``tools/scenarios.toml`` lists the methods of each of Kafka's test classes, and says
of those that have no test here why. ``--check`` writes nothing and fails when the page is stale.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tools" / "scenarios.toml"
PAGE = ROOT / "docs" / "scenarios.md"
TAG = re.compile(r"Scenario:((?:\s+\w+\.\w+,?)+)")
NAME = re.compile(r"\w+\.\w+")
BROKEN = re.compile(r"(?<=Test\.)\s+(?=test|should)")
"""Where a name too long for a line goes on in the next one."""

HEADER = """\
# Kafka's test scenarios, and the tests here that stand for them

Written by `tools/scenarios.py`; `make docs` does it anew. The names are those of Kafka's own tests;
the tests are ours, and so is every line of them.
"""


def tagged() -> dict[str, list[str]]:
    """Return, for each scenario, the tests that name it."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for scenario in scenarios_of(ast.get_docstring(node) or ""):
                    place = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
                    found.setdefault(scenario, []).append(place)
    return found


def scenarios_of(docstring: str) -> Iterator[str]:
    """Yield the scenarios that a docstring names."""
    for tag in TAG.findall(BROKEN.sub("", docstring)):
        yield from NAME.findall(tag)


def listed() -> dict[str, Any]:
    """Return the known test classes: their methods, and reasons for those left out."""
    return tomllib.loads(LIST.read_text("utf-8"))


def problems() -> list[str]:
    """Return what does not fit: scenarios nobody stands for, and tags that name none."""
    known, found = listed(), tagged()
    wrong = []
    for name, entry in known.items():
        methods = {f"{name}.{method}" for method in entry["methods"]}
        left_out = {f"{name}.{method}" for method in entry.get("left_out", {})}
        tags = {tag for tag in found if tag.partition(".")[0] == name}
        wrong += [f"{method}: no test" for method in sorted(methods - tags)]
        wrong += [f"{method}: left out, but there is a test" for method in sorted(left_out & tags)]
        wrong += [f"{tag}: not in {LIST.name}" for tag in sorted(tags - methods - left_out)]
    return wrong


def render() -> str:
    """Return the page."""
    known, found = listed(), tagged()
    others = {tag.partition(".")[0] for tag in found} - set(known)
    parts = [HEADER]
    for name in sorted({*known, *others}):
        entry = known.get(name, {"methods": []})
        tags = {tag.partition(".")[2] for tag in found if tag.partition(".")[0] == name}
        parts.append(f"\n## {name}\n\n| Scenario | Here |\n|---|---|\n")
        for method in sorted({*entry["methods"], *tags}):
            places = ", ".join(f"`{place}`" for place in found.get(f"{name}.{method}", []))
            parts.append(f"| {method} | {places} |\n")
        for method, reason in sorted(entry.get("left_out", {}).items()):
            parts.append(f"| {method} | none: {reason} |\n")
    return "".join(parts)


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    for problem in (wrong := problems()):
        print(problem, file=sys.stderr)
    page = render()
    if is_check:
        return 1 if wrong or PAGE.read_text("utf-8") != page else 0
    PAGE.write_text(page, "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
