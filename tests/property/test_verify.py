"""What ``tidelog verify`` calls sound, a writer opens without losing or changing anything."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.machinery.damage import apply_damage
from tests.machinery.manager_home import MARK, ManagerHome
from tests.machinery.odd_logs import write_log

from tidelog.errors import KafkaError, KafkaStorageError
from tidelog.explain.verify.verify_directory import check_directory
from tidelog.explain.verify.verify_partition import verify_partition

if TYPE_CHECKING:
    from tests.conftest import Enumerated
    from tests.machinery.damage import Files

    from tidelog.testing.crash_files import CrashFileSystem

DATA: Final = "/data"
LOG: Final = "/data/t-0"
SETTINGS: Final[dict[str, Any]] = {
    "retention_ms": -1,
    "segment_index_bytes": 4096,
    "internal_segment_bytes": 1 << 20,
    "message_timestamp_after_max_ms": 2**63 - 1,
}
BASES: Final = 8
CASES: Final = 40
SEEDS: Final = [
    (0, CASES),
    *(pytest.param(first, 400, marks=pytest.mark.slow) for first in range(10_000, 14_000, 400)),
]
INDEXED: Final = (".log", ".index", ".timeindex", ".txnindex")


class Opened(NamedTuple):
    """What came of opening a directory for writing: why it was refused, or what it changed."""

    refusal: str
    changes: list[str]


def tree(fs: CrashFileSystem, path: str = DATA) -> Files:
    """Return all files below a directory by path."""
    found: Files = {}
    for name in fs.list(path):
        below = f"{path}/{name}"
        found |= tree(fs, below) if fs.stat(below).is_directory else {below: fs.read(below)}
    return found


def home_of(files: Files) -> ManagerHome:
    """Return a machine with these files."""
    home = ManagerHome(**SETTINGS)
    home.fs.make_directory(LOG)
    for path, data in files.items():
        home.fs.write(path, data)
    return home


def findings(home: ManagerHome) -> list[str]:
    """Return what verify reports of the directory and its partition."""
    try:
        found = verify_partition(home.fs, LOG, clock=home.clock).findings
        found += [located.finding for located in check_directory(home.fs, DATA)]
    except KafkaError as error:  # the command reports it
        return [str(error)]
    return [f"{finding.path}: {finding.what}" for finding in found]


@cache
def healthy(number: int) -> Files:
    """Return the files of a directory without findings, left in order: one partition of any kind.

    They are the ``number``-th of those made from the seeds 0, 1, ….
    """
    home = ManagerHome(**SETTINGS)
    with home.open() as manager:
        manager.create_topic("t", 1, {"retention.ms": "-1"})
    empty = {
        path: data
        for path, data in tree(home.fs).items()
        if path.endswith(("partition.metadata", ".json", ".properties"))
    }
    for seed in range(100):
        log = write_log(seed).files.items()
        home = home_of({f"{LOG}/{name}": data for name, data in log} | empty)
        home.open().shutdown()
        files = tree(home.fs)
        if not findings(home_of(files)):
            number -= 1
            if number < 0:
                return files
    raise AssertionError("too few healthy directories")


def damaged(seed: int) -> tuple[Files, list[str]]:
    """Return a directory with some damage, or with only its mark of a clean shutdown missing."""
    rng = Random(seed)
    files, done = dict(healthy(rng.randrange(BASES))), []
    if rng.random() < 0.5:
        del files[f"{DATA}/{MARK}"]
        done.append("no mark")
    if rng.random() < 0.2:
        done.append(spoil_shared(rng, files))
        return files, done
    inside = {path.rpartition("/")[2]: data for path, data in files.items() if LOG in path}
    files = {path: data for path, data in files.items() if LOG not in path}
    done += apply_damage(rng, inside)
    return files | {f"{LOG}/{name}": data for name, data in inside.items()}, done


def spoil_shared(rng: Random, files: Files) -> str:
    """Change one of the files that all logs of the directory share."""
    path = rng.choice(sorted(path for path in files if LOG not in path))
    data = bytearray(files[path])
    how = rng.choice(("cut", "flip", "empty", "delete", "digit", "line"))
    at = rng.randrange(len(data)) if data else 0
    digits = [place for place, byte in enumerate(data) if chr(byte).isdigit()]
    if how == "delete":
        del files[path]
        return f"delete {path}"
    if how in {"cut", "empty"}:
        del data[at if how == "cut" else 0 :]
    elif how == "flip" and data:
        data[at] ^= rng.choice((1, 2, 4, 16, 128))
    elif how == "digit" and digits:
        data[rng.choice(digits)] = rng.choice(b"0123456789-x ")
    elif how == "line":
        data += rng.choice((b"x\n", b"t 0 5\n", b"\n", b"a=b\n"))
    files[path] = bytes(data)
    return f"{how} {path} at {at}"


def read(home: ManagerHome) -> list[tuple[int, bytes | None]] | str:
    """Return the records that a reader beside a writer sees."""
    from tidelog.readonly.read_only_log import open_read_only

    try:
        with open_read_only(LOG, fs=home.fs) as log:
            return [(record.offset, record.value) for record in log.records()]
    except KafkaError as error:
        return str(error)


def is_kept(path: str, before: Files, start: int) -> bool:
    """Return whether a writer must keep a file: not a snapshot that none of its rules needs."""
    if f"{DATA}/{MARK}" not in before:
        return path.endswith(".log")
    if path.endswith(".snapshot"):
        log = path.removesuffix(".snapshot") + ".log"
        return path in before and log in before and int(path[-29:-9]) > start
    return path.endswith(INDEXED)


def opened(home: ManagerHome) -> Opened:
    """Open the directory as a service and stop in order; return what it refused or changed.

    It may trim files, and rebuild indexes and snapshots after a crash.
    """
    before, seen = tree(home.fs), read(home)
    try:
        manager = home.open()
    except KafkaStorageError as error:
        return Opened(str(error), [])
    try:
        log = manager.partition("t", 0).log
        records, start = [(row.offset, row.value) for row in log.records()], log.log_start_offset
    except KafkaError as error:
        return Opened(str(error), [])
    finally:
        manager.shutdown()
    after = tree(home.fs)
    changes = [
        path
        for path in sorted({*before, *after})
        if is_kept(path, before, start)
        if before.get(path, b"").rstrip(b"\0") != after.get(path, b"").rstrip(b"\0")
    ]
    if isinstance(seen, str) or seen != records[: len(seen)]:
        changes.append("what readers see")
    return Opened("", changes)


@pytest.mark.parametrize(("first", "count"), SEEDS)
def test_what_is_sound_is_opened_unchanged(first: int, count: int, enumerated: Enumerated) -> None:
    """Where verify finds nothing a writer refuses, cuts and rebuilds nothing.

    Where a writer refuses, cuts or rebuilds something, verify has found something.
    """
    sound = found = 0
    for seed in range(first, first + count):
        files, done = damaged(seed)
        reported = findings(home_of(files))
        result = opened(home_of(files))
        if not reported:
            assert result == Opened("", []), (seed, done)
        sound += not reported
        found += bool(reported) and result != Opened("", [])
    enumerated("directories without findings", sound, at_least=count // 10)
    enumerated("directories that a writer refuses or changes", found, at_least=count // 5)
