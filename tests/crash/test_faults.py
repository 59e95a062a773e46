"""A disk that is full or fails, at every operation of a log: a typed error, and nothing lost."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import KafkaStorageError
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Enumerated

    from tidelog.log.log import Log

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "internal_segment_bytes": 400,
    "index_interval_bytes": 0,
    "segment_index_bytes": 80,
    "retention_bytes": 200,
    "retention_ms": -1,
    "file_delete_delay_ms": 1_000,
}
SYNCS = {"sync", "sync_directory"}
FREED = {"delete", "delete_directory", "rename"}
"""They take no space, so a full disk does not stop them."""


@dataclass
class Owner:
    """The user of a log, who remembers what was acknowledged."""

    home: LogHome
    log: Log
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    flushed: int = 0

    def append(self, value: bytes, epoch: int | None = None) -> None:
        """Append a record of an idempotent producer; remember it once that returned."""
        known = self.log.producers.last_entry(1)
        sequence = 0 if known is None else known.last_sequence + 1
        data = build_batch(
            [(NOW_MS, b"k", value, ())], producer_id=1, producer_epoch=0, base_sequence=sequence
        )
        info = self.log.append_as_leader(
            data, self.log.latest_epoch or 0 if epoch is None else epoch
        )
        self.acknowledged[info.first_offset] = value

    def flush(self) -> None:
        """Flush; remember how far, once that returned."""
        self.log.flush()
        self.flushed = self.log.recovery_point

    def tick(self, ms: int = 0) -> None:
        """Run background tasks that are due."""
        self.home.clock.advance(ms)
        self.flushed = self.log.recovery_point


def owner() -> Owner:
    """Return the owner of a log of three segments, flushed, and one record that is not."""
    home = LogHome(**SETTINGS)
    new = Owner(home, home.open())
    for number in range(12):
        new.append(b"value-%d" % number)
        new.tick()
    new.flush()
    new.append(b"unflushed")
    new.log.update_high_watermark(new.log.log_end_offset)
    return new


def append(user: Owner) -> None:
    """Some records, the last in a new segment."""
    for number in range(3):
        user.append(b"next-%d" % number)


def roll(user: Owner) -> None:
    """A new segment, the task that flushes the old one, and records in the new."""
    user.log.roll()
    user.tick()
    user.append(b"after the roll")
    user.flush()


def retain(user: Owner) -> None:
    """Old segments go, later their files."""
    assert user.log.delete_old_segments() == 2
    user.tick(2_000)


def snapshot(user: Owner) -> None:
    """Producer state is kept when the log is rolled, and made durable after that."""
    user.append(b"before")
    user.log.roll()
    user.tick()
    user.log.roll()
    user.tick()


def checkpoint(user: Owner) -> None:
    """A leader epoch begins, with records of it and without."""
    user.log.maybe_assign_epoch(3, user.log.log_end_offset)
    user.append(b"of epoch 3")
    user.append(b"of epoch 5", epoch=5)
    user.flush()


ACTS: dict[str, Callable[[Owner], None]] = {
    act.__name__: act for act in (append, roll, retain, snapshot, checkpoint)
}


class Least(NamedTuple):
    """How many operations an act has at least."""

    taking_space: int
    syncs: int
    others: int


LEAST = {
    "append": Least(10, 0, 10),
    "roll": Least(6, 6, 6),
    "retain": Least(2, 2, 15),
    "snapshot": Least(5, 4, 8),
    "checkpoint": Least(8, 5, 10),
}


class Place(NamedTuple):
    """One operation of an act: the ``number``-th of its name and path, from 0."""

    name: str
    path: str
    number: int


def places(act: Callable[[Owner], None]) -> Iterator[Place]:
    """Yield each operation of an act that changes the disk or makes changes durable."""
    user = owner()
    before = len(user.home.fs.operations)
    act(user)
    seen: dict[tuple[str, str], int] = {}
    for operation in user.home.fs.operations[before:]:
        number = seen.get(operation, 0)
        seen[operation] = number + 1
        yield Place(*operation, number)


def run(act: Callable[[Owner], None], user: Owner) -> None:
    """Do it; nothing but the typed error may come out."""
    with suppress(KafkaStorageError):
        act(user)


def failing(act: Callable[[Owner], None], place: Place, code: int) -> Owner:
    """Do it with an error at one place."""
    user = owner()
    error = OSError(code, os.strerror(code), place.path)
    user.home.fs.fail(place.name, place.path, error, skipped=place.number)
    run(act, user)
    return user


def check_goes_on(user: Owner) -> None:
    """The log is online; once there is space everything works, and nothing was lost."""
    assert user.home.failures == []
    check_acknowledged(user)
    user.append(b"after")
    user.tick(2_000)
    user.flush()
    assert user.flushed == user.log.log_end_offset
    before = all_values(user.log)
    user.log.close()
    user.log = user.home.open(recovery_point=user.flushed)
    assert all_values(user.log) == before
    check_acknowledged(user)


def check_acknowledged(user: Owner) -> None:
    """Whatever an append acknowledged is read, from the log start on, and nothing else."""
    start = user.log.log_start_offset
    kept = {offset: value for offset, value in user.acknowledged.items() if offset >= start}
    assert dict(all_values(user.log)) == kept
    assert user.log.producers.producers[1].last_data_offset == max(user.acknowledged)


def check_offline(user: Owner, flushed: int) -> None:
    """Nothing more is taken or said to be flushed; what was flushed before is on the disk."""
    assert user.home.failures != []
    assert user.log.recovery_point <= max(user.flushed, flushed)
    with pytest.raises(KafkaStorageError):
        user.append(b"refused")
    with pytest.raises(KafkaStorageError):
        user.log.flush()
    user.home.power_cut("none")
    log = user.home.open(clean=False, recovery_point=user.log.recovery_point)
    survivors = dict(all_values(log))
    assert survivors.items() <= user.acknowledged.items() | {
        (max(survivors), survivors[max(survivors)])
    }
    start = log.log_start_offset
    wanted = {o: v for o, v in user.acknowledged.items() if start <= o < user.flushed}
    assert wanted.items() <= survivors.items()


@pytest.mark.parametrize("name", ACTS)
def test_a_full_disk_refuses_and_comes_back(name: str, enumerated: Enumerated) -> None:
    """ENOSPC at any operation that takes space: an error, no record lost, and later it works."""
    act = ACTS[name]
    taking_space = [place for place in places(act) if place.name not in SYNCS | FREED]
    enumerated("operations that take space", len(taking_space), at_least=LEAST[name].taking_space)
    for place in taking_space:
        check_goes_on(failing(act, place, errno.ENOSPC))


@pytest.mark.parametrize("name", ACTS)
def test_a_short_write_is_undone(name: str) -> None:
    """Wherever the disk becomes full in the middle of a write, what was written is cut off."""
    act = ACTS[name]
    for free_bytes in range(0, 700, 23):
        user = owner()
        user.home.fs.set_free_bytes(free_bytes)
        run(act, user)
        user.home.fs.set_free_bytes(None)
        check_goes_on(user)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("name", [name for name in ACTS if LEAST[name].syncs])
def test_after_a_failed_sync_nothing_is_said_to_be_flushed(
    name: str, code: int, enumerated: Enumerated
) -> None:
    """Whatever the error, the directory goes offline and stays so."""
    act = ACTS[name]
    syncs = [place for place in places(act) if place.name in SYNCS]
    enumerated("syncs", len(syncs), at_least=LEAST[name].syncs)
    for place in syncs:
        check_offline(failing(act, place, code), owner().flushed)


@pytest.mark.parametrize("name", ACTS)
def test_a_broken_disk_takes_the_directory_offline(name: str, enumerated: Enumerated) -> None:
    """EIO at any other operation: the typed error, and no more appends."""
    act = ACTS[name]
    others = [place for place in places(act) if place.name not in SYNCS]
    enumerated("operations", len(others), at_least=LEAST[name].others)
    for place in others:
        check_offline(failing(act, place, errno.EIO), owner().flushed)
