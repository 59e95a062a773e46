"""A process that may open few files works with any number of partitions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHERS = 24
"""Descriptors of locks, sockets, the standard streams and the interpreter."""
WORK = """
import json, os, resource, sys

partitions, limit, first, second = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

import tidelog
from tidelog.env.descriptors import PROCESS_DESCRIPTORS as budget
from tidelog.records.isolation import Isolation

most_open = 0

def values(log):
    global most_open
    most_open = max(most_open, budget.open_count)
    found = log.records(isolation=Isolation.LOG_END)
    return [record.value for record in found]

def check(logs, first, end):
    for number in range(partitions):
        expected = [b"%d of %d" % (turn, number) for turn in range(first, end)]
        assert values(logs.partition("t", number).log) == expected, number

def append(logs, turn):
    for number in range(partitions):
        assert logs.append("t", b"%d of %d" % (turn, number), partition=number).offset == turn

def open_logs():
    return tidelog.open(first, second, config={"log.cleaner.enable": "false"}, retention_ms=1,
                        log_initial_task_delay_ms=3_600_000)

evictions = []
with open_logs() as logs:
    logs.create_topic("t", partitions, is_spread=True)
    append(logs, 0)
    logs.flush()
    check(logs, 0, 1)
    evictions.append(budget.evictions)

with open_logs() as logs:
    descriptors = len(os.listdir("/dev/fd"))
    append(logs, 1)
    check(logs, 0, 2)
    log = logs.partition("t", 0).log
    with log.read(0, isolation=Isolation.LOG_END) as held:
        before = held.read()
        for number in range(partitions):
            log = logs.partition("t", number).log
            log.roll()
        append(logs, 2)
        logs.flush()
        for number in range(partitions):
            log = logs.partition("t", number).log
            deleted = log.delete_old_segments(1 << 60)
            assert deleted >= 1, deleted
            assert log.log_start_offset >= 2, log.log_start_offset
        assert held.read() == before and len(before) > 100
        os.fstat(held.slice.fileno())
    append(logs, 3)
    online = logs.manager.live_dirs
    evictions.append(budget.evictions - evictions[0])

with open_logs() as logs:
    starts = {logs.partition("t", number).log.log_start_offset for number in range(partitions)}
    for number in range(partitions):
        log = logs.partition("t", number).log
        assert log.log_end_offset == 4
        expected = [b"%d of %d" % (turn, number) for turn in range(log.log_start_offset, 4)]
        assert values(log) == expected
    logs.delete_topic("t")
print(json.dumps({"evictions": evictions, "online": len(online), "most_open": most_open,
                  "limit": budget.limit, "descriptors": descriptors, "starts": sorted(starts)}))
"""


NO_DESCRIPTOR_LEFT = """
import json, os, resource, sys

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

import tidelog
from tidelog.env.descriptors import PROCESS_DESCRIPTORS as budget
from tidelog.errors import KafkaStorageError

def hoard():
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return taken

def refused(use):
    try:
        use()
    except KafkaStorageError as error:
        return [type(error.__cause__).__name__, error.__cause__.errno, error.code.retriable]
    return None

with tidelog.open(sys.argv[1]) as logs:
    logs.create_topic("t", 20)
    for number in range(20):
        logs.append("t", b"first", partition=number)
    assert budget.evictions == 0 and budget.open_count > 20, budget.open_count
    budget.evict(1000)
    taken = hoard()
    for _ in range(4):
        os.close(taken.pop())
    before = budget.evictions
    found = []
    for number in range(20):
        logs.append("t", b"second", partition=number)
        found.append([record.value for record in logs.read("t", number)])
    evictions_at_need = budget.evictions - before
    log = logs.partition("t", 0).log
    budget.evict(1000)
    taken += hoard()
    refusals = [
        refused(lambda: list(logs.read("t", 0))),
        refused(lambda: logs.append("t", b"never", partition=0)),
        refused(log.roll),
        refused(lambda: log.flush(force=True)),
    ]
    for descriptor in taken:
        os.close(descriptor)
    logs.append("t", b"third", partition=0)
    log.roll()
    logs.append("t", b"fourth", partition=0)
    logs.flush()
    found.append([record.value for record in logs.read("t", 0)])
    online = len(logs.manager.live_dirs)
with tidelog.open(sys.argv[1]) as logs:
    found.append([record.value for record in logs.read("t", 0)])
print(json.dumps({"found": str(found), "refusals": refusals, "online": online,
                  "evictions": evictions_at_need}))
"""


@pytest.fixture
def quick_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory where a sync costs little, if the machine has one: thousands are made here."""
    if not os.path.isdir("/dev/shm"):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


def run(script: str, *words: object) -> dict[str, Any]:
    """Run a script in a process of its own and return what it found."""
    command = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_four_hundred_partitions_work_with_256_descriptors(quick_disk: Path) -> None:
    """In two data directories: create, append, flush, read, restart, roll, retain and delete."""
    found = run(WORK, 400, 256, quick_disk / "first", quick_disk / "second")

    assert found["online"] == 2
    assert found["most_open"] <= found["limit"] == 192
    assert found["descriptors"] <= found["limit"] + OTHERS
    assert min(found["evictions"]) > 400


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_four_thousand_partitions_work_with_1024_descriptors(quick_disk: Path) -> None:
    """What a shell allows by default."""
    found = run(WORK, 4_000, 1024, quick_disk / "first", quick_disk / "second")

    assert found["online"] == 2
    assert found["most_open"] <= found["limit"] == 768
    assert found["descriptors"] <= found["limit"] + OTHERS
    assert min(found["evictions"]) > 4_000


def test_a_lack_of_descriptors_refuses_and_takes_nothing_offline(tmp_path: Path) -> None:
    """Files are closed for others first; where none can be, the error is retriable."""
    found = run(NO_DESCRIPTOR_LEFT, tmp_path)

    both = ["b'first', b'second'"] * 20
    last = ["b'first', b'second', b'third', b'fourth'"] * 2
    assert found["found"] == f"[{', '.join(f'[{values}]' for values in both + last)}]"
    assert found["refusals"] == [["OSError", 24, True]] * 4
    assert (found["online"], found["evictions"] >= 16) == (1, True)
