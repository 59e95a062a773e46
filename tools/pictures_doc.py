"""Draws the example of docs/pictures.md, as text in the page and as docs/picture.svg.

The log is one that Apache Kafka wrote; it is part of the tests. ``--check`` writes nothing and
fails if page or drawing are stale.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pages import between, write_or_check

from tidelog.config.log_config import LogConfig
from tidelog.env.clock import ClockAt
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.describe import describe_log
from tidelog.explain.pictures.svg_picture import draw_svg
from tidelog.explain.pictures.take_picture import take_picture
from tidelog.explain.pictures.text_picture import TextStyle, draw_text
from tidelog.explain.plans.plan_terms import Planning
from tidelog.explain.plans.recovery_beside import recovery_points
from tidelog.manager.compaction_plan import CleanerLines
from tidelog.readonly.read_only_log import open_read_only

if TYPE_CHECKING:
    from tidelog.explain.pictures.log_picture import LogPicture

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "pictures.md"
DRAWING = ROOT / "docs" / "picture.svg"
DIRECTORY = ROOT / "tests" / "golden" / "data" / "transactions"
TAKEN_AT_MS = 1795253762717
SETTINGS = {"cleanup.policy": "compact,delete", "retention.bytes": "45000"}
COLUMNS = 100
BEGIN = "<!-- written by tools/pictures_doc.py; `make docs` does it again -->\n"
END = "<!-- end of what tools/pictures_doc.py wrote -->\n"


def picture() -> LogPicture:
    """Return the picture of the example."""
    path = str(DIRECTORY / "txn-mix-0")
    points = recovery_points(SYSTEM_FILES, str(DIRECTORY))
    config = LogConfig().with_overrides(SETTINGS)
    return take_picture(
        lambda on_damage: open_read_only(path, fs=SYSTEM_FILES, on_damage=on_damage),
        describe_log,
        recovery_point=points["txn-mix", 0],
        planning=Planning(config, CleanerLines({}, {}), ClockAt(TAKEN_AT_MS)),
    )


def render() -> str:
    """Return the text of the example, between the two markers."""
    drawn = draw_text(picture(), TextStyle(COLUMNS))
    return f"{BEGIN}```text\n{drawn}```\n{END}"


def drawing() -> str:
    """Return the SVG file of the example."""
    return draw_svg([picture()])


def with_example(page: str) -> str:
    """Return the page with a new example."""
    return between(page, BEGIN, END, render())


def main() -> int:
    """Write page and drawing, or check them."""
    page = with_example(PAGE.read_text("utf-8"))
    return write_or_check(__doc__, {PAGE: page, DRAWING: drawing()})


if __name__ == "__main__":
    sys.exit(main())
