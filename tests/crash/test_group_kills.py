"""Readers of groups are killed at random moments: nothing is skipped, nothing is done twice.

The program reads a topic for two groups: one commits after it has processed records, the other one
together with its results, in a transaction. Programs are forked, so that a kill costs little.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections import defaultdict
from contextlib import suppress
from itertools import count, islice
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.machinery.scale import scaled

import tidelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.conftest import Enumerated

KILLS = scaled(100)
LINES = 120
"""A program is killed within this number of lines of its report, and before that while it opens."""
MOMENT_S = 0.004
"""It is killed at a random time up to this one after a line: a round takes about as long."""
PARTITIONS = 3
PATIENCE_S = 60.0
SETTINGS = {"retention.ms": "-1", "internal.segment.bytes": "20000"}
QUICK = {"log.initial.task.delay.ms": "20", "log.flush.offset.checkpoint.interval.ms": "20"}
ALONE, TOGETHER = "alone", "together"


def work(
    data: Path, seed: int, report: Callable[[str], None], rounds: Iterable[int] | None = None
) -> None:
    """Append to ``in``; read it for both groups, and report what is done; None: without end."""
    rng = Random(seed)
    with tidelog.open(data, config=SETTINGS | QUICK) as logs:
        for topic in ("in", "out"):
            logs.create_topic(topic, PARTITIONS, exist_ok=True)
        with logs.reader("in", group=ALONE) as alone, logs.reader("in", group=TOGETHER) as together:
            for number in range(PARTITIONS):
                key = tidelog.TopicPartition("in", number)
                results = logs.offsets("out", number).log_end_offset
                position = together.positions[key]
                report(f"starts {number} {alone.positions[key]} {position} {results}")
            for _ in count() if rounds is None else rounds:
                work_once(logs, alone, together, rng, report)


def work_once(
    logs: tidelog.Logs,
    alone: tidelog.GroupReader,
    together: tidelog.GroupReader,
    rng: Random,
    report: Callable[[str], None],
) -> None:
    """Append some records, and read some for each group."""
    for _ in range(rng.randrange(6)):
        logs.append("in", b"%d" % rng.getrandbits(64), partition=rng.randrange(PARTITIONS))
    for record in islice(alone.read(), rng.randrange(1, 8)):
        report(f"read {record.partition} {record.offset}")
    before = dict(alone.positions)
    alone.commit()
    for (_, number), offset in before.items():
        report(f"committed {number} {offset}")
    with logs.transaction() as txn:
        for record in islice(together.read(), rng.randrange(1, 8)):
            txn.append("out", record.value, partition=record.partition)
        together.commit(txn)


def write_line(descriptor: int, line: str) -> None:
    """Write a line at once."""
    os.write(descriptor, f"{line}\n".encode())


class Program:
    """A forked process that works until it is killed; its report comes through a pipe."""

    def __init__(self, data: Path, seed: int) -> None:
        self.output = b""
        self._ours, its = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            self._child = os.fork()
        if self._child == 0:
            with suppress(BaseException):
                os.close(self._ours)
                work(data, seed, lambda line: write_line(its, line))
            os._exit(3)
        os.close(its)

    def wait(self, *, lines: int, timeout_s: float) -> bool:
        """Wait for a number of lines, at most for a time; return whether they came."""
        end = time.monotonic() + timeout_s
        while self.output.count(b"\n") < lines:
            left_s = max(end - time.monotonic(), 0)
            if not select.select([self._ours], [], [], left_s)[0]:
                return False
            if not (read := os.read(self._ours, 1 << 16)):
                return False
            self.output += read
        return True

    def kill(self) -> list[list[str]]:
        """Kill the process; return the words of each line of its report."""
        os.kill(self._child, signal.SIGKILL)
        with os.fdopen(self._ours, "rb") as rest:
            self.output += rest.read()
        _, status = os.waitpid(self._child, 0)
        assert os.WIFSIGNALED(status), self.output[-200:]
        return [line.split() for line in self.output.decode().splitlines()]


class Killer:
    """Runs programs and kills each at a random moment, while it opens or later."""

    def __init__(self, data: Path, rng: Random) -> None:
        self._data = data
        self._rng = rng
        self._opening_s = PATIENCE_S

    def run(self) -> list[list[str]]:
        """Run a program and kill it; return its report."""
        rng = self._rng
        program = Program(self._data, rng.getrandbits(32))
        start = time.monotonic()
        if rng.randrange(4) == 0:
            program.wait(lines=1, timeout_s=rng.random() * self._opening_s)
            return program.kill()
        assert program.wait(lines=1, timeout_s=PATIENCE_S), program.output
        self._opening_s = time.monotonic() - start
        program.wait(lines=rng.randrange(LINES), timeout_s=PATIENCE_S)
        program.wait(lines=1 << 30, timeout_s=rng.random() * MOMENT_S)
        return program.kill()


class Known(NamedTuple):
    """What is known of the groups, by partition."""

    read: dict[int, int]
    """Offset after the last record that the group ``alone`` has read, without a gap before it."""
    committed: dict[int, int]
    """The position of that group after the last commit that returned."""


def check_reports(reports: list[list[str]], known: Known) -> int:
    """Check what one run reported; return how many records it read."""
    reads = 0
    for kind, *words in reports:
        number, offset, *more = map(int, words)
        if kind == "starts":
            position, results = more
            assert known.committed[number] <= offset <= known.read[number]
            assert position == results
            known.read[number] = offset
        elif kind == "read":
            assert offset == known.read[number]
            known.read[number] = offset + 1
            reads += 1
        else:
            assert offset == known.read[number]
            known.committed[number] = offset
    return reads


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_group_reader_that_is_killed_skips_and_repeats_nothing(
    tmp_path: Path, enumerated: Enumerated
) -> None:
    """No position is behind its last commit; results committed with it are written exactly once."""
    seed = Random().getrandbits(32)
    work(tmp_path / "warm", seed, lambda _: None, range(9))  # forks need not load the code again
    data = tmp_path / "data"
    killer = Killer(data, Random(seed))
    known = Known(defaultdict(int), defaultdict(int))
    runs_with_reads = 0
    try:
        for _ in range(KILLS):
            runs_with_reads += check_reports(killer.run(), known) > 0
        with tidelog.open(data, config=SETTINGS) as logs:
            with logs.reader("in", group=TOGETHER) as reader, logs.transaction() as txn:
                for record in reader.read():
                    txn.append("out", record.value, partition=record.partition)
                reader.commit(txn)
            given, results = (
                [[record.value for record in logs.read(topic, n)] for n in range(PARTITIONS)]
                for topic in ("in", "out")
            )
        assert results == given
    except AssertionError as error:
        error.add_note(f"seed {seed}")
        raise
    enumerated("killed programs that had read", runs_with_reads, at_least=KILLS // 4)
