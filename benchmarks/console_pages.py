"""How soon does the console answer over 16,000 partitions, and how long does each page take?

16 topics of 1,000 partitions with a batch of records each, and one log of a few hundred megabytes.
The console runs as a process of its own; pages are asked for over one connection. `tidelog list`
of the same directory is the measure of the first pass. The goals are of CPU
time, as the machine may have other load.

    benchmarks/console_pages.py [DIRECTORY [PARTITIONS [MEGABYTES [ROUNDS]]]]
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kafka_broker import cpu_seconds
from measure import heading, installed_environment

from tidelog.log.producers.producer_snapshot import pack_snapshot
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED: Final = 0
NOW_MS: Final = 1_795_000_000_000
BATCH: Final = 100
SEGMENT_BATCHES: Final = 600
TOPICS: Final = 16
COMMAND: Final = str(Path(sys.executable).with_name("tidelog"))
READING: Final = "partitions are read so far"
PAGES: Final = {
    "topics": "/topics",
    "topics, sorted by growth": "/topics?sort=growth",
    "all partitions": "/partitions",
    "all partitions, a search": "/partitions?q=topic-07-9",
    "the last page of them": "/partitions?page=160",
    "a topic of 1,000": "/topics/topic-03",
    "a small partition": "/topics/topic-03/5",
    "its records": "/topics/topic-03/5/records",
    "its plans": "/topics/topic-03/5/plans",
    "its transactions": "/topics/topic-03/5/transactions",
    "its check": "/topics/topic-03/5/check",
    "a large partition": "/topics/large/0",
    "its newest records": "/topics/large/0/records",
    "its records, a key": "/topics/large/0/records?key=none",
    "its records since a time": "/topics/large/0/records?time=2026-01-01",
    "its batches": "/topics/large/0/batches",
    "groups": "/groups",
    "service": "/service",
}
GOAL_FIRST_MS: Final = 1000
GOAL_PAGE_MS: Final = 100


def make(directory: Path, partitions: int, megabytes: int) -> None:
    """Write the logs as a broker leaves them; 100 segments at most are large."""
    value = json.dumps({"berth": 4, "tide": "high", "note": "x" * 900}).encode()
    small = build_batch([(NOW_MS, b"key", value, ())] * 10)
    for number in range(partitions):
        topic, partition = divmod(number, partitions // TOPICS)
        log = directory / f"topic-{topic:02}-{partition}"
        log.mkdir(parents=True)
        (log / f"{0:020}.log").write_bytes(small)
    log = directory / "large-0"
    log.mkdir(parents=True)
    offset = 0
    while offset < megabytes * 1000:
        (log / f"{offset:020}.snapshot").write_bytes(pack_snapshot([]))  # as Kafka leaves one
        with (log / f"{offset:020}.log").open("wb") as file:
            for _ in range(SEGMENT_BATCHES):
                rows = [(NOW_MS, b"key-%d" % (offset + i), value, ()) for i in range(BATCH)]
                file.write(build_batch(rows, base_offset=offset))
                offset += BATCH


@contextmanager
def console(directory: Path, compiled: Path) -> Iterator[tuple[str, int, float]]:
    """Start the console; yield its address and process, and the seconds until it was printed."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [COMMAND, "console", "-d", str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        env=installed_environment(compiled),
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield address, process.pid, time.perf_counter() - began
    finally:
        stopped = time.perf_counter()
        process.terminate()
        process.wait()
        print(f"stopped in {(time.perf_counter() - stopped) * 1000:.0f} ms")


class Browser:
    """One connection that keeps the cookie."""

    def __init__(self, address: str) -> None:
        split = urlsplit(address)
        self._connection = HTTPConnection(split.hostname or "", split.port, timeout=60)
        self._headers: dict[str, str] = {}
        self._connection.request("GET", f"/?{split.query}")
        answer = self._connection.getresponse()
        answer.read()
        self._headers["Cookie"] = (answer.getheader("set-cookie") or "").partition(";")[0]

    def get(self, path: str) -> tuple[str, float]:
        """Return a page and the seconds that it took."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, (path, answer.status)
        return text, time.perf_counter() - began


def listed(directory: Path, compiled: Path) -> float:
    """Return the seconds of `tidelog list`."""
    began = time.perf_counter()
    command = [COMMAND, "list", "-d", str(directory), "--json"]
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env=installed_environment(compiled)
    )
    return time.perf_counter() - began


def measure_pages(browser: Browser, pid: int, rounds: int) -> None:
    """Print the times of each page; a pass that runs meanwhile counts, too."""
    for name, path in PAGES.items():
        before = cpu_seconds(pid)
        found = [browser.get(path)[1] * 1000 for _ in range(rounds)]
        cpu = (cpu_seconds(pid) - before) * 1000 / rounds
        missed = " MISSED" if cpu > GOAL_PAGE_MS else ""
        median, best = statistics.median(found), min(found)
        print(f"  {name:26} CPU {cpu:6.1f} ms, wall {median:7.1f} (best {best:.1f}){missed}")


def main() -> None:
    """Measure and print."""
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "data"
    partitions, megabytes, rounds = (
        int(sys.argv[at]) if len(sys.argv) > at else usual
        for at, usual in ((2, 16_000), (3, 256), (4, 20))
    )
    heading(f"Pages over {partitions:,} partitions and a log of {megabytes:,} MB", SEED)
    directory = chosen.absolute()
    is_ours = len(sys.argv) == 1
    if not directory.exists():
        make(directory, partitions, megabytes)
    compiled = directory.parent / "compiled"
    with console(directory, compiled):
        pass  # reads the directory into the page cache, and compiles modules
    with console(directory, compiled) as (address, pid, seconds):
        browser = Browser(address)
        began = time.perf_counter()
        text, first = browser.get("/topics")
        opened = cpu_seconds(pid) * 1000
        missed = " MISSED" if opened > GOAL_FIRST_MS else ""
        parts = f"address after {seconds * 1000:.0f} ms, first page {first * 1000:.0f} ms"
        print(f"{parts}; CPU {opened:.0f} ms{missed}")
        meanwhile = []
        while READING in text:
            text, took = browser.get("/topics")
            meanwhile.append(took * 1000)
            time.sleep(0.05)
        whole = time.perf_counter() - began + seconds
        if meanwhile:
            median, worst = statistics.median(meanwhile), max(meanwhile)
            print(f"pages meanwhile: median {median:.0f} ms, worst {worst:.0f} ms")
        command = min(listed(directory, compiled) for _ in range(3))
        print(f"all known after {whole:.2f} s: {whole / command:.2f} of the time of tidelog list")
        measure_pages(browser, pid, rounds)
    if is_ours:
        shutil.rmtree(directory.parent)


if __name__ == "__main__":
    main()
