"""Writes docs/format.md from the layouts that the code declares.

``tools/format_template.md`` holds the text and the diagrams; a line ``{{Name}}`` in it becomes the
table of the layout of that name. Layouts that the template does not name are listed at its end.
``--check`` writes nothing and fails if the page is stale.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pages import write_or_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.layout import Layout

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
TEMPLATE = ROOT / "tools" / "format_template.md"
PAGE = ROOT / "docs" / "format.md"
ROOMS = ("codec", "records", "segment", "log", "staging", "readonly", "datadir", "manager")
TYPES = {"b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32"}
TYPES |= {"q": "int64", "Q": "uint64"}
HEADINGS = ["| At | Size | Type | Field | Meaning |", "|---:|---:|---|---|---|"]


def declarations() -> Iterator[tuple[Any, str]]:
    """Yield each module that declares a layout, with the constant's name, in order of ``ROOMS``."""
    pattern = re.compile(r"^([A-Z]\w+)(?:: [^=\n]+)? = Layout\(", re.MULTILINE)
    for room in ROOMS:
        for path in sorted((SOURCES / "tidelog" / room).rglob("*.py")):
            module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
            for name in pattern.findall(path.read_text("utf-8")):
                yield importlib.import_module(module), name


def declared() -> dict[str, str]:
    """Return the table of each public layout by the name of its NamedTuple."""
    tables: dict[str, str] = {}
    for module, name in declarations():
        value = getattr(module, name)
        tables[value.name] = layout_table(module, value)
    return tables


def layout_table(module: Any, layout: Layout[Any]) -> str:  # noqa: ANN401 - a module
    """Render the fields of ``layout``, whose NamedTuple is in the same module."""
    header = getattr(module, layout.name)
    rows = [
        row(layout.offsets[name], end - layout.offsets[name], wire.code, name, wire.meaning)
        for (name, wire), end in zip(layout.wires.items(), ends(layout), strict=True)
    ]
    return table(header.__doc__, header.__module__, [*HEADINGS, *rows], layout.size)


def ends(layout: Layout[Any]) -> list[int]:
    """Return the end (exclusive) of each field, in bytes from the start of the structure."""
    return [*list(layout.offsets.values())[1:], layout.size]


def row(at: int, size: int, code: str, name: str, meaning: str) -> str:
    """Render one field."""
    return f"| {at} | {size} | {TYPES.get(code, 'bytes')} | `{name}` | {meaning} |"


def table(summary: str | None, module: str, lines: list[str], size: int) -> str:
    """Render a table below a line that names the module of its declaration."""
    first = (summary or "").partition("\n")[0]
    intro = f"{first} " if first else ""
    total = f"{size} byte" if size == 1 else f"{size} bytes"
    return "\n".join([f"{intro}{total}, declared in `{module}`.", "", *lines])


def render() -> str:
    """Return the page: the template with its tables filled in, then the layouts that it lacks."""
    tables = declared()
    template = TEMPLATE.read_text("utf-8")
    named = re.findall(r"^\{\{(\w+)\}\}$", template, re.MULTILINE)
    page = re.sub(r"^\{\{(\w+)\}\}$", lambda m: tables[m[1]], template, flags=re.MULTILINE)
    rest = [name for name in tables if name not in named]
    if rest:
        page += "\n## Further structures\n"
        page += "".join(f"\n### {name}\n\n{tables[name]}\n" for name in rest)
    return page


def main() -> int:
    """Write the page, or check it."""
    return write_or_check(__doc__, {PAGE: render()})


if __name__ == "__main__":
    sys.exit(main())
