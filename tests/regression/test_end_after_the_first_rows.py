"""A program that takes the first rows of a topic, and ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "FROM t LIMIT 2"
IN_PYTHON = f"""
import duckdb
import tidelog.arrow
t = tidelog.arrow.dataset("data", "t")
print(duckdb.sql("{QUERY}").fetchall())
"""
IN_PYARROW = """
import tidelog.arrow
rows = tidelog.arrow.dataset("data", "t").scanner(["value"]).to_reader()
print(next(rows))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the place of a data directory whose topic takes longer to read than a LIMIT."""
    place = tmp_path_factory.mktemp("place")
    with tidelog.open(place / "data") as logs:
        logs.create_topic("t", partitions=3)
        logs.append_all("t", ((b"%d" % (n % 100), b"%099d" % n) for n in range(300_000)))
    return place


@pytest.mark.parametrize(
    "program",
    [["-m", "tidelog", "sql", QUERY, "-d", "data"], ["-c", IN_PYTHON], ["-c", IN_PYARROW]],
    ids=["command", "duckdb", "pyarrow"],
)
def test_a_query_of_the_first_rows_leaves_no_thread_that_reads_on(
    place: Path, program: list[str]
) -> None:
    """At the end of the interpreter such a thread aborted the process, or kept it for ever."""
    pytest.importorskip("duckdb")
    ended = subprocess.run(
        [sys.executable, *program], cwd=place, capture_output=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
