"""What the makers of own golden data share: records, staged files, deaths, copies of a disk.

Runs on the base commit only, see ``make_own_golden.py``.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tidelog.codec.compression import Codec
from tidelog.records.builder import build_batch
from tidelog.staging.staged_file import StagedFile, StagedWriter
from tidelog.testing import CrashFileSystem, PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.testing.manager_home import ManagerHome

SEED = 4711
FIRST_MS = 1_700_000_000_000
SMALL = {
    "internal.segment.bytes": "700",
    "segment.index.bytes": "240",
    "index.interval.bytes": "200",
}
"""Settings with which a few records fill several segments."""


def record(rng: Random, now_ms: int, number: int) -> tuple[int, Any, Any, Any]:
    """Return a record whose parts are now and then null, empty or odd."""
    key = rng.choice((None, b"", b"key %d" % rng.randrange(5), "Ŧide".encode()))
    value = rng.choice((None, b"", b"value %d " % number * 3, rng.randbytes(24)))
    headers = rng.choice(((), (), (("source", b"golden"),), (("", None), ("twice", b""))))
    return now_ms, key, value, headers


def send(manager: Any, name: str, number: int, batches: int, **fields: Any) -> None:
    """Append ``batches`` batches of one to three records, of any codec, to a partition."""
    target = manager.partition(name, number)
    rng = Random(f"{SEED} {name} {number}")
    now_ms = fields.pop("now_ms", None) or manager.parts.machine.clock.now_ms()
    for count in range(batches):
        records = [record(rng, now_ms + count, count) for _ in range(rng.randrange(1, 4))]
        codec = fields.get("codec", rng.choice(list(Codec)))
        target.append(build_batch(records, **{**fields, "codec": codec}))


def stage(home: Any, directory: str, topic: str, *, finishes: bool = True) -> StagedFile | None:
    """Write a staged file, as a task of a Spark job does; one that dies does not finish."""
    rng = Random(f"{SEED} staged {topic} {finishes}")
    how = {"topic": topic, "partition": 0, "rng": rng}
    writer = StagedWriter(home.fs, directory, f"job {topic}", **how)
    for number in range(3):
        batch = build_batch([(FIRST_MS, b"staged", b"row %d" % number, ())])
        writer.append(batch, records=1, max_timestamp=FIRST_MS)
    return writer.finish() if finishes else None


def died(home_of: Callable[[], Any], prepare: Any, act: Any, fatal: tuple[str, str, int]) -> Any:
    """Return a home whose process died just before an operation of its last act.

    ``fatal`` are the operation's name, the end of its path, and how many such ones come before.
    """
    name, end, skipped = fatal
    home = home_of()
    process = prepare(home)
    before = len(home.fs.operations)
    act(process)
    done = home.fs.operations[before:]
    hits = [n for n, one in enumerate(done) if one.name == name and one.path.endswith(end)]
    home = home_of()
    process = prepare(home)
    home.fs.crash_after(hits[skipped] - 1)
    try:
        act(process)
    except PowerCut:
        home.fs.power_cut("all")
        return home
    raise AssertionError(f"nobody died at {fatal}")


def save(fs: CrashFileSystem, source: str, target: Path) -> None:
    """Copy a directory of the disk in memory to the real one."""
    target.mkdir(parents=True)
    for name in sorted(fs.list(source)):
        path = f"{source}/{name}"
        if fs.stat(path).is_directory:
            save(fs, path, target / name)
        else:
            (target / name).write_bytes(fs.read(path))


def save_all(home: ManagerHome, target: Path) -> None:
    """Copy all data directories of a machine."""
    for path in home.paths:
        save(home.fs, path, target / Path(path).name)
