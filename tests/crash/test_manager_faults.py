"""One fault at each operation of what a manager does: topics, moves, cleaning, checkpoints.

As ``test_fault_sweep`` for one log. An act is a list of steps on a prepared manager. It runs once
without a fault, then once for each operation and each kind of fault that can hit it. After the
fault

* the step has ended as without it, perhaps after a repetition in background, or
* it was refused with KafkaStorageError, and nothing has changed, or
* a log is offline, or after EIO or a failed fsync a directory, and the next start finds the state
  before the step or after it.

Then the rest of the act, beginning with a step that was not done, ends as the run without a fault:
with the same topics, settings, records, places and files.
"""

from __future__ import annotations

import errno
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.crash.fault_kinds import KINDS, Kind
from tests.machinery.manager_home import MARK, Loading, ManagerHome, as_service, fill, values
from tests.machinery.scale import scaled

from tidelog.datadir.least_epoch import LEAST_EPOCH_FILE
from tidelog.errors import KafkaStorageError
from tidelog.manager.directories.log_dir import FAILED_DISK_FILE
from tidelog.segment.filenames import TopicPartition, log_future_directory_name
from tidelog.service import copied_log, mover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conftest import Enumerated

    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager
    from tidelog.testing.faults import Operation

MINUTE_MS: Final = 60_000
SETTLED_MS: Final = 3_000
"""Long enough for a log to be reopened and a step of a move to be repeated, once."""
PASSED_MS: Final = 2 * MINUTE_MS
"""Long enough for all background tasks, repeated ones included."""
MOVED: Final = TopicPartition("t", 0)
TEMPORARY: Final = (".cleaned", ".swap", ".deleted", ".tmp", "-delete", "-future")
NOT_COMPARED: Final = (".snapshot", MARK, LEAST_EPOCH_FILE, FAILED_DISK_FILE)
SEEDS: Final = range(scaled(1))


# Prepared managers


@dataclass
class World:
    """A manager on a fake machine with the directories /a and /b, and how it loads its logs."""

    home: ManagerHome
    manager: LogManager
    loading: Loading = Loading.ALL

    def restart(self, loading: Loading | None = None) -> None:
        """End the process and start another one."""
        self.home.restart()
        self.loading = loading or self.loading
        self.manager = self.home.open_as(self.loading)

    def tick(self, ms: int = 0) -> None:
        """Run the background tasks that are due; one that fails keeps none of the others back."""
        clock = self.home.clock
        end_ms = clock.elapsed_ms() + ms
        while True:
            with suppress(KafkaStorageError):
                clock.advance(end_ms - clock.elapsed_ms())
                return


def prepared(seed: int = 0) -> World:
    """Open a manager with two topics; most segments of the first are to be deleted."""
    home = ManagerHome("/a", "/b", seed=seed, retention_ms=-1, file_delete_delay_ms=1_000)
    manager = home.open()
    manager.create_topic("t", 2, is_spread=True)
    manager.create_topic("other")
    for number in range(2):
        fill(manager, "t", number, 30 if seed == 0 else Random(seed).randrange(15, 40))
    fill(manager, "other", 0, 1)
    home.clock.advance(MINUTE_MS)
    manager.alter_topic("t", {"retention.bytes": "500"})
    return World(home, manager)


def kept(seed: int) -> World:
    """As ``prepared``, but nothing expires, and a log starts within a segment."""
    world = prepared(seed)
    world.manager.alter_topic("t", {}, ["retention.bytes"])
    world.manager.on_demand.delete_records(MOVED, 3)
    world.manager.flush()
    return world


def compacted(seed: int) -> World:
    """Let a log of several segments have three keys."""
    world = prepared(seed)
    world.manager.alter_topic("t", {"cleanup.policy": "compact"}, ["retention.bytes"])
    for number in range(15):
        fill(world.manager, "t", 0, 1, b"key %d" % (number % 3))
    world.manager.partition("t", 0).log.roll()
    world.tick()
    return world


def brief(seed: int) -> World:
    """Open a short-lived writer where a service was killed; no log is loaded yet."""
    world = kept(seed)
    fill(world.manager, "t", 0, 2)
    world.restart(Loading.FIRST_USE)
    return world


def brief_after_a_move(seed: int) -> World:
    """As ``brief``, where the catalogue has decided a move whose copy was not yet renamed."""
    world = kept(seed)
    name = log_future_directory_name(*MOVED, "0" * 32)
    world.manager.shutdown()
    world.home.fs.rename("/a/t-0", f"/a/{name}")
    world.restart(Loading.FIRST_USE)
    return world


def brief_after_a_loss(seed: int) -> World:
    """As ``brief``, where the directory of a partition is missing."""
    world = kept(seed)
    world.manager.shutdown()
    world.home.fs.rename("/a/t-0", "/lost")
    world.restart(Loading.FIRST_USE)
    return world


# Acts


def create(world: World) -> None:
    """Create a topic of two partitions."""
    world.manager.create_topic("new", 2, {"retention.ms": "1000"})


def alter(world: World) -> None:
    """Change a setting."""
    world.manager.alter_topic("t", {"retention.bytes": "12345"})


def extend(world: World) -> None:
    """Add partitions to a topic."""
    world.manager.create_partitions("other", 3)


def extend_spread(world: World) -> None:
    """Add partitions to a topic, in both directories."""
    world.manager.create_partitions("other", 3, is_spread=True)


def delete(world: World) -> None:
    """Delete a topic."""
    world.manager.delete_topic("t")


def append(world: World) -> None:
    """Append to one log."""
    fill(world.manager, "t", 0, 1)


def flush(world: World) -> None:
    """Flush all logs and write all checkpoints."""
    world.manager.flush()


def retain_all(world: World) -> None:
    """Delete what has expired, as the background task does."""
    as_service(world.manager).tasks.cleanup_logs()


def retain(world: World) -> None:
    """Delete what has expired of one log, on demand."""
    world.manager.on_demand.retain(MOVED)


def compact(world: World) -> None:
    """Compact one log, on demand."""
    world.manager.on_demand.compact(MOVED)


def delete_records(world: World) -> None:
    """Delete all but the last two records of a log."""
    world.manager.on_demand.delete_records(
        MOVED, world.manager.partition(*MOVED).log.log_end_offset - 2
    )


def begin_move(world: World) -> None:
    """Begin to move a partition."""
    world.manager.move_partition(*MOVED, "/b")


def touch(world: World) -> None:
    """Use a log for the first time."""
    world.manager.partition(*MOVED)


class Act(NamedTuple):
    """Steps on a prepared manager.

    ``is_in_parts``: a step may have done a part when its disk fails. ``is_cleaning``: a refused
    one, too, and when it is repeated it may put more into one segment. ``begins_again``: the
    failure of a disk may undo the steps before.
    """

    prepare: Callable[[int], World]
    steps: tuple[Callable[[World], object], ...]
    is_in_parts: bool = False
    is_cleaning: bool = False
    begins_again: bool = False


ACTS: Final[dict[str, Act]] = {
    "create": Act(kept, (create,)),
    "create briefly": Act(brief, (create,)),
    "extend": Act(kept, (extend,)),
    "extend, spread": Act(kept, (extend_spread,)),
    "extend briefly": Act(brief, (extend,)),
    "alter": Act(kept, (alter,)),
    "delete": Act(kept, (delete,)),
    "append": Act(kept, (append,)),
    "flush": Act(kept, (append, flush)),
    "retain all": Act(prepared, (retain_all, World.tick), is_in_parts=True),
    "retain": Act(prepared, (retain, World.tick)),
    "retain briefly": Act(brief, (retain,)),
    "compact": Act(compacted, (compact, World.tick), is_in_parts=True, is_cleaning=True),
    "delete records": Act(kept, (delete_records, World.tick), is_in_parts=True),
    "move": Act(kept, (begin_move, World.tick), begins_again=True),
    "first use": Act(brief, (touch, append, flush)),
    "first use after a move": Act(brief_after_a_move, (touch,)),
    "first use after a loss": Act(brief_after_a_loss, (touch, append)),
}


# What a run is compared by


class LogFacts(NamedTuple):
    """What a log holds, and where."""

    place: str
    start: int
    end: int
    records: tuple[object, ...]


def facts_of(log: Log) -> LogFacts:
    """Return what a log holds."""
    records = tuple((record.offset, record.key, record.value) for record in log.records())
    return LogFacts(log.directory, log.log_start_offset, log.log_end_offset, records)


def state_of(manager: LogManager) -> dict[str, Any]:
    """Return topics with settings and logs."""
    return {
        name: (dict(topic.config), [facts_of(one.log) for one in manager.partitions(name)])
        for name, topic in manager.topics().items()
    }


class End(NamedTuple):
    """The state after a restart in order, and the files before it."""

    state: dict[str, Any]
    files: list[str]


def end_of(world: World) -> End:
    """Let tasks run and restart in order."""
    home = world.home
    world.tick(PASSED_MS)
    if world.loading is Loading.ALL:
        as_service(world.manager).tasks.cleanup_logs()
        world.tick(SETTLED_MS)
    world.manager.shutdown()
    names = [f"{path}/{name}" for path in home.paths for name in home.files(path)]
    is_open = world.loading is Loading.ALL  # otherwise some logs have files, others not yet
    logs = [name for name in names if is_open and name.rpartition("-")[2].isdigit()]
    names += [f"{path}/{name}" for path in logs for name in home.files(path)]
    if world.loading is Loading.ALL:
        assert all(home.is_marked(path) for path in home.paths), "not closed in order"
    with home.open() as again:
        return End(state_of(again), [one for one in names if not one.endswith(NOT_COMPARED)])


class Run(NamedTuple):
    """A run without a fault: states before each step and after the last, what each step uses."""

    states: tuple[dict[str, Any], ...]
    operations: tuple[tuple[Operation, ...], ...]
    changing: tuple[frozenset[Operation], ...]
    end: End


@cache
def reference(name: str, seed: int) -> Run:
    """Run an act without a fault."""
    act = ACTS[name]
    states = []
    for count in range(len(act.steps) + 1):
        world = act.prepare(seed)
        for step in act.steps[:count]:
            step(world)
        if count == len(act.steps):
            world.tick(SETTLED_MS)
        states.append(state_of(world.manager))
    world = act.prepare(seed)
    fs = world.home.fs
    operations, changing = [], []
    for step in act.steps:
        before, traced = len(fs.operations), fs.trace()
        step(world)
        operations.append(tuple(traced))
        changing.append(frozenset(fs.operations[before:]))
    return Run(tuple(states), tuple(operations), tuple(changing), end_of(world))


class Case(NamedTuple):
    """A fault of one kind at one operation of one step."""

    act: str
    seed: int
    step: int
    number: int
    operation: Operation
    kind: Kind


def cases(name: str, seed: int = 0) -> Iterator[Case]:
    """Yield every case of an act."""
    run = reference(name, seed)
    for step, operations in enumerate(run.operations):
        for number, operation in enumerate(operations):
            for kind in KINDS:
                if kind.can_hit(operation, run.changing[step]):
                    yield Case(name, seed, step, number, operation, kind)


def steps_done(act: Act, run: Run, least: int, world: World) -> int:
    """Return after how many steps of a run without a fault the state is this; at least ``least``.

    Tasks in background may have continued with the act.
    """
    now, states = state_of(world.manager), run.states
    if act.is_in_parts and now not in states[least:]:
        return 0
    assert now in states[least:], "the state is not one of a run without the fault"
    return states.index(now, least)


def run_step(world: World, step: Callable[[World], object]) -> str:
    """Run a step, and return how it ended."""
    try:
        step(world)
    except KafkaStorageError:
        return "refused"
    return "done"


def outcome(case: Case) -> str:
    """Run the case, check it, and return how the step ended."""
    act, run = ACTS[case.act], reference(case.act, case.seed)
    world = act.prepare(case.seed)
    for step in act.steps[: case.step]:
        step(world)
    error = case.kind.error(case.operation.path)
    world.home.fs.fail_at(case.number, error, is_short=case.kind.is_short)
    ended = run_step(world, act.steps[case.step])
    if len(world.manager.live_dirs) < len(world.home.paths):
        assert case.kind.is_of_disk, "a directory is offline though its disk works"
        ended = "directory offline"
        world.restart()
    elif any(log.is_offline for log in world.manager.all_logs()):
        assert not case.kind.is_of_disk, "the disk failed, and its directory is online"
        ended = "log offline"
    if ended == "refused" and not act.is_cleaning:
        assert state_of(world.manager) == run.states[case.step], "refused, and yet changed"
    world.tick(SETTLED_MS)
    done = steps_done(act, run, case.step + (ended == "done"), world)
    for step in act.steps[0 if act.begins_again and ended == "directory offline" else done :]:
        step(world)
    check_end(act, end_of(world), run.end)
    return ended


def check_end(act: Act, found: End, expected: End) -> None:
    """Check the state after a restart in order, and the files."""
    assert found.state == expected.state, "ends otherwise than without the fault"
    if act.is_cleaning:
        assert not [name for name in found.files if name.endswith(TEMPORARY)]
    else:
        different = sorted(set(found.files) ^ set(expected.files))
        assert not different, f"other files: {different}"


def check_all(chosen: Sequence[Case]) -> Counter[str]:
    """Run cases; fail with all that do not end as they should; count how the others ended."""
    ended: Counter[str] = Counter()
    wrong = []
    for case in chosen:
        try:
            ended[outcome(case)] += 1
        except Exception as error:  # noqa: BLE001 - reported below, all at once
            wrong.append(f"{case}: {type(error).__name__} {str(error)[:300]}")
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)
    return ended


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a move take several steps."""
    monkeypatch.setattr(copied_log, "PIECE_BYTES", 500)
    monkeypatch.setattr(mover, "NEAR_BYTES", 600)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ACTS)
def test_every_fault_at_every_operation(name: str, seed: int, enumerated: Enumerated) -> None:
    """Each ends as the module says, and is repeated without trace."""
    chosen = list(cases(name, seed))
    ended = check_all(chosen)
    enumerated("cases", len(chosen), at_least=3)
    for how, count in ended.items():
        enumerated(f"cases that ended {how}", count, at_least=1)


def test_a_sample_of_faults(enumerated: Enumerated) -> None:
    """Every 120th case of each kind, over all acts."""
    every = [case for name in ACTS for case in cases(name)]
    chosen = [case for kind in KINDS for case in [c for c in every if c.kind == kind][::120]]
    check_all(chosen)
    enumerated("cases", len(chosen), at_least=15)
    enumerated("cases to choose from", len(every), at_least=1500)


def full() -> tuple[ManagerHome, LogManager]:
    """Return a manager whose disks have no room at all."""
    world = prepared()
    world.home.fs.set_free_bytes(0)
    return world.home, world.manager


def run_tasks(home: ManagerHome) -> None:
    """Run the tasks of some minutes, though the disk is too full for some of them."""
    for _ in range(10):
        with suppress(KafkaStorageError):
            home.clock.advance(MINUTE_MS)


def test_a_topic_is_deleted_on_a_full_disk() -> None:
    """That is how room is made; what could not be written is made up for later."""
    home, manager = full()

    manager.delete_topic("t")

    assert list(manager.topics()) == ["other"]
    home.clock.advance(10 * MINUTE_MS)
    assert [name for name in home.files("/a") if name.startswith("t-")] == []
    manager.create_topic("t")
    assert values(manager, "t", 0) == []


def test_retention_works_on_a_full_disk() -> None:
    """Segments are deleted, and appends continue by themselves."""
    home, manager = full()
    with pytest.raises(KafkaStorageError):
        fill(manager, "other", 0, 1000)
    count = len(manager.partition("other", 0).log.segments)

    assert as_service(manager).tasks.cleanup_logs() > 0

    assert manager.live_dirs == ["/a", "/b"]
    run_tasks(home)
    assert [name for name in home.files("/a/t-0") if name.endswith(".deleted")] == []
    home.fs.set_free_bytes(None)
    fill(manager, "t", 0, 3)
    assert len(manager.partition("other", 0).log.segments) == count


def test_a_log_that_was_stopped_in_a_change_is_reopened() -> None:
    """Its directory stays online, and the log comes back without a restart."""
    world = prepared()
    home, manager = world.home, world.manager
    log = manager.partition("t", 0).log
    end = log.log_end_offset
    home.fs.fail("truncate", ".index", OSError(errno.ENOSPC, "full"))
    with pytest.raises(KafkaStorageError):
        log.truncate_to(end - 1)
    assert log.is_offline

    home.clock.advance(1_000)

    assert manager.live_dirs == ["/a", "/b"]
    assert manager.partition("t", 0).log.log_end_offset == end - 1
    fill(manager, "t", 0, 1)
    assert manager.partition("t", 0).log.log_end_offset == end
