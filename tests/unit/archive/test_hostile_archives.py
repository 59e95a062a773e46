"""What others may have written to an archive: it is read right, or refused with a typed error."""

from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import files_with, shorten_coarse_indexes
from tests.machinery.object_model import ObjectModel
from tests.machinery.scale import examples

import tidelog
from tidelog.archive.open_archives import archive_at
from tidelog.errors import TidelogError
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.manager.restore import BESIDE, RestoredTopic, restore
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition
from tidelog.testing.crash_files import CrashFileSystem
from tidelog.testing.manual_time import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.store.objects import ObjectInfo

URI = "s3://lake/hostile"
TARGET = "/disk/back"
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**63, 10**400, 0.5, float("nan")),
    *("", "x", "../../s/0", "/etc/passwd", "t/../u", "\x00", "s/" + "0" * 20, "a" * 5000, "ä"),
    *([], [[]], {}, {"a": 1}, [1, 2], [["add"]], ["remove", "s/../x"]),
)


class Noting(ObjectModel):
    """Notes which objects are asked for."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(Random(0))
        self.objects = objects
        self.asked: set[str] = set()

    def get(self, name: str) -> bytes:
        self.asked.add(name)
        return super().get(name)

    def head(self, name: str) -> ObjectInfo | None:
        self.asked.add(name)
        return super().head(name)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.asked.add(name)
        assert sum(end - start for start, end in ranges) <= 1 << 30
        return super().get_ranges(name, ranges)


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The objects of an archive of two partitions, one of which begins with deleted records."""
    shorten_coarse_indexes(monkeypatch, 150)
    store = ObjectModel(Random(3))
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("t", 2, config={"retention.ms": "-1", "internal.segment.bytes": "800"})
        for number in range(60):
            logs.append("t", b"%d" % number * 30, partition=number % 2, timestamp=1000 + number)
        logs.delete_records("t", 1, 7)
        for number in range(2):
            archive_log(logs.manager, TopicPartition("t", number), store, ArchiveTerms())
    return store.objects


Found = set[tuple[int, int, bytes | None]]


def read(store: Noting) -> Found:
    """Read all that the archive has, in the ways that there are."""
    logs = open_directory_read_only(URI, fs=files_with(store, URI))
    found: Found = set()
    for partition in logs.topic("t").partitions:
        with logs.open("t", partition) as log:
            log.offset_at(1030)
            found |= {(partition, one.offset, one.value) for one in log.records()}
            isolated = log.records(committed=True)
            found |= {(partition, one.offset, one.value) for one in isolated}
    return found


def restored(store: Noting) -> CrashFileSystem:
    """Restore it to a disk, on which it stays where it belongs."""
    fs = CrashFileSystem()
    fs.make_directory("/disk")
    files_with(store, URI)
    parts = {one.number: one for one in archive_at(URI).all().values()}
    topic = RestoredTopic("t", next(iter(parts.values())).topic_id, {}, {}, parts)
    scheduler = ManualScheduler(ManualClock())
    try:
        restore(store, [topic], TARGET, fs=fs, rng=Random(1), scheduler=scheduler)
    finally:
        left = set(fs.list("/disk"))
        assert left <= {os.path.basename(TARGET), os.path.basename(TARGET + BESIDE)}
    return fs


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    """Yield the paths of all values below a value of JSON."""
    keys: Iterable[Any] = ()
    if isinstance(value, dict):
        keys = value
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        yield (*path, key)
        yield from leaves(value[key], (*path, key))


def with_odd_value(line: bytes, rng: Random) -> bytes:
    """Return a version with one value replaced, missing or repeated."""
    fields = json.loads(line)
    *path, last = rng.choice([*leaves(fields)])
    holder = fields
    for key in path:
        holder = holder[key]
    kind = rng.randrange(4)
    if kind == 0:
        del holder[last]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(last, holder[last])
    elif kind == 2 and isinstance(holder[last], int):
        holder[last] += rng.choice((-1, 1, 1 << 20))
    else:
        holder[last] = rng.choice(ODD)
    return json.dumps(fields).encode() + b"\n"


def with_odd_bytes(data: bytes, rng: Random) -> bytes:
    """Return bytes that are cut, longer, or changed somewhere."""
    at = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + rng.randbytes(rng.randint(1, 40)) + data[at:]
    if kind == 2:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return data[:at] + bytes(min(len(data) - at, 64)) + data[at + 64 :]


def made_hostile(sound: dict[str, bytes], rng: Random) -> dict[str, bytes]:
    """Return objects of which one is other than it was, gone, or in the place of another."""
    objects = dict(sound)
    name = rng.choice(sorted(objects))
    kind = rng.randrange(8)
    if kind == 0:
        del objects[name]
    elif kind == 1:
        # Of the same partition: a sound segment of another one is as good as its own to a reader.
        beside = [other for other in sorted(objects) if other.split("/")[1] == name.split("/")[1]]
        objects[name] = objects[rng.choice(beside)]
    elif "/s/" not in name and kind < 6:
        objects[name] = with_odd_value(objects[name], rng)
    else:
        objects[name] = with_odd_bytes(objects[name], rng)
    return objects


def test_whatever_is_in_an_archive_is_read_right_or_refused(
    sound: dict[str, bytes], enumerated: Enumerated
) -> None:
    """No record that was not archived, no object of another place, no file outside the target."""
    expected = read(Noting(sound))
    prefix = next(iter(sound)).partition("/")[0]
    refused = allowed = 0
    for seed in range(examples(400)):
        store = Noting(made_hostile(sound, Random(seed)))
        for use in (read, restored):
            try:
                found = use(store)
            except TidelogError:
                refused += 1
            else:
                allowed += 1
                assert use is restored or (isinstance(found, set) and found <= expected), seed
        assert {name.partition("/")[0] for name in store.asked} <= {prefix}, seed
        assert not any(".." in name for name in store.asked), seed
    enumerated("archives that were refused", refused, at_least=30)
    enumerated("archives that were read", allowed, at_least=15)
