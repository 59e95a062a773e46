"""A process that appends is killed, again and again: nothing acknowledged is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.scale import scaled

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated

PARTITIONS = 20
KILLS = scaled(100)
WRITER = """
import os, sys, tidelog
from random import Random
rng = Random(int(sys.argv[2]))
settings = {"internal.segment.bytes": "20000", "log.cleaner.enable": "false"}
logs = tidelog.open(sys.argv[1], config=settings, log_initial_task_delay_ms=50,
                    log_flush_offset_checkpoint_interval_ms=50, retention_ms=-1)
if "t" not in logs.topics():
    logs.create_topic("t", int(sys.argv[3]))
os.write(1, b"ready\\n")
while True:
    number = rng.randrange(int(sys.argv[3]))
    offset = logs.append("t", b"%d" % rng.getrandbits(64), partition=number).offset
    record = logs.partition("t", number).log
    os.write(1, b"%d %d\\n" % (number, offset))
    if rng.randrange(200) == 0:
        record.flush()
"""


def run_and_kill(directory: Path, rng: Random) -> dict[int, int]:
    """Run a writer for a random while, kill it, and return the last offset acknowledged of each."""
    words = [sys.executable, "-c", WRITER, str(directory), str(rng.getrandbits(32))]
    words.append(str(PARTITIONS))
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        wait = threading.Timer(rng.random() * 0.2, os.kill, (process.pid, signal.SIGKILL))
        wait.start()
        acknowledged: dict[int, int] = {}
        for line in process.stdout:
            if line.endswith(b"\n"):
                number, offset = map(int, line.split())
                acknowledged[number] = offset
        wait.join()
    assert process.returncode == -signal.SIGKILL
    return acknowledged


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path, enumerated: Enumerated) -> None:
    """Flushed or not; offsets have no holes, and the next process opens the logs by itself."""
    seed = Random().getrandbits(32)
    rng = Random(seed)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for _ in range(KILLS):
        acknowledged = run_and_kill(tmp_path, rng)
        for number, offset in acknowledged.items():
            ends[number] = offset + 1
        for number in rng.sample(range(PARTITIONS), 4):
            with tidelog.open_read_only(tmp_path / f"t-{number}") as log:
                end = log.log_end_offset
                offsets = [record.offset for record in log.records(0, end)]
            assert offsets == list(range(end)), f"seed {seed}"
            assert end >= ends[number], f"seed {seed}"
    with tidelog.open(tmp_path, retention_ms=-1) as logs:
        found = {n: [r.offset for r in logs.read("t", n)] for n in range(PARTITIONS)}

    holes = [n for n, offsets in found.items() if offsets != list(range(len(offsets)))]
    lost = [n for n, offsets in found.items() if len(offsets) < ends[n]]
    assert (holes, lost) == ([], []), f"seed {seed}"
    enumerated("acknowledged records", sum(ends.values()), at_least=KILLS)
