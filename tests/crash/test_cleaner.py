"""Power cuts and kills while a log is cleaned."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.machinery.cleaning import CleanerHome, kept, last_values
from tests.machinery.scale import scaled, stride
from tests.machinery.spread_workers import SerialWorkers

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.spread.spread_cleaner import SpreadCleaner
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import CleaningAborted
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.conftest import Enumerated

    from tidelog.log.log import Log
    from tidelog.segment.segment import LogSegment
    from tidelog.testing.disk import Kept

SETTINGS = {"internal_segment_bytes": 300, "file_delete_delay_ms": 0}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, scaled(2)))]


def filled(seed: int) -> CleanerHome:
    """Return a durable log of several segments, with a tombstone and an aborted transaction."""
    return _filled().copied(seed)


@cache
def _filled() -> CleanerHome:
    home = CleanerHome(**SETTINGS)
    log = home.open()
    one = home.producer(log, 1)
    for number in range(6):
        home.append(log, (number % 2, f"plain {number}"), ("x", None))
        one.send((number % 3, f"txn {number}"), transactional=True)
        if number % 3 == 2:
            one.end(commit=number == 5)
    log.roll()
    home.append(log, ("y", 1))
    log.flush(force=True)
    home.clock.advance(0)
    home.fs.sync_directory(home.directory)
    return home


def clean(home: CleanerHome, writes: str = "late") -> None:
    """Open as after a crash, clean twice with a small map, delete the replaced segments.

    ``writes``: a new segment is written, synced and swapped in "at once", or as "late" as the
    background writers may do it: when the next one is filled.
    """
    log = home.open(clean=False)
    scheduler = InlineScheduler() if writes == "at once" else home.scheduler
    first = home.clean(log, map_bytes=24 * 4, scheduler=scheduler)
    home.clock.advance(0)
    home.clean(log, first_dirty=first.end_offset, scheduler=scheduler)
    home.clock.advance(0)
    log.close()


Seen: TypeAlias = tuple[
    dict[bytes, bytes], int, int, list[str], list[tuple[int, str | None, str | None]]
]
"""Last value of each key, log end, last sequence, files left of a cleaning, all records."""


def count_operations(writes: str = "late") -> int:
    home = filled(0)
    before = len(home.fs.operations)
    clean(home, writes)
    return len(home.fs.operations) - before


def seen(
    home: CleanerHome,
) -> Seen:
    """Return the state after recovery, and the .cleaned and .swap files that are left."""
    with home.open(clean=False) as log:
        records = kept(log)
        found = last_values(log), log.log_end_offset, log.producers.producers[1].last_sequence
    left = [name for name in home.files() if name.endswith((".cleaned", ".swap"))]
    return *found, left, records


def contents(home: CleanerHome) -> str:
    """Return a digest of all files of the log, so that each state is opened only once."""
    found = sha256()
    for name in home.files():
        found.update(f"{name}:".encode() + home.read(name) + b";")
    return found.hexdigest()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("writes", ["late", "at once"])
def test_a_crash_after_any_operation_of_a_cleaning_loses_nothing(
    seed: int, writes: str, enumerated: Enumerated
) -> None:
    """At every point the log can be opened, and the last value of each key is unchanged.

    Each file operation is once the last one before the crash, the renames of the swap among them.
    The process ends, and of what it has not synced the disk keeps all; or the power fails, and the
    disk keeps a seeded part, in any order.

    Scenario: LogCleanerTest.testRecoveryAfterCrash
    """
    values, end, sequence, left, all_records = seen(filled(0))
    assert left == []
    total = count_operations(writes)
    states: set[str] = set()
    tried = range(0, total, stride())
    enumerated("crashes", 2 * len(tried), at_least=100)
    for operations in tried:
        home = filled(seed)
        home.fs.crash_after(operations)
        with pytest.raises(PowerCut):
            clean(home, writes)
        killed = home.copied(seed)
        home.power_cut()
        for how, crashed in (("kill", killed), ("power cut", home)):
            state = contents(crashed)
            if state in states:
                continue
            states.add(state)
            found = seen(crashed)

            assert found[:4] == (values, end, sequence, []), (how, operations)
            assert set(found[4]) <= set(all_records), (how, operations)
    enumerated("different states", len(states), at_least=30)


def test_a_crash_of_the_crash_recovery_loses_nothing(enumerated: Enumerated) -> None:
    """A recovery that is interrupted at any point can be repeated."""
    values, end, sequence, _, _ = seen(filled(0))
    crashes = range(0, count_operations(), 7)
    enumerated("crashes", len(crashes), at_least=30)
    for operations in crashes:
        home = filled(1)
        home.fs.crash_after(operations)
        with pytest.raises(PowerCut):
            clean(home)
        home.power_cut()
        for again in (1, 3, 9):
            home.fs.crash_after(again)
            with pytest.raises(PowerCut):
                clean(home)
            home.power_cut()

        assert seen(home)[:4] == (values, end, sequence, [])


def durable(home: CleanerHome, log: Log) -> None:
    """Make the log durable, and do what is due."""
    log.flush(force=True)
    home.clock.advance(0)
    home.fs.sync_directory(home.directory)


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("is_marked", [False, True])
def test_a_durable_value_stays_until_what_supersedes_it_is_durable(
    spread: bool, is_marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it a record, or the end of the transaction that the record belongs to.

    A power cut in the middle of the cleaning, after the first swap, or after all of it.
    """
    for swaps in (1, 9):
        home = CleanerHome(internal_segment_bytes=400)
        log = home.open()
        home.append(log, ("k", "old"), ("first", "x" * 250))
        log.roll()
        producer = home.producer(log, 7)
        if is_marked:
            producer.send(("k", "new"), ("second", "x" * 250), transactional=True)
            log.roll()
        durable(home, log)
        recovery_point = log.recovery_point
        if is_marked:
            producer.end(commit=True)
        else:
            home.append(log, ("k", "new"), ("second", "x" * 250))
            log.roll()

        clean_until(home, log, swaps, monkeypatch, spread=spread)
        home.power_cut("none")

        with home.open(clean=False, recovery_point=recovery_point) as found:
            assert last_values(found)[b"k"] in {b"old", b"new"}


def clean_until(
    home: CleanerHome, log: Log, swaps: int, monkeypatch: pytest.MonkeyPatch, *, spread: bool
) -> None:
    """Clean a log, by processes or not, and stop when ``swaps`` segments are swapped in."""
    replace = log.swap.replace_segments

    def replaced(new: Sequence[LogSegment], old: Sequence[LogSegment], end: int) -> None:
        nonlocal swaps
        replace(new, old, end)
        swaps -= 1
        if not swaps:
            raise CleaningAborted("enough")

    monkeypatch.setattr(log.swap, "replace_segments", replaced)
    with suppress(CleaningAborted):
        if spread:
            rng = Random(1)
            workers = SerialWorkers(home.fs, home.clock, rng)
            cleaner = SpreadCleaner(workers, clock=home.clock, fs=home.fs, rng=rng)
            to_clean = OffsetsToClean(0, log.segments.active.base_offset)
            cleaner.clean(log, to_clean, home.clock.now_ms())
        else:
            home.clean(log, scheduler=InlineScheduler())


def test_a_durable_log_is_not_synced_before_it_is_cleaned() -> None:
    """Only what is written by the cleaning is."""
    home = filled(0)
    log = home.open()
    durable(home, log)
    before = len(home.fs.operations)

    home.clean(log)

    synced = [path for name, path in home.fs.operations[before:] if name == "sync"]
    assert synced
    assert all(path.endswith(".cleaned") for path in synced)


def crashed(seeds: int, writes: str) -> Iterator[CleanerHome]:
    """Yield the state after a crash at each moment, with all, none or parts of what was unsynced.

    "any" keeps some of the unsynced renames and deletions and loses others, in any order;
    "prefix" keeps those before some moment.
    """
    ways: list[tuple[Kept, int]] = [("all", 0), ("none", 0)]
    ways += [(kind, seed) for seed in range(seeds) for kind in ("prefix", "any")]
    for operations in range(count_operations(writes) + 1):
        cut_off = filled(0)
        cut_off.fs.crash_after(operations)
        with suppress(PowerCut):
            clean(cut_off, writes)
        for left, seed in ways:
            home = cut_off.copied(seed)
            home.power_cut(left)
            yield home


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("writes", ["late", "at once"])
def test_every_state_a_crash_may_leave_of_a_swap_is_recovered_from(
    writes: str, enumerated: Enumerated
) -> None:
    """Each state that differs from the earlier ones is opened; their number is printed."""
    values, end, sequence, _, all_records = seen(filled(0))
    states: set[str] = set()
    crashes = 0
    for home in crashed(scaled(3), writes):
        crashes += 1
        state = contents(home)
        if state not in states:
            states.add(state)
            found = seen(home)
            assert found[:4] == (values, end, sequence, [])
            assert set(found[4]) <= set(all_records)

    enumerated("crashes", crashes, at_least=len(states))
    enumerated("different states", len(states), at_least=150)
