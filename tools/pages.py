"""What the scripts that write pages share: their command line, and the cells of tables."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_or_check(description: str, pages: Mapping[Path, str]) -> int:
    """Write each page; with ``--check`` on the command line compare them instead.

    Returns 1, and names the pages, if some are stale.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page is stale"
    )
    is_check, stale = parser.parse_args().check, 0
    for path, page in pages.items():
        if not is_check:
            path.write_text(page, "utf-8")
        elif path.read_text("utf-8") != page:
            print(f"{path.name} is stale: run `make docs`", file=sys.stderr)
            stale = 1
    return stale


def between(page: str, begin: str, end: str, text: str) -> str:
    """Return a page with ``text``, markers included, in place of what two markers enclose.

    Raises SystemExit unless the page has both.
    """
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"the page lacks the markers {begin.strip()} and {end.strip()}")
    return before + text + after


def cell(text: str) -> str:
    """Return text with its column separators escaped."""
    return text.replace("|", "\\|")
