"""A transaction that waits for a busy directory is in the logs once, or not at all and reported so.

One process waits, another holds the directory: a service, a process that writes and ends, or Kafka.
Either is killed, or the power fails, before and after each change that they make on the disk; what
was not synced by then is kept, lost, or kept in part. Then a service starts, or none does.
"""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from uuid import UUID

import pytest
from tests.crash.power_cuts import outcomes
from tests.machinery.manager_home import ManagerHome
from tests.machinery.scale import scaled
from tests.machinery.staging import stage

import tidelog
from tidelog.embedded.commits import commit_when_possible
from tidelog.env.machine import Machine
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import CommitUnfinished, KafkaStorageError, TidelogError
from tidelog.mailbox.letter import State
from tidelog.readonly.read_only_log import open_read_only
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import NewTopic
from tidelog.staging.journal_names import list_journals
from tidelog.staging.manifest_names import MANIFESTS
from tidelog.staging.ready import ReadyFiles
from tidelog.staging.staged_file import is_staged_name
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.env.files import FileLock, FileSystem
    from tidelog.service.log_service import LogService
    from tidelog.staging.commit import Transaction

TXN: Final = "the transaction"
TIMEOUT_MS: Final = 3000
LONG_MS: Final = 8 * 24 * 3_600_000
NEW_ID: Final = UUID(int=9)
BEFORE: Final[dict[str, list[bytes | None]]] = {"t-0": [b"before"], "t-1": []}
SEEDS: Final = scaled(4)
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
    service: LogService | None = None
    lock: FileLock | None = None
    ends_processes: bool = False
    """Whether a planned crash ends one process, not the machine."""
    outcome: str = "none"
    """What the waiting process reported: committed, absent, unknown, or none if it was killed."""
    slept: int = 0
    attempt: int = 1
    waiter_files: Interleaved | None = None
    works: Callable[[int], object] | None = None
    """What the holder does while the waiting process sleeps, if it is not its tasks."""
    timeout_ms: int = TIMEOUT_MS

    def start(self) -> None:
        """Start a service, as after a crash."""
        self.service = self.home.open()

    def sleep(self, ms: int) -> None:
        """Let the holder work for a while; if it is killed, the waiting process keeps running."""
        self.slept += 1
        if self.works is not None:
            self.works(ms)
            return
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
        fs = home.fs if self.waiter_files is None else cast("FileSystem", self.waiter_files)
        machine = Machine(fs, home.clock, InlineScheduler(), Random(self.attempt), self.sleep)
        transaction = self.stage(values, machine.rng)
        try:
            commit_when_possible(
                ["/data"], "/data", transaction, timeout_ms=self.timeout_ms, machine=machine
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


def prepared(name: str, seed: int = 0, home: ManagerHome | None = None) -> Story:
    """Return a machine with a topic; the holder of the directory runs."""
    case = CASES[name]
    home = home or ManagerHome(seed=seed, internal_segment_bytes=4000, retention_ms=-1)
    story = Story(case, home)
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
    assert [one for one in home.files() if is_staged_name(one) or MANIFESTS.find([one])] == []


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


def enumerate_states(stories: Iterator[Story]) -> tuple[int, int]:
    """Check each different state; return how many there were, and how many stories."""
    seen: set[tuple[str, str, bool, bool]] = set()
    settled: set[tuple[str, str]] = set()
    number = 0
    for number, story in enumerate(stories, 1):
        is_late = number % 2 == 1
        state = contents(story.home), story.outcome, is_late, story.service is None
        if state in seen:
            continue
        seen.add(state)
        settle(story, is_late=is_late)
        end = contents(story.home), story.outcome
        if end not in settled:
            settled.add(end)
            check(story)
    return len(seen), number


def failed(name: str, code: int, step: int) -> Iterator[Story]:
    """Yield the machine after each operation in turn, reads included, has failed once."""
    story = prepared(name)
    traced = story.home.fs.trace()
    story.run()
    for number in range(0, len(traced), step):
        story = prepared(name)
        story.home.fs.fail_at(number, OSError(code, "it failed"))
        with suppress(KafkaStorageError):  # while the records are staged
            story.run()
        story.home.fs.kill()  # also what has gone offline, and journals that were not deleted
        story.home.scheduler.forget()
        story.service = story.lock = None
        yield story


ERRORS: Final = (errno.ENOSPC, errno.EIO)


@pytest.mark.parametrize("code", ERRORS)
def test_a_disk_that_fails_while_one_waits_changes_no_report(
    code: int, enumerated: Enumerated
) -> None:
    """What was reported as committed is there, and as absent is not, whichever operation fails."""
    _, count = enumerate_states(failed("service", code, 15))

    enumerated("failures", count, at_least=8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("code", ERRORS)
def test_a_disk_that_fails_anywhere_while_one_waits_changes_no_report(
    code: int, name: str, enumerated: Enumerated
) -> None:
    """The same for every holder, at each operation."""
    states, count = enumerate_states(failed(name, code, 1))

    enumerated("failures", count, at_least=60)
    enumerated("different states after failures", states, at_least=9)


class Interleaved:
    """A disk on which another process acts just before one of the calls of a process."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._act: Callable[[], object] | None = None
        self._at = 0
        self.calls = 0

    def before(self, call: int, act: Callable[[], object]) -> None:
        """Count calls from now on, and let another process act before this one."""
        self.calls, self._at, self._act = 0, call, act

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fs, name)
        if not callable(found):
            return found

        def call(*args: object, **how: object) -> object:
            self.calls += 1
            if self._act is not None and self.calls == self._at:
                act, self._act = self._act, None
                act()
            return found(*args, **how)

        return call


class SharedHome(ManagerHome):
    """A machine on which the calls of the service can be interrupted."""

    def __init__(self) -> None:
        super().__init__(internal_segment_bytes=4000, retention_ms=-1)
        self.service_files = Interleaved(self.fs)

    def machine(self) -> Machine:
        """Return the machine, with the service's own view of the disk."""
        return super().machine()._replace(fs=cast("FileSystem", self.service_files))


def crashed(name: str, seeds: int, step: int) -> Iterator[Story]:
    """Yield each state that the end of a process, or of all, may leave during a wait."""
    story = prepared(name)
    before = len(story.home.fs.operations)
    story.run()
    count = len(story.home.fs.operations) - before
    for operations in range(0, count + 1, step):
        yield without_a_process(name, operations)
        story = prepared(name, operations)
        story.home.fs.crash_after(operations)
        with suppress(PowerCut):
            story.run()
        for outcome in outcomes(seeds):
            home = story.home.copied(outcome.seed)
            home.fs.power_cut(outcome.kept)
            yield replace(story, home=home, service=None, lock=None)


def without_a_process(name: str, operations: int) -> Story:
    """Return the machine after the process that began the next operation has ended."""
    story = prepared(name)
    story.ends_processes = True
    story.home.fs.crash_after(operations)
    is_waiter_dead = False
    try:
        story.run()
    except PowerCut:
        is_waiter_dead = True
    story.home.fs.end_process(
        holds_locks=is_waiter_dead and story.service is None and story.lock is None
    )
    return story


@pytest.mark.parametrize(
    ("name", "step"), [("service", 9), ("refused", 11), ("writer", 13), ("kafka", 7)]
)
def test_a_wait_that_is_cut_short_ends_with_the_records_once_or_not_at_all(
    name: str, step: int, enumerated: Enumerated
) -> None:
    """A process or the machine ends at some moments, with what was not synced kept, or lost."""
    states, count = enumerate_states(crashed(name, 0, step))

    enumerated("crashes", count, at_least=9)
    enumerated("different states", states, at_least=5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASES)
def test_a_wait_of_any_kind_that_is_cut_short_ends_with_the_records_once_or_not_at_all(
    name: str, enumerated: Enumerated
) -> None:
    """The same at each moment, with what was not synced kept, lost, or kept in part and torn."""
    states, count = enumerate_states(crashed(name, SEEDS, 1))

    enumerated("crashes", count, at_least=states)
    enumerated("different states", states, at_least=30)


def without_tasks() -> Story:
    """Return a machine whose service acts only when a test lets it."""
    story = prepared("service", home=SharedHome())
    story.home.scheduler.forget()
    story.timeout_ms = 800
    return story


def service_passes_at(call: int) -> tuple[Story, int]:
    """Let the service look for manifests before some call of the waiting process."""
    story = without_tasks()
    assert story.service is not None
    story.waiter_files = Interleaved(story.home.fs)
    story.waiter_files.before(call, story.service.tasks.commit_ready)
    story.wait()
    return story, story.waiter_files.calls


def waiter_withdraws_at(call: int) -> tuple[Story, int]:
    """Let the waiting process withdraw before some call of the service's look."""
    story = without_tasks()
    service, home = story.service, story.home
    assert service is not None
    assert isinstance(home, SharedHome)
    calls: list[int] = []

    def withdraw() -> None:
        for stem in MANIFESTS.find(home.files()):
            ReadyFiles(home.fs, "/data", stem).change(State.WAITING, State.WITHDRAWN)

    def sleep(ms: int) -> None:
        home.clock.advance(ms)
        home.service_files.before(call, withdraw)
        service.tasks.commit_ready()
        calls.append(home.service_files.calls)

    story.works = sleep
    story.wait()
    return story, max(calls)


@pytest.mark.parametrize(
    ("interleaved", "step"), [(service_passes_at, 3), (waiter_withdraws_at, 5)]
)
def test_of_a_claim_and_a_withdrawal_one_succeeds(
    interleaved: Callable[[int], tuple[Story, int]], step: int, enumerated: Enumerated
) -> None:
    """Whenever the one process acts between two calls of the other."""
    enumerated("interleavings", interleavings(interleaved, step), at_least=8)


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [service_passes_at, waiter_withdraws_at])
def test_of_a_claim_and_a_withdrawal_one_succeeds_at_every_call(
    interleaved: Callable[[int], tuple[Story, int]], enumerated: Enumerated
) -> None:
    """The same before each call."""
    enumerated("interleavings", interleavings(interleaved, 1), at_least=30)


def interleavings(interleaved: Callable[[int], tuple[Story, int]], step: int) -> int:
    """Check the outcome of each interleaving; return how many there were."""
    _, count = interleaved(2**31)
    outcomes = set()
    for call in range(1, count + 1, step):
        story, _ = interleaved(call)
        assert story.outcome in {"committed", "absent"}
        outcomes.add(story.outcome)
        settle(story, is_late=False)
        check(story)
    assert outcomes == {"committed", "absent"}
    return len(range(1, count + 1, step))


def test_a_sweep_does_not_take_a_manifest_that_is_being_committed() -> None:
    """Its deadline passes during the commit; the sweep, on another thread, waits for the end."""
    story = without_tasks()
    service, clock = story.service, story.home.clock
    assert service is not None
    sweeps: list[threading.Thread] = []

    def sweep(point: CommitPoint) -> None:
        if point is CommitPoint.CHECKED:
            clock.set_time_of_day(clock.now_ms() + TIMEOUT_MS)
            sweeps.append(threading.Thread(target=service.tasks.delete_staged_files))
            sweeps[0].start()
            sweeps[0].join(0.2)

    service.staged_commits.on_point = sweep
    story.works = lambda _: service.tasks.commit_ready()
    story.wait()
    sweeps[0].join()

    assert story.outcome == "committed"
    assert story.values() == expected(story.case, is_there=True)


SERVICE: Final = """
import os, sys, time, tidelog
with tidelog.open(sys.argv[1], log_cleaner_enable="false", retention_ms=-1):
    os.write(1, b"ready\\n")
    sys.stdin.read()
"""
WAITER: Final = """
import os, sys
from tidelog.codec.compression import Codec
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.env.machine import brief_machine
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CommitTimeout, CommitUnfinished
data, number = sys.argv[1], int(sys.argv[2])
machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
busy = BusyDirectory(data, machine=machine, timeout_ms=int(sys.argv[3]))
while True:
    os.write(1, b"%d begun\\n" % number)
    try:
        with busy.transaction(str(number), codec=Codec.NONE) as txn:
            for partition in (0, 1):
                txn.append("t", b"%d" % number, partition=partition)
        word = b"committed"
    except CommitTimeout:
        word = b"absent"
    except CommitUnfinished:
        continue
    os.write(1, b"%d %s\\n" % (number, word))
    number += 1
"""
KILLS: Final = scaled(24)


class Processes:
    """A service and a waiting process on a real disk; each is killed and started again."""

    def __init__(self, data: Path, rng: Random) -> None:
        self._data = str(data)
        self._rng = rng
        self._service: subprocess.Popen[bytes] | None = None
        self._waiter: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self.words: dict[int, str] = {}
        """What the waiting process reported last of each transaction."""

    def start_service(self) -> None:
        """Start a service; it is ready some time later, or fails where the directory is in use."""
        self._service = subprocess.Popen(
            [sys.executable, "-c", SERVICE, self._data],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start_waiter(self) -> None:
        """Start a process that repeats the transaction that was cut short, and continues."""
        begun = [number for number, word in self.words.items() if word == "begun"]
        number = begun[0] if begun else len(self.words)
        timeout_ms = self._rng.choice([300, 1500, 20_000])
        words = [sys.executable, "-c", WAITER, self._data, str(number), str(timeout_ms)]
        waiter = subprocess.Popen(words, stdout=subprocess.PIPE)
        self._waiter = waiter
        self._reader = threading.Thread(target=self._read, args=(waiter,))
        self._reader.start()

    def _read(self, waiter: subprocess.Popen[bytes]) -> None:
        assert waiter.stdout is not None
        for line in waiter.stdout:
            if line.endswith(b"\n"):
                number, word = line.split()
                self.words[int(number)] = word.decode()

    def kill_service(self) -> None:
        """Kill the service."""
        if self._service is not None:
            self._service.kill()
            self._service.communicate()

    def kill_waiter(self) -> None:
        """Kill the waiting process; read what it has reported."""
        if self._waiter is not None and self._reader is not None:
            self._waiter.kill()
            self._reader.join()
            self._waiter.communicate()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_processes_that_are_killed_write_each_transaction_once(
    tmp_path: Path, enumerated: Enumerated
) -> None:
    """The waiting one, or the service, at any moment: what was reported is what is there."""
    seed = Random().getrandbits(32)
    rng = Random(seed)
    with tidelog.open(tmp_path, log_cleaner_enable=False) as logs:
        logs.create_topic("t", 2)
    processes = Processes(tmp_path, rng)
    processes.start_service()
    processes.start_waiter()
    pause = threading.Event()
    try:
        for _ in range(KILLS):
            pause.wait(rng.uniform(1, 6))
            if rng.random() < 0.5:
                processes.kill_service()
                pause.wait(rng.choice([0, 0, 3]))
                processes.start_service()
            else:
                processes.kill_waiter()
                processes.start_waiter()
    finally:
        processes.kill_waiter()
        processes.kill_service()
    begun = [number for number, word in processes.words.items() if word == "begun"]
    pause.wait(21)  # until nobody may commit any more
    with tidelog.open(tmp_path, log_cleaner_enable=False, retention_ms=-1) as logs:
        pause.wait(3)
        found = [[int(one.value or b"") for one in logs.read("t", number)] for number in (0, 1)]

    committed = {number for number, word in processes.words.items() if word == "committed"}
    absent = {number for number, word in processes.words.items() if word == "absent"}
    assert len(set(found[0])) == len(found[0]), f"seed {seed}"
    assert found[0] == found[1], f"seed {seed}"
    assert committed <= set(found[0]) <= committed | set(begun), f"seed {seed}"
    assert absent & set(found[0]) == set(), f"seed {seed}"
    enumerated("transactions", len(processes.words), at_least=KILLS // 2)
    enumerated("transactions committed", len(committed), at_least=1)
