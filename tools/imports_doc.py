"""Writes into docs/architecture.md what each room may import, from the contracts themselves.

``--check`` writes nothing and fails when the table is stale.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from pages import between, write_or_check

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- written by tools/imports_doc.py; `make docs` does it again -->\n"
END = "<!-- end of what tools/imports_doc.py wrote -->\n"


def contracts() -> list[dict[str, Any]]:
    """Return the import contracts of pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def rows() -> list[list[str]]:
    """Return the rooms that exist, a row of independent ones at a time, the highest first."""
    layers = next(one["layers"] for one in contracts() if one["type"] == "layers")
    named = [[name.strip(" ()") for name in layer.split("|")] for layer in layers]
    there = [[name for name in row if exists(name)] for row in named]
    return [row for row in there if row]


def exists(room: str) -> bool:
    """Whether a room has been built."""
    path = ROOT / "src" / "tidelog" / room
    return path.is_dir() or path.with_suffix(".py").is_file()


def table() -> str:
    """Return the table of rooms and the list of further contracts, as Markdown."""
    lines = ["| Room | May import |", "|---|---|"]
    found = rows()
    for number, row in enumerate(found):
        below = [name for lower in found[number + 1 :] for name in sorted(lower)]
        allowed = " ".join(f"`{name}`" for name in below) or "nothing of tidelog"
        lines += [f"| `{name}` | {allowed} |" for name in sorted(row)]
    lines += ["", "Further contracts:", ""]
    rooms = next(one for one in contracts() if one["type"] == "layers")
    lines += [f"* {one['name']}." for one in contracts() if one != rooms]
    return "\n".join(lines) + "\n"


def render(page: str) -> str:
    """Return the page with the table as of now."""
    return between(page, BEGIN, END, f"{BEGIN}{table()}{END}")


def main() -> int:
    """Write the page, or check it."""
    return write_or_check(__doc__, {PAGE: render(PAGE.read_text("utf-8"))})


if __name__ == "__main__":
    sys.exit(main())
