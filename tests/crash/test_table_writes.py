"""Tables written to a directory that another thread or process holds, and writers that are killed.

``tidelog.arrow.write`` with an id, repeated until it succeeds, leaves each row once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.machinery.scale import scaled

import tidelog
from tidelog import arrow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated

KILLS = scaled(25)
ROWS = 3_000
WRITER = """
import os, sys, pyarrow, tidelog.arrow as arrow
rows = int(sys.argv[2])
keys = [b"%d" % (number % 11) for number in range(rows)]
table = pyarrow.table({"key": keys, "value": [b"%06d" % number * 50 for number in range(rows)]})
reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(100))
os.write(1, b"ready\\n")
print(arrow.write(sys.argv[1], "t", reader, sys.argv[3], partitions=3, buffer_bytes=1 << 20).total)
"""


def writer(path: Path, txn: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", WRITER, str(path), str(ROWS), txn]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


def values(path: Path) -> list[bytes]:
    found = arrow.read_table(path, "t", columns=["value"])["value"].to_pylist()
    return sorted(value[:6] for value in found)


def test_a_program_that_holds_the_directory_commits(tmp_path: Path) -> None:
    """This one, for another of its threads, or another process."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 3)
        done: list[int] = []

        def write() -> None:
            done.append(arrow.write(tmp_path, "t", pa.table({"value": ["near"]})).total)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join(60)
        assert done == [1]
        with writer(tmp_path, "far") as process:
            assert process.stdout is not None
            assert process.stdout.read().endswith(b"\n%d\n" % ROWS)
        assert len(values(tmp_path)) == ROWS + 1


@pytest.mark.slow
@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
def test_a_writer_that_is_killed_and_repeated_leaves_each_row_once(
    tmp_path: Path, is_held: bool, enumerated: Enumerated
) -> None:
    """Also where another process commits for it."""
    rng, kills, wanted = Random(int(is_held)), 0, []
    holder = tidelog.open(tmp_path) if is_held else None
    numbers = [b"%06d" % number for number in range(ROWS)]
    for round_number in range(KILLS):
        for _ in range(3):
            with writer(tmp_path, f"round {round_number}") as process:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
                kill = threading.Timer(
                    rng.random() * (1.5 if is_held else 0.3), os.kill, (process.pid, signal.SIGKILL)
                )
                kill.start()
                process.wait()
                kill.cancel()
                kill.join()
            kills += process.returncode != 0
        with writer(tmp_path, f"round {round_number}") as process:
            assert process.stdout is not None
            assert process.stdout.read().endswith(b"\n%d\n" % ROWS)
        wanted += numbers
        if round_number % 5 == 4:
            assert values(tmp_path) == sorted(wanted)
    if holder is not None:
        holder.close()

    assert values(tmp_path) == sorted(wanted)
    enumerated("kills", kills, at_least=KILLS // 2)
