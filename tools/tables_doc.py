"""Writes docs/tables.md: the system tables with their columns, from their declarations.

``--check`` writes nothing and fails if the page is stale.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.explain.tables.system_tables import SYSTEM_TABLES

if TYPE_CHECKING:
    from tidelog.explain.tables.system_table import SystemTable

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"

TEMPLATE = Path(__file__).parent / "tables_template.md"


def section(table: SystemTable) -> str:
    """Return the part of the page about one table."""
    columns = "".join(
        f"| `{one.name}` | {one.type}{' or null' * one.is_nullable} | {one.text} |\n"
        for one in table.columns
    )
    heading = f"\n## {table.name}\n\nA row is {table.text}.\n\n"
    return f"{heading}| Column | Type | What it is |\n|---|---|---|\n{columns}"


def render() -> str:
    """Return the whole page."""
    return TEMPLATE.read_text("utf-8") + "".join(section(table) for table in SYSTEM_TABLES.values())


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return int(PAGE.read_text("utf-8") != render())
    PAGE.write_text(render(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
