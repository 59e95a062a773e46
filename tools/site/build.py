"""Builds the site of the pages in ``docs``, with the commands and the Python API: `make docs`.

    python tools/site/build.py TARGET

Each page is in one of four parts; a page that is in none is an error. Warnings of Sphinx, such as
of a link that leads nowhere, are errors, too.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tidelog
from tidelog.cli.parser import make_parser

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PARTS: Final = {
    "learn": ("how-a-log-works", "embedded", "pipeline", "pictures"),
    "do": (
        *("installation", "spark", "exactly-once", "broker", "archive", "mirror", "hand-over"),
        *(
            "broken-broker",
            "deployment",
            "operations",
            "monitoring",
            "console",
            "analyst",
            "recipes",
        ),
    ),
    "look-up": ("api", "commands", "configuration", "tables", "json", "format", "kafka-names"),
    "evidence": (
        *("coverage", "scenarios", "client-suites", "performance", "differences", "architecture"),
    ),
}
"""The pages of each part, in order."""
MADE: Final = ("api", "commands")
"""Pages that are written here."""


def main(target: Path) -> int:
    """Build the site in ``target``; return the exit code of Sphinx."""
    os.environ["COLUMNS"] = "100"  # of the help of commands
    with tempfile.TemporaryDirectory() as name:
        source = Path(name)
        lay_out(source)
        command = [*(sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q")]
        return subprocess.run([*command, str(source), str(target)], check=False).returncode


def lay_out(source: Path) -> None:
    """Write what Sphinx reads; raise SystemExit for a page that is in no part, or missing."""
    listed = {page for pages in PARTS.values() for page in pages}
    there = {path.stem for path in DOCS.glob("*.md")}
    if listed - set(MADE) != there:
        odd = ", ".join(sorted((listed - set(MADE)) ^ there))
        raise SystemExit(f"tools/site/build.py lists other pages than docs has: {odd}")
    shutil.copytree(DOCS, source, dirs_exist_ok=True)
    shutil.copy(Path(__file__).with_name("conf.py"), source)
    architecture = source / "architecture.md"
    text = architecture.read_text("utf-8")
    architecture.write_text(text.replace("](decisions)", "](decisions/index.md)"), "utf-8")
    decisions = sorted(f"decisions/{path.stem}" for path in (DOCS / "decisions").glob("*.md"))
    entries = "\n".join(Path(one).name for one in decisions)
    listed_page = f"# Decisions\n\n```{{toctree}}\n{entries}\n```\n"
    (source / "decisions/index.md").write_text(listed_page, "utf-8")
    index = Path(__file__).with_name("index.md").read_text("utf-8")
    for part, pages in PARTS.items():
        every = [*pages, *(("decisions/index",) if part == "evidence" else ())]
        index = index.replace(f"@{part}@", "\n".join(every))
    (source / "index.md").write_text(index, "utf-8")
    scorer = Path(__file__).with_name("scorer.js").read_text("utf-8")
    reference = json.dumps([*PARTS["look-up"], *PARTS["evidence"]])
    (source / "scorer.js").write_text(scorer.replace("@reference@", reference), "utf-8")
    (source / "api.rst").write_text(api_page(), "utf-8")
    (source / "commands.md").write_text(commands_page(), "utf-8")


def api_page() -> str:
    """Return the page of all public names, from their docstrings."""
    names = sorted(tidelog.__all__, key=str.casefold)
    found = {name: getattr(tidelog, name) for name in names if not name.startswith("__")}
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": []}
    for name, value in found.items():
        if inspect.isclass(value):
            errors = issubclass(value, BaseException)
            kinds["Errors" if errors else "Classes"].append(f".. autoclass:: tidelog.{name}")
        elif inspect.isroutine(value):
            kinds["Functions"].append(f".. autofunction:: tidelog.{name}")
    kinds["Errors"].append(".. automodule:: tidelog.errors")
    lines = ["Python API", "=" * 10, "", "Everything that ``import tidelog`` has.", ""]
    for title, entries in kinds.items():
        lines += [title, "-" * len(title), ""]
        for entry in entries:
            lines += [entry, "   :no-index:" if "automodule" in entry else "", ""]
    return "\n".join(lines)


def commands_page() -> str:
    """Return the page of all commands, from their help."""
    lines = ["# Commands", "", "What `tidelog COMMAND --help` prints."]
    for level, parser in commands_of(make_parser(), 2):
        title = parser.prog.removeprefix("tidelog ")
        lines += ["", f"{'#' * level} {title}", "", "```text", parser.format_help().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def commands_of(parser: ArgumentParser, level: int) -> Iterator[tuple[int, ArgumentParser]]:
    """Yield the commands of a parser, and theirs after each, with the level of its heading."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for one in action.choices.values():
                yield level, one
                yield from commands_of(one, level + 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
