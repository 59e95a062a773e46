"""How fast is an append to a log, against a plain write of the same bytes to a file?

A follower's append checks each batch's CRC; an append of staged batches also assigns offsets and
leader epoch; a client's append, one batch at a time, checks the records too. All of them write
index entries. Goals: an append of 1 MB is at least 0.6 times as fast as one pwrite of it; one of a
16 KB batch 0.15 times.

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
"""Appends of 1 MB in a round, and how many of them are not timed: the first ones after a truncation
take longer. There are few, so that the bytes are in the cache, as when they have just arrived from
a socket, and so that the disk has nothing to write back yet when the file is truncated."""
ROUNDS = 30
GOAL, SINGLE_GOAL = 0.6, 0.15


class Sample(NamedTuple):
    """The same records in the form of each kind of append."""

    blocks: list[bytearray]
    """1 MB each, with the offsets that a follower receives and a leader would assign."""
    singles: list[bytes]
    """One batch each, as a client sends it."""
    first: bytes
    """The first batch of the log, which creates its files."""


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
    """Time the appends of records with values of ``value_bytes``."""
    Path(directory).mkdir()
    sample = make_sample(value_bytes)
    singles, blocks = sample.singles, sample.blocks
    logs = [open_log(f"{directory}/{name}-0", sample) for name in ("follower", "staged", "client")]
    follower, staged, client = logs
    plain = PlainFile(f"{directory}/plain")
    tasks = {
        "write, 1 MB": Task(plain.append, plain.truncate, blocks),
        "follower, 1 MB": Task(
            lambda b: follower.append_as_follower(b, 0), truncation(follower), blocks
        ),
        "staged, 1 MB": Task(
            lambda b: staged.append_as_leader(b, 0, origin=AppendOrigin.STAGED),
            truncation(staged),
            blocks,
        ),
        "write, a batch": Task(plain.append, plain.truncate, singles),
        "client, a batch": Task(
            lambda b: client.append_as_leader(b, 0), truncation(client), singles
        ),
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
    """Appends to one file, which is truncated before each round."""

    append: Callable[[Any], object]
    truncate: Callable[[], object]
    payloads: Sequence[bytes | bytearray]

    @property
    def warm(self) -> int:
        """The number of appends that are not timed."""
        return len(self.payloads) * WARM_APPENDS // APPENDS

    @property
    def timed(self) -> int:
        """The number of appends that are timed."""
        return len(self.payloads) - self.warm

    def prepare(self) -> None:
        """Truncate the file and make the appends that are not timed."""
        self.truncate()
        for payload in self.payloads[: self.warm]:
            self.append(payload)

    def run(self) -> None:
        """Make the timed appends."""
        append = self.append
        for payload in self.payloads[self.warm :]:
            append(payload)


class PlainFile:
    """A plain file to append to."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        self.position = 0

    def append(self, payload: bytes | bytearray) -> None:
        """Write at the end."""
        self.position += os.pwrite(self.descriptor, payload, self.position)

    def truncate(self) -> None:
        """Empty the file."""
        os.ftruncate(self.descriptor, 0)
        self.position = 0

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def truncation(log: Log) -> Callable[[], object]:
    """Return a function that truncates a log to its current end."""
    end = log.log_end_offset
    return lambda: log.truncate_to(end)


def make_sample(value_bytes: int) -> Sample:
    """Make batches, and split them in the ways in which they are appended."""
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
    """Return the type of the file system of ``path``, or ``unknown``."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return "unknown"
    types = {mount_point: fs_type for _, mount_point, fs_type, *_ in mounts}
    real = Path(path).resolve()
    return next(types[str(parent)] for parent in real.parents if str(parent) in types)


if __name__ == "__main__":
    sys.exit(main())
