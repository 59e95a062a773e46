"""One fault at each operation of what a manager does: topics, checkpoints, deletion, a full disk.

As ``test_fault_sweep`` for one log. After an error that says nothing against the disk the step has
ended as without it, or it was refused and nothing has changed; then it can be repeated. A disk that
failed takes its directory offline, and the next start finds the state before the step or after it.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tidelog.errors import KafkaStorageError, TidelogError
from tidelog.testing.manager_home import ManagerHome, fill, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.manager.log_manager import LogManager

NEED_ROOM: Final = frozenset({"open", "pwrite", "write", "truncate", "rename", "make_directory"})
NEED_DESCRIPTOR: Final = frozenset({"open", "read", "list"})
SYNCS: Final = frozenset({"sync", "sync_directory"})
MINUTE_MS: Final = 60_000

FAULTS: Final = {
    "full disk": (errno.ENOSPC, NEED_ROOM),
    "short write": (errno.ENOSPC, frozenset({"pwrite", "write"})),
    "no descriptor": (errno.EMFILE, NEED_DESCRIPTOR),
    "failed fsync": (errno.EIO, SYNCS),
    "bad disk": (errno.EIO, NEED_ROOM | {"delete", "delete_directory"}),
}


class Case(NamedTuple):
    """A fault at one operation of an act."""

    act: str
    fault: str
    number: int
    name: str
    path: str


def create(manager: LogManager) -> None:
    """Create a topic of two partitions."""
    manager.create_topic("new", 2, {"retention.ms": "1000"})


def alter(manager: LogManager) -> None:
    """Change a setting."""
    manager.alter_topic("t", {"retention.bytes": "12345"})


def extend(manager: LogManager) -> None:
    """Add partitions to a topic."""
    manager.create_partitions("other", 3)


def delete(manager: LogManager) -> None:
    """Delete a topic."""
    manager.delete_topic("t")


def append(manager: LogManager) -> None:
    """Append to one log."""
    fill(manager, "t", 0, 1)


def flush(manager: LogManager) -> None:
    """Flush all logs and write all checkpoints."""
    manager.flush()


def retain(manager: LogManager) -> None:
    """Delete what has expired."""
    manager.tasks.cleanup_logs()


ACTS: Final[dict[str, Callable[[LogManager], None]]] = {
    act.__name__: act for act in (create, alter, extend, delete, append, flush, retain)
}


def prepared() -> tuple[ManagerHome, LogManager]:
    """Open a manager with two topics; most segments of the first are to be deleted."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    manager = home.open()
    manager.create_topic("t", 2, is_spread=True)
    manager.create_topic("other")
    for number in range(2):
        fill(manager, "t", number, 30)
    fill(manager, "other", 0, 1)
    home.clock.advance(MINUTE_MS)
    manager.alter_topic("t", {"retention.bytes": "500"})
    return home, manager


def state_of(manager: LogManager) -> dict[str, Any]:
    """Return topics with settings and records, and what is offline."""
    topics = {}
    for name, topic in manager.topics().items():
        logs = {number: tuple(values(manager, name, number)) for number in sorted(topic.partitions)}
        topics[name] = dict(topic.config), logs
    return topics


def ends(home: ManagerHome, manager: LogManager) -> tuple[dict[str, Any], list[str]]:
    """Let tasks run, restart in order; return the state and the names in the directories."""
    home.clock.advance(10 * MINUTE_MS)
    manager.shutdown()
    names = [f"{path}/{name}" for path in ("/a", "/b") for name in home.files(path)]
    assert all(home.is_marked(path) for path in ("/a", "/b"))
    with home.open() as again:
        return state_of(again), names


def cases(name: str) -> Iterator[Case]:
    """Yield the cases of an act."""
    home, manager = prepared()
    before = len(home.fs.operations)
    traced = home.fs.trace()
    ACTS[name](manager)
    operations = list(traced)
    changing = set(home.fs.operations[before:])
    for number, operation in enumerate(operations):
        for fault, (code, names) in FAULTS.items():
            is_read = operation not in changing and code != errno.EMFILE
            if operation.name in names and not is_read:
                yield Case(name, fault, number, *operation)


def without_fault(name: str) -> tuple[dict[str, Any], dict[str, Any], tuple[object, list[str]]]:
    """Return the state before an act, after it, and at the end."""
    home, manager = prepared()
    before = state_of(manager)
    ACTS[name](manager)
    return before, state_of(manager), ends(home, manager)


def outcome(case: Case, before: object, after: object, end: tuple[object, list[str]]) -> str:
    """Run one case and check it."""
    home, manager = prepared()
    code, _ = FAULTS[case.fault]
    error = OSError(code, os.strerror(code), case.path)
    home.fs.fail_at(case.number, error, is_short=case.fault == "short write")
    try:
        ACTS[case.act](manager)
        ended = "done"
    except KafkaStorageError:
        ended = "refused"
    if code == errno.EIO:
        if len(manager.live_dirs) == 2:
            assert ended == "done"
        home.restart()
        with home.open() as again:
            if case.act != "retain":
                assert state_of(again) in (before, after)
        return "offline"
    assert len(manager.live_dirs) == 2
    if ended == "done" and case.act != "retain":
        assert state_of(manager) == after
    elif ended == "refused":
        assert state_of(manager) == before
        ACTS[case.act](manager)
    home.clock.advance(10 * MINUTE_MS)
    if case.act == "retain":
        manager.tasks.cleanup_logs()
    assert ends(home, manager) == end
    return ended


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_every_fault_at_every_operation(name: str) -> None:
    """Each ends as the module says, and is repeated without trace."""
    expected = without_fault(name)
    chosen = list(cases(name))
    ended: Counter[str] = Counter()
    wrong = []
    for case in chosen:
        try:
            ended[outcome(case, *expected)] += 1
        except (AssertionError, TidelogError, OSError) as error:
            wrong.append(f"{case}: {type(error).__name__} {str(error)[:300]}")
    print(f"{name}: {len(chosen)} cases, {dict(ended)}")  # noqa: T201 - how much was tried
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)
    assert len(chosen) >= 3


def full() -> tuple[ManagerHome, LogManager]:
    """Return a manager whose disks have no room at all."""
    home, manager = prepared()
    home.fs.set_free_bytes(0)
    return home, manager


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
    """Segments are deleted, and appends go on by themselves."""
    home, manager = full()
    with pytest.raises(KafkaStorageError):
        fill(manager, "other", 0, 1000)
    count = len(manager.partition("other", 0).log.segments)

    assert manager.tasks.cleanup_logs() > 0

    assert manager.live_dirs == ["/a", "/b"]
    run_tasks(home)
    assert [name for name in home.files("/a/t-0") if name.endswith(".deleted")] == []
    home.fs.set_free_bytes(None)
    fill(manager, "t", 0, 3)
    assert len(manager.partition("other", 0).log.segments) == count


def test_a_log_that_was_stopped_in_a_change_is_reopened() -> None:
    """Its directory stays online, and the log comes back without a restart."""
    home, manager = prepared()
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
