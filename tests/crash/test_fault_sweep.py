"""One fault at each operation of everything that changes a log.

An act is a list of steps on a prepared log. It runs once without a fault, which gives the
operations of the file system that each step uses, and what the log holds after it. Then it runs
once for each operation and each kind of fault that can hit it. After the fault

* the step has ended as without it, or
* it was refused with KafkaStorageError, and nothing has changed, or
* the log is offline (its whole directory only after EIO or a failed fsync), and opening it again
  gives what it held before the step, or after it.

Then the rest of the act, beginning with a refused step, ends as the run without a fault: with the
same records, offsets, transactions, producers, epochs and files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.crash.fault_kinds import KINDS, Kind
from tests.machinery.cleaning import CleanerHome
from tests.machinery.log_home import LogHome, all_records
from tests.machinery.overflowed_segment import COMMITTED, OVERFLOWED, TXN_INDEX

from tidelog.errors import KafkaStorageError
from tidelog.log.producers.producer_state import ProducerStateConfig
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.log.log import Log
    from tidelog.testing.faults import Operation

NOW_MS: Final = 1_700_000_000_000
SETTINGS: Final[dict[str, Any]] = {
    "internal_segment_bytes": 400,
    "index_interval_bytes": 0,
    "segment_index_bytes": 240,
    "retention_ms": -1,
    "file_delete_delay_ms": 1_000,
}
VERIFIED: Final = ProducerStateConfig(transaction_verification=True)
PASSED_MS: Final = 60_000
"""Long enough for all background tasks of a log, repeated ones included."""


class Facts(NamedTuple):
    """All that a log holds, as far as its users can see it."""

    start: int
    end: int
    last_stable: int
    records: tuple[object, ...]
    committed: tuple[int, ...]
    aborted: tuple[object, ...]
    producers: tuple[object, ...]
    epochs: tuple[object, ...]

    def is_like(self, *others: Facts) -> bool:
        """Return whether it is one of ``others``, except epochs, which may be from any of them.

        As in Kafka, a refused append may have assigned its epoch.
        """
        epochs = {entry for other in others for entry in other.epochs}
        return any(
            self._replace(epochs=()) == other._replace(epochs=())
            and (self.epochs == other.epochs or epochs.issuperset(self.epochs))
            for other in others
        )


def facts_of(log: Log) -> Facts:
    """Return what the log holds."""
    start, end = log.log_start_offset, log.log_end_offset
    log.update_high_watermark(end)
    producers = [
        (
            *(key, entry.producer_epoch, entry.coordinator_epoch, entry.txn_first_offset),
            entry.last_sequence,
            entry.last_data_offset,
        )
        for key, entry in log.producers.producers.items()
    ]
    return Facts(
        start,
        end,
        log.last_stable_offset,
        tuple((record.offset, record.key, record.value) for record in all_records(log)),
        tuple(record.offset for record in all_records(log, Isolation.READ_COMMITTED)),
        tuple(log.collect_aborted_transactions(start, end)) if start < end else (),
        tuple(sorted(producers)),
        tuple(log.epochs.entries),
    )


@dataclass
class World:
    """A log on a fake machine, and its user."""

    home: LogHome = field(default_factory=lambda: LogHome(**SETTINGS))

    def __post_init__(self) -> None:
        self.is_closed = False
        self.log = self.open()

    def open(self, **how: Any) -> Log:
        """Open the log, all of it visible."""
        log = self.home.open(**{"producer_config": VERIFIED, **how})
        log.update_high_watermark(log.log_end_offset)
        return log

    def append(self, count: int = 1, *, epoch: int | None = None, **fields: Any) -> None:
        """Append one batch."""
        records = [(NOW_MS + n, b"key %d" % n, b"some value", ()) for n in range(count)]
        guard = 0
        if fields.get("transactional"):
            asked = fields["producer_id"], fields["base_sequence"], fields["producer_epoch"]
            guard = self.log.start_verification(*asked, supports_epoch_bump=False)
        latest = self.log.latest_epoch or 0
        self.log.append_as_leader(
            build_batch(records, **fields),
            latest if epoch is None else epoch,
            verification_guard=guard,
        )
        self.log.update_high_watermark(self.log.log_end_offset)

    def append_of(self, producer_id: int, *, txn: bool = False, count: int = 1) -> None:
        """Append a batch of an idempotent producer, with its next sequence."""
        known = self.log.producers.last_entry(producer_id)
        sequence = 0 if known is None else known.last_sequence + 1
        self.append(
            count,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=txn,
        )

    def end_txn(self, producer_id: int, *, commit: bool) -> None:
        """Append the marker of a transaction."""
        marker = build_marker(
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            is_commit=commit,
            timestamp=NOW_MS,
        )
        self.log.append_as_leader(
            marker,
            self.log.latest_epoch or 0,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=1,
        )
        self.log.update_high_watermark(self.log.log_end_offset)

    def tick(self, ms: int = 0) -> None:
        """Run background tasks that are due."""
        self.home.clock.advance(ms)

    def reopen(self) -> None:
        """End the process and recover the log, as the next start does."""
        old = self.log
        checkpoints = {
            "recovery_point": old.recovery_point,
            "log_start_offset": old.log_start_offset,
        }
        self.home.restart()
        self.home.failures.clear()
        self.log = self.open(clean=False, **checkpoints)

    def end(self) -> tuple[Facts, list[str]]:
        """Let the background finish, restart in order; return what the log holds, and its files."""
        self.tick(PASSED_MS)
        self.log.close()
        how = {
            "recovery_point": self.log.log_end_offset,
            "log_start_offset": self.log.log_start_offset,
        }
        self.log = self.open(**how)
        return facts_of(self.log), self.home.files()


class Act(NamedTuple):
    """Steps on a prepared log.

    ``is_in_parts``: a refused step may have done a part. ``is_cleaning``: a step that is repeated
    may drop more than the first time, namely transactions that have no more records, and may put
    more into one segment.
    """

    prepare: Callable[[], World]
    steps: tuple[Callable[[World], object], ...]
    is_in_parts: bool = False
    is_cleaning: bool = False


# Prepared logs


def small() -> World:
    """Three segments: flushed, with an epoch, and an unflushed end."""
    world = World()
    for _ in range(7):
        world.append()
        world.tick()
    world.log.flush()
    world.append()
    return world


def with_producers() -> World:
    """Two producers in transactions, one of them that has aborted one, and one without."""
    world = World()
    world.append_of(1)
    world.append_of(2, txn=True)
    world.append_of(3, txn=True)
    world.end_txn(2, commit=False)
    world.append_of(2, txn=True)
    world.tick()
    world.log.flush()
    return world


def with_transactions() -> World:
    """Segments with open, aborted and committed transactions, and two epochs."""
    world = with_producers()
    world.append(epoch=1)
    world.end_txn(3, commit=True)
    world.append_of(1, count=3)
    world.append_of(3, txn=True)
    world.end_txn(2, commit=False)
    world.append(2, epoch=2)
    world.end_txn(3, commit=False)
    world.append_of(1)
    world.tick()
    return world


def overflowed() -> World:
    """A segment whose offsets do not fit 32 bits, with aborted transactions, and another one."""
    world = World()
    world.log.close()
    name = f"{0:020d}"
    for suffix, content in (("log", OVERFLOWED), ("index", b""), ("txnindex", TXN_INDEX)):
        world.home.write(f"{name}.{suffix}", content)
    world.log = world.open(recovery_point=COMMITTED[-1] + 1)
    world.log.roll()
    world.tick()
    world.log.flush()
    return world


def compacted() -> World:
    """Segments of a compacted log, each key several times, aborted records among them."""
    home = CleanerHome(file_delete_delay_ms=1_000, internal_segment_bytes=500)
    world = World(home)
    for number in range(4):
        world.append(3)
        world.append_of(2, txn=True)
        world.end_txn(2, commit=bool(number % 2))
    world.log.roll()
    world.tick()
    world.log.flush()
    return world


# Acts


def split(world: World) -> None:
    """Split the first segment."""
    world.log.swap.split_segment(world.log.segments.all[0])


def clean(world: World) -> None:
    """Compact up to the active segment."""
    assert isinstance(world.home, CleanerHome)
    with world.log.watch("cleaning"):
        world.home.clean(world.log)


def follow(world: World) -> None:
    """Append two markers and a batch of a new epoch, as a follower."""
    markers = [
        build_marker(
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            is_commit=False,
            timestamp=NOW_MS,
            base_offset=world.log.log_end_offset + number,
            leader_epoch=number,
        )
        for number, producer_id in enumerate((3, 2))
    ]
    world.log.append_as_follower(b"".join(markers), 5)
    world.log.update_high_watermark(world.log.log_end_offset)


def raise_start(world: World) -> None:
    """Delete records up to the middle of a segment."""
    world.log.delete_records(world.log.log_end_offset - 2)


def close_and_open(world: World) -> None:
    """Close the log, and open it again as after a clean shutdown."""
    if not world.is_closed:
        world.log.flush(force=True)
        world.log.close()
        world.is_closed = True
    old = world.log
    world.log = world.open(recovery_point=old.log_end_offset, log_start_offset=old.log_start_offset)
    world.is_closed = False


def retain_all(world: World) -> None:
    """Delete everything by age; the active segment is replaced."""
    world.log.retain(NOW_MS + 10**9)


def aged() -> World:
    """A log whose records are all too old."""
    world = World(LogHome(**{**SETTINGS, "retention_ms": 1_000}))
    for _ in range(5):
        world.append_of(1)
        world.tick()
    return world


def flushing_each() -> World:
    """A log that is flushed with each append."""
    world = World(LogHome(**{**SETTINGS, "flush_messages": 1}))
    world.append()
    return world


def tick(world: World) -> None:
    """Run background tasks that are due."""
    world.tick()


def later(world: World) -> None:
    """Run background tasks of the next seconds."""
    world.tick(2_000)


ACTS: Final[dict[str, Act]] = {
    "append": Act(small, (World.append, World.append)),
    "append and roll": Act(small, (lambda w: w.append(4), tick, lambda w: w.append(5), tick)),
    "append flushed": Act(flushing_each, (World.append, lambda w: w.append(4), tick)),
    "append idempotent": Act(
        with_producers, (lambda w: w.append_of(1, count=4), lambda w: w.append_of(9), tick)
    ),
    "append transactional": Act(
        with_producers, (lambda w: w.append_of(3, txn=True), lambda w: w.append_of(9, txn=True))
    ),
    "commit": Act(with_producers, (lambda w: w.end_txn(3, commit=True),)),
    "abort": Act(
        with_producers,
        (lambda w: w.end_txn(3, commit=False), lambda w: w.end_txn(2, commit=False), tick),
    ),
    "follow": Act(with_producers, (follow, tick)),
    "roll": Act(small, (lambda w: w.log.roll(), tick, World.append, tick)),
    "assign epoch": Act(
        small,
        (
            lambda w: w.log.maybe_assign_epoch(3, w.log.log_end_offset),
            lambda w: w.append(epoch=4),
        ),
    ),
    "delete records": Act(small, (raise_start, tick, lambda w: w.log.retain(), later), True),
    "retain all": Act(aged, (retain_all, later), is_in_parts=True),
    "truncate": Act(with_transactions, (lambda w: w.log.truncate_to(5), later, World.append)),
    "truncate fully": Act(
        with_transactions, (lambda w: w.log.truncate_fully_and_start_at(40), later, World.append)
    ),
    "split": Act(overflowed, (split, later, World.append)),
    "flush": Act(small, (lambda w: w.log.flush(force=True),)),
    "close": Act(with_transactions, (close_and_open,)),
    "clean": Act(compacted, (clean, later), is_in_parts=True, is_cleaning=True),
}


LEAST_CASES: Final = {"flush": 2, "commit": 9, "truncate": 70, "truncate fully": 90, "clean": 150}
"""How many cases there are at least; 15 where none is named."""


class Run(NamedTuple):
    """A run without a fault: facts before each step and at the end, operations of each step."""

    facts: tuple[Facts, ...]
    operations: tuple[tuple[Operation, ...], ...]
    changing: tuple[set[Operation], ...]
    end: tuple[Facts, list[str]]


@cache
def reference(name: str) -> Run:
    """Run an act without a fault."""
    act = ACTS[name]
    world = act.prepare()
    facts, operations, changing = [facts_of(world.log)], [], []
    for step in act.steps:
        before = len(world.home.fs.operations)
        traced = world.home.fs.trace()
        step(world)
        operations.append(tuple(traced))
        changing.append(set(world.home.fs.operations[before:]))
        facts.append(facts_of(world.log))
    return Run(tuple(facts), tuple(operations), tuple(changing), world.end())


class Case(NamedTuple):
    """A fault of one kind at one operation of one step."""

    act: str
    step: int
    number: int
    operation: Operation
    kind: Kind


def cases(name: str) -> Iterator[Case]:
    """Yield every case of an act."""
    run = reference(name)
    for step, operations in enumerate(run.operations):
        for number, operation in enumerate(operations):
            for kind in KINDS:
                if kind.can_hit(operation, run.changing[step]):
                    yield Case(name, step, number, operation, kind)


def outcome(case: Case) -> str:
    """Run the case, check it, and say how the step ended."""
    act, run = ACTS[case.act], reference(case.act)
    world = act.prepare()
    facts_of(world.log)
    for step in act.steps[: case.step]:
        step(world)
        facts_of(world.log)
    error = case.kind.error(case.operation.path)
    world.home.fs.fail_at(case.number, error, is_short=case.kind.is_short)
    before, after = run.facts[case.step : case.step + 2]
    try:
        act.steps[case.step](world)
        ended = "done"
    except KafkaStorageError:
        ended = "refused"
    if world.home.failures:
        assert case.kind.is_of_disk
        ended = "directory offline"
    elif world.log.is_offline:
        ended = "log offline"
    if world.is_closed:
        act.steps[case.step](world)
        ended = "done"
    if ended.endswith("offline"):
        world.reopen()
    is_done = check_after(act, ended, facts_of(world.log), before, after)
    for step in act.steps[case.step + is_done :]:
        step(world)
    check_end(act, ended, world.end(), run.end)
    return ended


def check_after(act: Act, ended: str, now: Facts, before: Facts, after: Facts) -> bool:
    """Check what the log holds right after the fault; return whether the step has been done."""
    if act.is_in_parts:
        return now == after and ended != "refused"
    if ended == "done":
        assert now == after, "done, but not as without the fault"
    elif ended == "refused":
        changed = before._replace(epochs=now.epochs)
        assert now == changed, "refused, and yet something has changed"
        assert now.epochs in {before.epochs, after.epochs}
    else:
        assert now.is_like(before, after), "recovered to neither the one nor the other"
    return ended == "done" or (ended.endswith("offline") and now.is_like(after))


def check_end(
    act: Act, ended: str, found: tuple[Facts, list[str]], expected: tuple[Facts, list[str]]
) -> None:
    """Check what the log holds once the act was finished, and its files."""
    (end, files), (expected_end, expected_files) = found, expected
    assert not any(name.endswith((".tmp", ".deleted", ".cleaned", ".swap")) for name in files)
    # A full disk may leave out snapshots, which can be made again.
    wanted = [name for name in expected_files if not name.endswith(".snapshot")]
    if act.is_cleaning:
        end, expected_end = end._replace(aborted=()), expected_end._replace(aborted=())
        files = wanted
    if ended.endswith("offline"):
        assert end._replace(epochs=()) == expected_end._replace(epochs=())
        return
    assert end == expected_end, "ends otherwise than without the fault"
    assert [name for name in files if not name.endswith(".snapshot")] == wanted


def check(chosen: Sequence[Case]) -> Counter[str]:
    """Run cases; fail with all that do not end as they should; count how the others ended."""
    ended: Counter[str] = Counter()
    wrong = []
    for case in chosen:
        try:
            ended[outcome(case)] += 1
        except Exception as error:  # noqa: BLE001 - reported below, all at once
            where = f"step {case.step}, {case.kind.name} at {case.number}: {case.operation}"
            wrong.append(f"{case.act}, {where}: {type(error).__name__} {str(error)[:300]}")
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)
    return ended


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_every_fault_at_every_operation(name: str) -> None:
    """Each ends as the module says."""
    chosen = list(cases(name))
    ended = check(chosen)
    print(f"{name}: {len(chosen)} cases, {dict(ended)}")  # noqa: T201 - how much was tried
    assert len(chosen) >= LEAST_CASES.get(name, 15)
    if name != "flush":
        assert ended["refused"] + ended["log offline"] + ended["done"] >= 3
    assert ended["directory offline"] >= 2


def test_a_sample_of_faults() -> None:
    """Every 23rd case of each kind of fault, so that each kind is among them."""
    every = [case for name in ACTS for case in cases(name)]
    by_kind = [[case for case in every if case.kind == kind] for kind in KINDS]
    chosen = [case for of_kind in by_kind for case in of_kind[::23]]
    ended = check(chosen)
    print(f"{len(chosen)} cases, {dict(ended)}")  # noqa: T201 - how much was tried
    assert {case.kind for case in chosen} == set(KINDS)
    assert len(chosen) >= 25
    assert min(ended["refused"], ended["directory offline"]) >= 5
