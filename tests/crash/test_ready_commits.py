"""A transaction that waits for a busy directory is in the logs once, or not at all and reported so.

One process waits, another holds the directory: a service, a process that writes and ends, or Kafka.
Either is killed, or the power fails, before and after each change that they make on the disk; what
was not synced by then is kept, lost, or kept in part. Then a service starts, or none does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import pytest

from tidelog.cleaner.log_cleaner import Machine
from tidelog.embedded.commits import commit_when_possible
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import (
    CommitUnfinished,
    TidelogError,
)
from tidelog.readonly.read_only_log import open_read_only
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import NewTopic, list_journals
from tidelog.staging.manifest_names import find_manifests
from tidelog.staging.staged_file import is_staged_name
from tidelog.testing import PowerCut
from tidelog.testing.manager_home import ManagerHome
from tidelog.testing.staging import stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.conftest import Enumerated

    from tidelog.env.files import FileLock
    from tidelog.manager.log_manager import LogManager
    from tidelog.staging.transaction import Transaction
    from tidelog.testing.disk import Kept

TXN: Final = "the transaction"
TIMEOUT_MS: Final = 3000
LONG_MS: Final = 8 * 24 * 3_600_000
NEW_ID: Final = UUID(int=9)
BEFORE: Final[dict[str, list[bytes | None]]] = {"t-0": [b"before"], "t-1": []}
SEEDS: Final = 8
"""Ways, beside all and nothing, in which unsynced data is kept."""


class Case(NamedTuple):
    """Who holds the directory, and what the transaction writes: values by partition directory."""

    holder: str
    values: Mapping[tuple[str, int], list[bytes]]
    new_topics: tuple[NewTopic, ...] = ()
    is_named: bool = True


BOTH: Final = {("t", 0): [b"one", b"two"], ("t", 1): [b"three"]}
CASES: Final = {
    "service": Case("service", BOTH),
    "unnamed": Case("service", BOTH, is_named=False),
    "new topic": Case(
        "service", {("new", 1): [b"first"], ("t", 0): [b"last"]}, (NewTopic("new", NEW_ID, 2, {}),)
    ),
    "refused": Case("service", {("gone", 0): [b"one"], ("t", 0): [b"two"]}),
    "stopping": Case("stopping", BOTH),
    "writer": Case("writer", BOTH),
    "kafka": Case("kafka", BOTH),
}


@dataclass
class Story:
    """A machine on which one process waits and another holds the directory."""

    case: Case
    home: ManagerHome
    ids: dict[str, UUID] = field(default_factory=dict)
    service: LogManager | None = None
    lock: FileLock | None = None
    ends_processes: bool = False
    """Whether a planned crash ends one process, not the machine."""
    outcome: str = "none"
    """What the waiting process reported: committed, absent, unknown, or none if it was killed."""
    slept: int = 0
    attempt: int = 1

    def start(self) -> None:
        """Start a service, as after a crash."""
        self.service = self.home.open()

    def sleep(self, ms: int) -> None:
        """Let the holder work for a while; if it is killed, the waiting process goes on."""
        self.slept += 1
        try:
            self._holder_works()
            self.home.clock.advance(ms)
        except PowerCut:
            if not self.ends_processes:
                raise
            self.home.fs.end_process(holds_locks=True)
            self.home.scheduler.forget()
            self.service = None

    def _holder_works(self) -> None:
        if self.slept == 3 and self.case.holder == "stopping" and self.service is not None:
            self.service.shutdown()
            self.home.scheduler.forget()
            self.service = None
        if self.slept == 5 and self.case.holder == "writer" and self.lock is not None:
            self.lock.release()
            self.lock = None

    def wait(self) -> None:
        """Stage the records and commit them when that is possible, as one process."""
        home = self.home
        values = {key: list(some) for key, some in self.case.values.items()}
        machine = Machine(home.fs, home.clock, InlineScheduler(), Random(self.attempt), self.sleep)
        transaction = self.stage(values, machine.rng)
        try:
            commit_when_possible(
                ["/data"], "/data", transaction, timeout_ms=TIMEOUT_MS, machine=machine
            )
            self.outcome = "committed"
        except CommitUnfinished:
            self.outcome = "unknown"
        except TidelogError:
            self.outcome = "absent"

    def stage(self, values: Mapping[tuple[str, int], list[bytes]], rng: Random) -> Transaction:
        """Stage values."""
        return stage(
            *(self.home.fs, "/data", TXN, values),
            rng=rng,
            topic_ids=self.ids,
            new_topics=self.case.new_topics,
            is_named=self.case.is_named,
        )

    def run(self) -> None:
        """Wait, then let a service run on for a while."""
        self.wait()
        self.sleep(2000)

    def end_all(self) -> None:
        """End every process in an orderly way."""
        if self.lock is not None:
            self.lock.release()
        if self.service is not None:
            self.service.shutdown()
        self.service = self.lock = None
        self.home.scheduler.forget()

    def values(self) -> dict[str, list[bytes | None]]:
        """Return what readers see, by partition directory."""
        found = {}
        for name in self.home.files():
            if name.rpartition("-")[2].isdigit():
                with open_read_only(f"/data/{name}", fs=self.home.fs) as log:
                    found[name] = [one.value for one in log.records()]
        return found


def prepared(name: str, seed: int = 0) -> Story:
    """Return a machine with a topic; the holder of the directory runs."""
    case = CASES[name]
    story = Story(case, ManagerHome(seed=seed, internal_segment_bytes=4000, retention_ms=-1))
    story.start()
    manager = story.service
    assert manager is not None
    manager.create_topic("t", 2)
    manager.create_topic("gone")
    story.ids = {topic: one.topic_id for topic, one in manager.topics().items()}
    manager.delete_topic("gone")
    manager.partition("t", 0).append_records([(-1, None, b"before", ())])
    manager.flush()
    story.home.clock.advance(500)
    if case.holder in {"writer", "kafka"}:
        story.end_all()
        story.lock = story.home.fs.lock("/data/.lock")
    return story


def expected(case: Case, *, is_there: bool) -> dict[str, list[bytes | None]]:
    """Return what each partition holds with the transaction, or without."""
    wanted = {name: list(values) for name, values in BEFORE.items()}
    if is_there:
        for topic in case.new_topics:
            wanted.update({f"{topic.name}-{number}": [] for number in range(topic.partitions)})
        for (topic_name, number), values in case.values.items():
            wanted[f"{topic_name}-{number}"] += values
    return wanted


def settle(story: Story, *, is_late: bool) -> None:
    """Let a service run, at once or after the deadline, until nobody may commit any more."""
    if is_late and story.service is None:
        story.home.clock.advance(2 * TIMEOUT_MS)
    if story.lock is not None:
        story.lock.release()
        story.lock = None
    if story.service is None:
        story.start()
    story.home.clock.advance(2 * TIMEOUT_MS)
    story.end_all()


def check(story: Story) -> None:
    """The transaction is there once or not at all, as was reported; a repeat makes it once."""
    home = story.home
    is_there = TXN in read_finished(home.fs, "/data")
    assert story.values() == expected(story.case, is_there=is_there), story.outcome
    if story.outcome in {"committed", "absent"}:
        assert is_there == (story.outcome == "committed")
    assert list_journals(home.fs, "/data") == []
    if story.case.is_named and ("gone", 0) not in story.case.values:
        again = Story(story.case, home, story.ids, attempt=2)
        if is_there:  # a repeat knows the topics that the transaction created
            again.case = story.case._replace(new_topics=())
            again.ids = {**story.ids, **{one.name: NEW_ID for one in story.case.new_topics}}
        again.start()
        again.wait()
        again.end_all()
        assert again.outcome == "committed"
        assert story.values() == expected(story.case, is_there=True)
    # The next holder, whenever it comes, commits nothing more, and leaves no file.
    before = story.values()
    home.clock.advance(LONG_MS)
    for _ in range(2):
        story.start()
        home.clock.advance(1000)
        story.end_all()
    assert story.values() == before
    assert [one for one in home.files() if is_staged_name(one) or find_manifests([one])] == []


def contents(home: ManagerHome) -> str:
    """Digest all files of the directory, so that a state is looked at once."""
    found = sha256()
    for name in home.files():
        path = f"/data/{name}"
        if home.fs.stat(path).is_directory:
            for inner in home.files(path):
                found.update(f"{name}/{inner}:".encode() + home.fs.read(f"{path}/{inner}") + b";")
        else:
            found.update(f"{name}:".encode() + home.fs.read(path) + b";")
    return found.hexdigest()


class Crash(NamedTuple):
    """What ends with the operation, one process or all, and what is kept of unsynced data."""

    ends_processes: bool
    kept: Kept | None
    seed: int


def crashes(seeds: int) -> list[Crash]:
    """Return the ways in which a process or the machine may end."""
    power = [Crash(False, "all", 0), Crash(False, "none", 0)]
    return [Crash(True, None, 0), *power, *(Crash(False, None, n) for n in range(1, seeds + 1))]


def crashed(name: str, seeds: int, step: int) -> Iterator[tuple[Story, Crash]]:
    """Yield each state that a crash while one waits, or right after it, may leave."""
    story = prepared(name)
    before = len(story.home.fs.operations)
    story.run()
    count = len(story.home.fs.operations) - before
    for operations in range(0, count + 1, step):
        for crash in crashes(seeds):
            story = prepared(name, crash.seed)
            story.ends_processes = crash.ends_processes
            story.home.fs.crash_after(operations)
            try:
                story.run()
                is_waiter_dead = False
            except PowerCut:
                is_waiter_dead = True
            if crash.ends_processes:
                story.home.fs.end_process(
                    holds_locks=is_waiter_dead and story.service is None and story.lock is None
                )
            else:
                story.home.fs.power_cut(crash.kept)
                story.home.scheduler.forget()
                story.service = story.lock = None
            yield story, crash


def enumerate_states(name: str, seeds: int, step: int) -> tuple[int, int]:
    """Check each different state; return how many there were, and how many crashes."""
    seen: set[tuple[str, str, bool, bool]] = set()
    number = 0
    for number, (story, _) in enumerate(crashed(name, seeds, step), 1):
        is_late = number % 2 == 1
        state = contents(story.home), story.outcome, is_late, story.service is None
        if state in seen:
            continue
        seen.add(state)
        settle(story, is_late=is_late)
        check(story)
    return len(seen), number


@pytest.mark.parametrize(
    ("name", "step"), [("service", 9), ("refused", 11), ("writer", 13), ("kafka", 7)]
)
def test_a_wait_that_is_cut_short_ends_with_the_records_once_or_not_at_all(
    name: str, step: int, enumerated: Enumerated
) -> None:
    """A process or the machine ends at some moments, with what was not synced kept, or lost."""
    states, count = enumerate_states(name, 0, step)

    enumerated("crashes", count, at_least=9)
    enumerated("different states", states, at_least=5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASES)
def test_a_wait_of_any_kind_that_is_cut_short_ends_with_the_records_once_or_not_at_all(
    name: str, enumerated: Enumerated
) -> None:
    """The same at each moment, with what was not synced kept, lost, or kept in part and torn."""
    states, count = enumerate_states(name, SEEDS, 1)

    enumerated("crashes", count, at_least=states)
    enumerated("different states", states, at_least=30)
