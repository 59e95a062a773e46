"""A thousand readers and appenders that have joined one process, which also holds the directory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.env.waiting import sleep_ms
from tidelog.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="the holder is watched in /proc"),
]

JOINED = 780
READING = 190
"""Each reader has a connection of its own. A process takes a thousand: the rest is for commits."""
THREADS = 25
APPENDS = 3
PARTITIONS = 10
IDLE_S = 5
HOLDER = """
import resource, sys, tidelog
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
with tidelog.open(sys.argv[1]) as logs:
    logs.create_topic("t", int(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(data: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the directory open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 6 * JOINED:
        pytest.skip(f"{JOINED} joined programs need more than {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", HOLDER, str(data), str(PARTITIONS)]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def descriptors(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def each(count: int, act: Callable[[int], None]) -> None:
    """Act for each number below ``count``, on several threads."""
    faults: list[str] = []

    def work(first: int) -> None:
        try:
            for number in range(first, count, THREADS):
                act(number)
        except Exception as error:  # noqa: BLE001 - the test fails with it
            faults.append(repr(error))

    threads = [threading.Thread(target=work, args=[first]) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def settled(look: Callable[[], int], most: int) -> int:
    """Return what a look finds once it is at most ``most``, or after half a minute."""
    for _ in range(300):
        if look() <= most:
            break
        sleep_ms(100)
    return look()


def test_a_thousand_joined_programs_lose_nothing(data: Path, holder: subprocess.Popen[str]) -> None:
    """All that they were answered is there, once; their connections are released by both sides.

    Neither while they only wait nor after they have left does the holder use the processor.
    """
    first, own = descriptors(holder.pid), descriptors()
    joined = [tidelog.join(data) for _ in range(JOINED)]
    readers = {number: joined[number].reader("t", group=f"g{number}") for number in range(READING)}
    answered: Counter[bytes] = Counter()
    lock = threading.Lock()

    def append(number: int) -> None:
        for at in range(APPENDS):
            value = b"%d-%d" % (number, at)
            joined[number].append("t", value, partition=number % PARTITIONS)
            with lock:
                answered[value] += 1

    def read(number: int) -> None:
        found = Counter(record.value for record in readers[number].read())
        assert found == answered
        readers[number].commit()

    each(JOINED, append)
    each(READING, read)
    connected = descriptors(holder.pid)
    before_s = cpu_s(holder.pid)
    sleep_ms(1000 * IDLE_S)
    waiting_s = cpu_s(holder.pid) - before_s
    each(READING, lambda number: readers[number].close())
    for one in joined:
        one.close()
    left = settled(lambda: descriptors(holder.pid), first + 60)
    before_s = cpu_s(holder.pid)
    sleep_ms(1000 * IDLE_S)
    idle_s = cpu_s(holder.pid) - before_s
    print(f"{first=} {connected=} {left=} {waiting_s=} {idle_s=}")  # noqa: T201 - the figures

    assert holder.poll() is None
    assert len(answered) == JOINED * APPENDS
    seen = Counter[bytes | None]()
    for number in range(PARTITIONS):
        seen.update(one.value for one in tidelog.open_directory_read_only(data).read("t", number))
    assert seen == answered
    assert connected >= first + JOINED + READING
    assert left <= first + 60  # segments and their indexes
    assert descriptors() <= own + 8
    assert waiting_s < 0.2 * IDLE_S
    assert idle_s < 0.1 * IDLE_S
    with suppress(KafkaError), tidelog.join(data) as late:  # it takes others still
        assert late.append("t", b"late").offset > 0
