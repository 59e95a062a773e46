"""Docs say what the code says, and what they point at exists."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tidy.conftest import Source

PROOF = re.compile(r"`((?:tests|benchmarks|examples)/[\w./-]+?)(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!#)([^)\s#]+)(?:#[^)]*)?\)")


def tool(root: Path, name: str) -> Any:
    """Return a script of tools, loaded as a module; scripts import each other by plain name."""
    folder = str(root / "tools")
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(name, root / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def format_doc(root: Path) -> Any:
    """The script that writes docs/format.md."""
    return tool(root, "format_doc")


def test_the_format_page_is_what_the_layouts_declare(format_doc: Any, root: Path) -> None:
    """docs/format.md is generated, and equals what the declared layouts give: else `make docs`."""
    assert (root / "docs" / "format.md").read_text("utf-8") == format_doc.render()


def test_the_format_page_leaves_no_layout_without_words(format_doc: Any) -> None:
    """Each declared layout is placed and explained in the template, not only listed."""
    assert "## Further structures" not in format_doc.render()


def test_the_settings_page_is_what_the_code_declares(root: Path) -> None:
    """docs/configuration.md is generated from the declared settings: else `make docs`."""
    page = (root / "docs" / "configuration.md").read_text("utf-8")

    assert page == tool(root, "configuration_doc").render()


def test_the_table_of_exit_codes_is_the_enum(root: Path) -> None:
    """docs/operations.md lists each code with its summary, as every ``--help`` does."""
    page = (root / "docs" / "operations.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+?) \|", page, re.MULTILINE)

    assert rows == [(f"{code:d}", code.summary) for code in ExitCode]


def test_the_json_page_is_what_the_schemas_declare(root: Path) -> None:
    """docs/json.md is generated from the schemas of what commands print: else `make docs`."""
    page = (root / "docs" / "json.md").read_text("utf-8")

    assert page == tool(root, "json_doc").render()


def test_the_pictures_of_states_are_drawn_from_their_tables(root: Path) -> None:
    """docs/architecture.md shows each transition that can happen, and no other."""
    page = (root / "docs" / "architecture.md").read_text("utf-8")
    states_doc = tool(root, "states_doc")

    assert states_doc.render() in page
    assert states_doc.render_life() in page
    assert page == states_doc.with_picture(page)
    assert {(arrow.source, arrow.event) for arrow in states_doc.arrows()} == set(
        states_doc.TRANSITIONS
    )


def test_the_page_of_system_tables_is_what_the_code_declares(root: Path) -> None:
    """docs/tables.md is generated from the declared columns: else `make docs`."""
    page = (root / "docs" / "tables.md").read_text("utf-8")

    assert page == tool(root, "tables_doc").render()


def test_the_example_of_a_picture_is_what_is_drawn(root: Path) -> None:
    """docs/pictures.md and docs/picture.svg show the log of the tests as it is drawn now."""
    page = (root / "docs" / "pictures.md").read_text("utf-8")
    pictures_doc = tool(root, "pictures_doc")

    assert pictures_doc.render() in page
    assert (root / "docs" / "picture.svg").read_text("utf-8") == pictures_doc.drawing()


def test_the_table_of_imports_is_that_of_the_contracts(root: Path) -> None:
    """docs/architecture.md says of each room what the contracts allow: else `make docs`."""
    page = (root / "docs" / "architecture.md").read_text("utf-8")

    assert page.count("| `manager` | `cleaner` `readonly` ") == 1
    assert page == tool(root, "imports_doc").render(page)


def test_the_ways_through_the_code_are_those_that_it_takes(root: Path) -> None:
    """docs/architecture.md names the files that each of the five ways enters: else `make docs`."""
    command = [sys.executable, "tools/ways_doc.py", "--check"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_each_scenario_of_kafkas_has_a_test_or_a_reason(root: Path) -> None:
    """No scenario of a listed test class is forgotten, and no test names one that is not there."""
    assert tool(root, "scenarios").problems() == []


def test_the_scenarios_page_is_what_the_tests_name(root: Path) -> None:
    """docs/scenarios.md is generated from the tags of tests: else `make docs`."""
    page = (root / "docs" / "scenarios.md").read_text("utf-8")

    assert page == tool(root, "scenarios").render()


def test_each_promise_names_a_proof_that_exists(root: Path, sources: list[Source]) -> None:
    """Each row of docs/coverage.md names at least one test or benchmark, and each one exists."""
    rows = [
        line
        for line in (root / "docs" / "coverage.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| Promise", "|---"))
    ]
    functions = {
        source.name: {node.name for node in source.nodes if isinstance(node, ast.FunctionDef)}
        for source in sources
    }
    missing = [row for row in rows if not PROOF.search(row)]
    missing += [
        f"{path}::{test}" if test else path
        for row in rows
        for path, test in PROOF.findall(row)
        if (test not in functions.get(path, ()) if test else not (root / path).exists())
    ]

    assert rows
    assert missing == []


def test_each_link_leads_somewhere(root: Path) -> None:
    """A relative link in a page leads to a file of this checkout."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(root)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]

    assert broken == []


def test_each_row_of_a_table_is_in_one(root: Path) -> None:
    """A blank line ends a table, and rows after it are shown as text."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    parts = [
        (page.name, part)
        for page in pages
        for part in re.split(
            r"^```.*?^```$", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
        )
    ]
    tables = [
        (name, rows) for name, part in parts for rows in re.findall(r"(?m)(?:^\|.*\n)+", part)
    ]

    assert len(tables) > 50
    assert [one for one in tables if not re.match(r".*\n\|[-|: ]+\|\n", one[1])] == []


def test_the_code_map_names_every_room(root: Path, shipped: list[Source]) -> None:
    """docs/architecture.md names each room under src/tidelog, and no room that is not there."""
    whole = (root / "docs" / "architecture.md").read_text("utf-8")
    page = whole.partition("## Code map")[2].partition("\n### ")[0]
    mapped = set(re.findall(r"^\| (?:\d+ \| )?`(\w+)(?:\.py)?` \|", page, re.MULTILINE))
    parts = [PurePosixPath(source.name).parts for source in shipped]
    rooms = {part[2] for part in parts if len(part) > 3 and part[1] == "tidelog"}

    assert mapped == rooms | {"errors", "error_codes"}


def test_each_page_is_in_one_part_of_the_site(root: Path, tmp_path: Path) -> None:
    """And what the site adds, the help of the commands and the Python API, is there."""
    build = tool(root, "site/build")

    build.lay_out(tmp_path)  # ends with an error where a page is in no part

    pages = [page for part in build.PARTS.values() for page in part]
    assert len(pages) == len(set(pages))
    assert "### spark compact\n" in (tmp_path / "commands.md").read_text("utf-8")
    assert ".. autoclass:: tidelog.Logs" in (tmp_path / "api.rst").read_text("utf-8")


def test_decisions_are_numbered_without_gaps_and_say_context_choice_cost(root: Path) -> None:
    """docs/decisions counts up from 0001; each page has its context, the choice and its cost."""
    pages = sorted((root / "docs" / "decisions").glob("*.md"))
    headings = [re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE) for page in pages]

    assert [page.name[:4] for page in pages] == [f"{n + 1:04}" for n in range(len(pages))]
    assert headings == [["Context", "Choice", "Cost"]] * len(pages)


def test_each_command_named_in_the_docs_exists(root: Path) -> None:
    """Every `make` target that a page names stands in the Makefile."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    pattern = re.compile(r"^make ([\w-]+)|`make ([\w-]+)`", re.MULTILINE)
    calls = [call for page in pages for call in pattern.findall(page.read_text("utf-8"))]
    named = {block or inline for block, inline in calls}
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text("utf-8"), re.MULTILINE))

    assert named
    assert named - targets == set()
