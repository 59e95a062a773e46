"""An iterator over records that two threads share by mistake."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
import tidelog

def taken(iterator):
    try:
        return sum(1 for _ in iterator)
    except ValueError as error:
        assert str(error) == "generator already executing", error

with tidelog.open("data") as logs, ThreadPoolExecutor(4) as threads:
    sys.setswitchinterval(1e-5)
    for _ in range(10):
        records = {}
        list(threads.map(taken, [records] * 4))
"""


@pytest.mark.parametrize("records", ["logs.read('t')", "logs.partition('t', 0).log.records()"])
def test_a_second_thread_in_an_iterator_gets_an_error(tmp_path: Path, records: str) -> None:
    """As in any generator of Python's; in a chain of ``itertools`` it crashed the interpreter."""
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("t", partitions=3)
        logs.append_all("t", (b"%d" % n for n in range(5000)))

    program = [sys.executable, "-c", PROGRAM.format(records)]
    ended = subprocess.run(program, cwd=tmp_path, capture_output=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, b"")
