"""The console beside programs that append, retain, compact, and are killed while they do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.interop.console.beside import Looks
from tests.interop.console.conftest import COMMAND, console_on
from tests.machinery.samples import sampled
from tests.machinery.scale import scaled

import tidelog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="open files are looked up in /proc"),
    pytest.mark.timeout(600),
]

WRITER = """
import sys, tidelog
from tidelog.env.waiting import sleep_ms
quick = {"log.initial.task.delay.ms": 50, "log.retention.check.interval.ms": 100,
         "log.segment.delete.delay.ms": 100, "log.cleaner.backoff.ms": 100}
small = {"internal.segment.bytes": "4000", "file.delete.delay.ms": "100"}
compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
with tidelog.open(sys.argv[1], config=quick) as logs:
    logs.create_topic("kept", 2, small, exist_ok=True)
    logs.create_topic("brief", 1, small | {"retention.bytes": "9000"}, exist_ok=True)
    logs.create_topic("keyed", 1, small | compact, exist_ok=True)
    number = 0
    print("ready", flush=True)
    while True:
        for topic in ("kept", "brief", "keyed"):
            logs.append_all(topic, [(b"%d" % (n % 7), b"v" * 90) for n in range(20)])
        with logs.transaction(f"txn-{number}-{sys.argv[2]}") as txn:
            txn.append("kept", b"in a transaction", partition=0)
        with logs.reader("kept", group="g") as reader:
            next(iter(reader.read()), None)
            reader.commit()
        if number % 5 == 0:
            logs.create_topic(f"gone-{number % 3}", exist_ok=True)
            logs.delete_topic(f"gone-{number % 3}")
        number += 1
        sleep_ms(20)  # pages, not appends, are looked at: they have a share of the processors
"""


@contextmanager
def writer(data: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program that writes; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data), name], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("rounds", [1, pytest.param(scaled(2), marks=pytest.mark.slow)])
def test_every_page_answers_beside_programs_that_are_killed(tmp_path: Path, rounds: int) -> None:
    """While records come, are retained, compacted and deleted, and between kill and start.

    The console opens nothing to write and locks nothing, and in the end its numbers are those of
    the commands.
    """
    data = tmp_path / "data"
    tidelog.open(data).close()
    with console_on("-d", data) as console:
        looks = Looks(console, data)
        for number in range(rounds):
            with writer(data, str(number)):
                looks.everywhere("gone-0")
                looks.everywhere("gone-1")
            looks.everywhere()
        with tidelog.open(data) as logs:  # nobody is in the way
            logs.append("kept", b"last")
        assert looks.compare_at_rest() >= 4

    assert looks.faults == []
    assert looks.count > rounds * 25  # by their names alone: lists may be some seconds old


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a program leaves that wrote for a while and was killed; to be copied."""
    data = tmp_path_factory.mktemp("killed") / "data"
    tidelog.open(data).close()
    with writer(data, "once") as process:
        with console_on("-d", data) as console:
            for _ in range(10):
                assert console.get("/partitions").status == 200
        assert process.poll() is None
    return data


@pytest.mark.parametrize("words", sampled([("compact", "keyed"), ("retain",), ("recover",)], 1))
def test_every_page_answers_beside_a_command(
    killed: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """That cleans, deletes or recovers what a killed program has left."""
    data = shutil.copytree(killed, tmp_path / "data", ignore=shutil.ignore_patterns("*.sock"))
    with console_on("-d", data) as console:
        looks = Looks(console, data)
        looks.everywhere()
        with subprocess.Popen(
            [COMMAND, *words, "-d", str(data)], stdout=subprocess.DEVNULL
        ) as command:
            looks.everywhere()
            while command.poll() is None:
                looks.page("/partitions")
        assert command.returncode == 0
        assert looks.compare_at_rest() >= 4

    assert looks.faults == []
