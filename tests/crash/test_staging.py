"""Transactions are in the logs once, or not at all, wherever a commit is stopped.

Each kind of commit is stopped before and after each of its writes, renames, deletions and syncs;
what was not synced by then is kept, lost, or kept in part and torn. Each state on the disk that
differs from those before is opened: the journal is finished, or there is none.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tidelog.config.log_config import LogConfig
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.errors import KafkaStorageError
from tidelog.explain.verify.findings import Severity
from tidelog.explain.verify.verify_partition import verify_partition
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import list_journals
from tidelog.testing import PowerCut
from tidelog.testing.directory_home import DataHome, record
from tidelog.testing.scale import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conftest import Enumerated

    from tidelog.embedded.logs import Logs
    from tidelog.embedded.transaction import Transaction
    from tidelog.testing.disk import Kept

SETTINGS = LogConfig(
    internal_segment_bytes=400, segment_index_bytes=1200, index_interval_bytes=0, retention_ms=-1
)
TXN = "the transaction"
BEFORE = {"t-0": [b"before"], "t-1": [], "u-0": [b"old", b"older"]}
"""What lies in the logs before the transaction, flushed or not."""
SEEDS = scaled(5)
"""Ways, beside all and nothing, in which unsynced data is kept."""
EVERY_KIND = ("small", "rolls", "partitions", "append_time", "new_topic")


class Case(NamedTuple):
    """What a transaction writes: records by partition directory."""

    fill: Callable[[Transaction], None]
    wanted: dict[str, list[bytes]]
    config: Mapping[str, str] = NO_SETTINGS


def small(txn: Transaction) -> None:
    """Write two records in one batch."""
    txn.append("t", b"one", partition=0)
    txn.append("t", b"two", partition=0)


def rolls(txn: Transaction) -> None:
    """Write batches that fill several segments."""
    for number in range(7):
        txn.append("t", b"%d" % number * 150, partition=0)


def partitions(txn: Transaction) -> None:
    """Write to three partitions of two topics."""
    txn.append("t", b"x", partition=0)
    txn.append("t", b"y", partition=1)
    txn.append("u", b"z", key=b"k")


def new_topic(txn: Transaction) -> None:
    """Write to a topic that the commit creates, and to another one."""
    txn.create_topic("new", 2, {"retention.ms": "-1"})
    txn.append("new", b"first", partition=1)
    txn.append("t", b"last", partition=0)


LONG = [b"%d" % number * 150 for number in range(7)]
CASES = {
    "small": Case(small, {"t-0": [b"one", b"two"]}),
    "rolls": Case(rolls, {"t-0": LONG}),
    "partitions": Case(partitions, {"t-0": [b"x"], "t-1": [b"y"], "u-0": [b"z"]}),
    "append_time": Case(
        small, {"t-0": [b"one", b"two"]}, {"message.timestamp.type": "LogAppendTime"}
    ),
    "new_topic": Case(new_topic, {"new-1": [b"first"], "t-0": [b"last"]}),
}


@dataclass
class Story:
    """A machine with topics, and how far a commit came on it."""

    case: Case
    home: DataHome
    points: list[CommitPoint] = field(default_factory=list)

    def open(self) -> Logs:
        """Open the directory as a short-lived writer."""
        logs = self.home.open(defaults=SETTINGS)
        logs.manager.staged_commits.on_point = self.points.append
        return logs

    def commit(self) -> None:
        """Commit the transaction, as a process that does nothing else."""
        with self.open() as logs:
            self.write(logs)

    def write(self, logs: Logs) -> None:
        """Commit the transaction."""
        with logs.transaction(TXN) as txn:
            if not txn.is_repeat or self.case.fill is not new_topic:
                self.case.fill(txn)

    def values(self) -> dict[str, list[bytes | None]]:
        """Return what readers see, by partition directory."""
        names = [name for name in self.home.files() if name.rpartition("-")[2].isdigit()]
        return {name: self.home.values(name) for name in names}


def prepared(name: str, seed: int = 0) -> Story:
    """Return a machine with two topics, closed in order."""
    story = Story(CASES[name], DataHome(seed))
    story.home.clock.advance(1_000_000)
    with story.open() as logs:
        logs.create_topic("t", 2, story.case.config)
        logs.create_topic("u")
        for directory, values in BEFORE.items():
            topic, _, number = directory.rpartition("-")
            for value in values:
                logs.partition(topic, int(number)).append_records([record(value)])
    return story


class Outcome(NamedTuple):
    """What a crash leaves of what was not synced: all, nothing, or a part by seed."""

    kept: Kept | None
    seed: int


def outcomes(seeds: int) -> list[Outcome]:
    """Return the ways in which a crash may end."""
    return [Outcome("all", 0), Outcome("none", 0), *(Outcome(None, n) for n in range(seeds))]


def contents(home: DataHome) -> str:
    """Digest all files of the directory, so that a state is looked at once."""
    found = sha256()
    for name in home.files():
        path = f"{home.path}/{name}"
        if home.fs.stat(path).is_directory:
            for inner in home.files(name):
                found.update(f"{name}/{inner}:".encode() + home.fs.read(f"{path}/{inner}") + b";")
        else:
            found.update(f"{name}:".encode() + home.fs.read(path) + b";")
    return found.hexdigest()


def expected(case: Case, *, is_there: bool) -> dict[str, list[bytes]]:
    """Return what each partition holds with the transaction, or without."""
    wanted: dict[str, list[bytes]] = {name: list(values) for name, values in BEFORE.items()}
    for name, values in case.wanted.items() if is_there else ():
        wanted[name] = [*wanted.get(name, []), *values]
    if is_there and case.fill is new_topic:
        wanted.setdefault("new-0", [])
    return wanted


def check(story: Story) -> None:
    """Open the directory: the transaction is there whole, or can be repeated, with one result."""
    was_committed = CommitPoint.COMMITTED in story.points
    load_all(story)
    home = story.home
    is_there = TXN in read_finished(home.fs, home.path)
    assert is_there or not was_committed
    assert story.values() == expected(story.case, is_there=is_there)
    assert list_journals(home.fs, home.path) == []
    check_files(story)
    story.commit()
    load_all(story)
    assert story.values() == expected(story.case, is_there=True)
    assert list_journals(home.fs, home.path) == []
    check_files(story)
    # A power cut may undo the deletion of a staged file alone; a sweep deletes it again.
    home.clock.advance(8 * 24 * 3_600_000)
    load_all(story)
    assert [name for name in home.files() if name.endswith(".staged")] == []


def load_all(story: Story) -> None:
    """Open the directory and every log in it."""
    with story.open() as logs:
        for topic in logs.topics():
            list(logs.partitions(topic))


def check_files(story: Story) -> None:
    """Indexes, snapshots, epochs and checksums are right, and append times are all the same."""
    for name in story.values():
        directory = f"{story.home.path}/{name}"
        findings = verify_partition(story.home.fs, directory, clock=story.home.clock).findings
        assert [one for one in findings if one.severity is Severity.DAMAGE] == []
    if story.case.config:
        with story.home.read_only("t-0") as log:
            times = {found.timestamp for found in log.records() if found.value in {b"one", b"two"}}
        assert len(times) <= 1


def crashed(
    make: Callable[[int], Story], act: Callable[[Story], None], seeds: int, step: int = 1
) -> Iterator[Story]:
    """Yield each state that a crash during ``act``, or right after it, may leave."""
    story = make(0)
    before = len(story.home.fs.operations)
    act(story)
    count = len(story.home.fs.operations) - before
    for operations in range(0, count + 1, step):
        for outcome in outcomes(seeds):
            story = make(outcome.seed)
            story.home.fs.crash_after(operations)
            with suppress(PowerCut):
                act(story)
            story.home.fs.power_cut(outcome.kept)
            yield story


def enumerate_states(stories: Iterator[Story]) -> tuple[int, int]:
    """Check each different state; return how many there were, and how many crashes."""
    seen: set[tuple[str, bool]] = set()
    crashes = 0
    for story in stories:
        crashes += 1
        state = contents(story.home), CommitPoint.COMMITTED in story.points
        if state not in seen:
            seen.add(state)
            check(story)
    return len(seen), crashes


@pytest.mark.parametrize(("name", "step"), [("small", 2), ("partitions", 7)])
def test_a_commit_that_is_cut_short_is_whole_or_absent(
    name: str, step: int, enumerated: Enumerated
) -> None:
    """At each moment, with what was not synced kept, or lost."""
    make = partial(prepared, name)
    states, crashes = enumerate_states(crashed(make, Story.commit, 0, step=step))

    enumerated("crashes", crashes, at_least=25)
    enumerated("different states", states, at_least=15)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_commit_of_any_kind_that_is_cut_short_is_whole_or_absent(
    name: str, enumerated: Enumerated
) -> None:
    """At each moment, with what was not synced kept, lost, or kept in part and torn."""
    make = partial(prepared, name)
    states, crashes = enumerate_states(crashed(make, Story.commit, SEEDS))

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=80)


def committed(name: str, seed: int) -> Story:
    """Return a machine whose power failed right after the commit point."""
    story = prepared(name, seed)

    def cut(point: CommitPoint) -> None:
        story.points.append(point)
        if point is CommitPoint.COMMITTED:
            raise PowerCut(point.value)

    logs = story.open()
    logs.manager.staged_commits.on_point = cut
    with suppress(PowerCut):
        story.write(logs)
    story.home.fs.power_cut("all")
    return story


def reopen(story: Story) -> None:
    """Open the directory and close it, which finishes the journal."""
    with story.open():
        pass


@pytest.mark.parametrize("name", ["partitions"])
def test_a_replay_that_is_cut_short_is_repeated(name: str, enumerated: Enumerated) -> None:
    """A second crash, while the journal of the first is finished, changes nothing."""
    make = partial(committed, name)
    states, crashes = enumerate_states(crashed(make, reopen, 0, step=9))

    enumerated("crashes", crashes, at_least=12)
    enumerated("different states", states, at_least=8)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_replay_of_any_kind_that_is_cut_short_is_repeated(
    name: str, enumerated: Enumerated
) -> None:
    """A second crash at each moment, in many ways."""
    make = partial(committed, name)
    states, crashes = enumerate_states(crashed(make, reopen, SEEDS))

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=45)


CHANGES = {
    "open",
    "pwrite",
    "write",
    "truncate",
    "rename",
    "make_directory",
    "sync",
    "sync_directory",
}


def without_space(make: Callable[[int], Story], act: Callable[[Story], None]) -> Iterator[Story]:
    """Yield the machine after each operation in turn has failed because the disk was full."""
    story = make(0)
    traced = story.home.fs.trace()
    act(story)
    for number in [n for n, operation in enumerate(traced) if operation.name in CHANGES]:
        for is_short in (False, True):
            story = make(0)
            error = OSError(errno.ENOSPC, "no space left")
            story.home.fs.fail_at(number, error, is_short=is_short)
            with suppress(KafkaStorageError, OSError):
                act(story)
            story.home.fs.kill()
            story.home.fs.power_cut("all")
            yield story


@pytest.mark.parametrize("name", ["small"])
def test_a_disk_that_fills_up_leaves_a_commit_whole_or_absent(
    name: str, enumerated: Enumerated
) -> None:
    """At each operation before and after the commit point."""
    make = partial(prepared, name)
    states, failures = enumerate_states(without_space(make, Story.commit))

    enumerated("failures", failures, at_least=20)
    enumerated("different states", states, at_least=4)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", EVERY_KIND)
@pytest.mark.parametrize("act", [Story.commit, reopen])
def test_a_disk_that_fills_up_leaves_a_commit_of_any_kind_whole_or_absent(
    name: str, act: Callable[[Story], None], enumerated: Enumerated
) -> None:
    """At each operation of the commit, and of its replay."""
    ready = prepared if act is Story.commit else committed
    make = partial(ready, name)
    states, failures = enumerate_states(without_space(make, act))

    enumerated("failures", failures, at_least=states)
    enumerated("different states", states, at_least=4)


def kafka_appends(story: Story, value: bytes) -> None:
    """Append to t-0 as a broker does, which knows nothing of journals."""
    for name in list_journals(story.home.fs, story.home.path):
        story.home.fs.rename(f"{story.home.path}/{name}", f"{story.home.path}/{name}.hidden")
    with story.open() as logs:
        logs.partition("t", 0).append_records([record(value)])
    for name in story.home.files():
        if name.endswith(".hidden"):
            path = f"{story.home.path}/{name}"
            story.home.fs.rename(path, path.removesuffix(".hidden"))
    story.home.fs.sync_directory(story.home.path)


def overtaken(seed: int) -> Story:
    """Return a machine on which a broker appended right after the commit point."""
    story = committed("small", seed)
    kafka_appends(story, b"other")
    return story


def test_what_another_writer_appended_in_between_stays(enumerated: Enumerated) -> None:
    """The rest of the transaction follows it, as a new journal says; also if that is cut short."""
    enumerated("different states", overtaken_states(0, step=3), at_least=8)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_what_another_writer_appended_in_between_stays_in_every_way(
    enumerated: Enumerated,
) -> None:
    """The same at each moment, with what was not synced kept, lost, or torn."""
    enumerated("different states", overtaken_states(SEEDS, step=1), at_least=45)


def overtaken_states(seeds: int, step: int) -> int:
    """Check each state that a crash of such a replay leaves; return how many differ."""
    seen = set()
    for story in crashed(overtaken, reopen, seeds, step):
        state = contents(story.home)
        if state in seen:
            continue
        seen.add(state)
        load_all(story)
        assert story.values()["t-0"] == [b"before", b"other", b"one", b"two"]
        story.commit()
        assert story.values()["t-0"] == [b"before", b"other", b"one", b"two"]
        check_files(story)
    return len(seen)
