"""Writes docs/tables.md: the system tables with their columns, from their declarations.

``--check`` writes nothing and fails if the page is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pages import write_or_check

from tidelog.explain.tables.system_tables import SYSTEM_TABLES

if TYPE_CHECKING:
    from tidelog.explain.tables.system_table import SystemTable

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"

TEMPLATE = Path(__file__).parent / "tables_template.md"

COMMON = {"topic": "name of the topic", "partition": "number of the partition"}
"""Columns of all tables about partitions; the template has them once."""


def section(table: SystemTable) -> str:
    """Return the part of the page about one table."""
    texts = {one.name: one.text for one in table.columns}
    common = COMMON if COMMON.items() <= texts.items() else {}
    columns = "".join(
        f"| `{one.name}` | {one.type}{' or null' * one.is_nullable} | {one.text} |\n"
        for one in table.columns
        if one.name not in common
    )
    heading = f"\n## {table.name}\n\nA row is {table.text}.\n\n"
    return f"{heading}| Column | Type | What it is |\n|---|---|---|\n{columns}"


def render() -> str:
    """Return the whole page."""
    return TEMPLATE.read_text("utf-8") + "".join(section(table) for table in SYSTEM_TABLES.values())


def main() -> int:
    """Write the page, or check it."""
    return write_or_check(__doc__, {PAGE: render()})


if __name__ == "__main__":
    sys.exit(main())
