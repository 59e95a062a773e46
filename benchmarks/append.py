"""How fast is an append to a log, against a plain write of the same bytes to a file?

A follower's append checks each batch's CRC; a staged one also gives offsets and leader epoch; a
client's, one batch at a time, checks the records too. All of them write index entries. Goals: an
append of 1 MB at least 0.6 times as fast as one pwrite of it; of one 16 KB batch 0.15 times.

    .venv/bin/python benchmarks/append.py [directory]
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measure import Goals, heading, measure
from sample import make_batches

from tidelog.config.log_config import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels.runtime import gate
from tidelog.log.log import Log
from tidelog.records.memory import walk
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.stamp import stamp_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEED = 20130101
BATCH_BYTES = 16 << 10
APPENDS, WARM_APPENDS = 8, 3
"""Appends of 1 MB in a round, and how many of them come before it is timed: the first ones after
the file was cut take longer. There are few, so that the bytes lie in the cache, as when they have
just come from a socket, and that the disk has nothing to write back yet when the file is cut."""
ROUNDS = 30
GOAL, SINGLE_GOAL = 0.6, 0.15


class Sample(NamedTuple):
    """The same records, as each kind of append gets them."""

    blocks: list[bytearray]
    """1 MB each, with the offsets that a follower gets; a leader gives staged ones the same."""
    singles: list[bytes]
    """One batch each, as a client sends it."""
    first: bytes
    """One batch for the log to begin with, so that its files are there."""


def main() -> int:
    """Print microseconds an append; return 1 if a goal is missed."""
    heading(__doc__.splitlines()[0], SEED)
    gate.force(True)
    gate.warm(SYSTEM_CLOCK.monotonic_ns)
    goals = Goals()
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        print(f"file system: {file_system(directory)}")
        for value_bytes in (100, 1_000):
            compare(f"{directory}/{value_bytes}", value_bytes, goals)
    return goals.status


def compare(directory: str, value_bytes: int, goals: Goals) -> None:
    """Time the appends of records with values of that size."""
    Path(directory).mkdir()
    sample = make_sample(value_bytes)
    singles, blocks = sample.singles, sample.blocks
    logs = [open_log(f"{directory}/{name}-0", sample) for name in ("follower", "staged", "client")]
    follower, staged, client = logs
    plain = PlainFile(f"{directory}/plain")
    tasks = {
        "write, 1 MB": Task(plain.append, plain.cut, blocks),
        "follower, 1 MB": Task(lambda b: follower.append_as_follower(b, 0), cut(follower), blocks),
        "staged, 1 MB": Task(
            lambda b: staged.append_as_leader(b, 0, origin=AppendOrigin.STAGED), cut(staged), blocks
        ),
        "write, a batch": Task(plain.append, plain.cut, singles),
        "client, a batch": Task(lambda b: client.append_as_leader(b, 0), cut(client), singles),
    }
    timings = measure(
        {name: task.run for name, task in tasks.items()},
        rounds=ROUNDS,
        before={name: task.prepare for name, task in tasks.items()},
    )
    print(f"values of {value_bytes} B, {len(singles)} batches; us an append:")
    for name, timing in timings.items():
        print(f"  {name:16} {timing.per(tasks[name].timed, 1e6)}")
    goals.at_least(GOAL, "follower", timings["follower, 1 MB"], timings["write, 1 MB"])
    goals.at_least(GOAL, "staged", timings["staged, 1 MB"], timings["write, 1 MB"])
    ours, theirs = timings["client, a batch"], timings["write, a batch"]
    goals.at_least(SINGLE_GOAL, "client, one batch", ours, theirs)
    for log in logs:
        log.close()
    plain.close()


class Task(NamedTuple):
    """Appends to one file, which is cut before each round."""

    append: Callable[[Any], object]
    cut: Callable[[], object]
    pieces: Sequence[bytes | bytearray]

    @property
    def warm(self) -> int:
        """How many appends are not timed."""
        return len(self.pieces) * WARM_APPENDS // APPENDS

    @property
    def timed(self) -> int:
        """How many are."""
        return len(self.pieces) - self.warm

    def prepare(self) -> None:
        """Cut the file and make the first appends."""
        self.cut()
        for piece in self.pieces[: self.warm]:
            self.append(piece)

    def run(self) -> None:
        """Make the other appends."""
        append = self.append
        for piece in self.pieces[self.warm :]:
            append(piece)


class PlainFile:
    """A file that grows."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        self.position = 0

    def append(self, piece: bytes | bytearray) -> None:
        """Write behind what is there."""
        self.position += os.pwrite(self.descriptor, piece, self.position)

    def cut(self) -> None:
        """Begin again."""
        os.ftruncate(self.descriptor, 0)
        self.position = 0

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)


def cut(log: Log) -> Callable[[], object]:
    """Return what cuts a log behind what it has now."""
    end = log.log_end_offset
    return lambda: log.truncate_to(end)


def make_sample(value_bytes: int) -> Sample:
    """Make the batches, and cut them in the ways they are appended."""
    whole = make_batches(APPENDS << 20, value_bytes, SEED, BATCH_BYTES)
    data, rest = whole.data.tobytes(), whole.columns
    per_block = len(rest) // APPENDS
    starts, ends = rest.position.tolist(), rest.end.tolist()
    counts = range(0, per_block * APPENDS, per_block)
    singles = [bytes(8) + data[starts[at] + 8 : ends[at]] for at in range(per_block * APPENDS)]
    first = singles[0]
    next_offset, blocks = int(rest.records_count[0]), []
    for at in counts:
        block = bytearray(data[starts[at] : ends[at + per_block - 1]])
        next_offset = stamp_offsets(block, walk(block).batches, next_offset, 0)
        blocks.append(block)
    return Sample(blocks, singles, first)


def open_log(directory: str, sample: Sample) -> Log:
    """Open a new log and append its first batch."""
    log = Log.open(
        directory,
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        scheduler=InlineScheduler(),
        rng=random.Random(SEED),
        config=LogConfig(),
    )
    log.append_as_leader(sample.first, 0)
    return log


def file_system(path: str) -> str:
    """Return the kind of file system that ``path`` lies on, where it can be found out."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return "unknown"
    places = {place: kind for _, place, kind, *_ in mounts}
    real = Path(path).resolve()
    return next(places[str(parent)] for parent in real.parents if str(parent) in places)


if __name__ == "__main__":
    sys.exit(main())
