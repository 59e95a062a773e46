"""Runs of the code, each operation of which is followed in the model of the protocol.

A run has waiters, a service that comes and goes and Kafka, each a process of its own. A seed
chooses their order, who is killed where, and when the power fails.
"""

from __future__ import annotations

import json
import posixpath
from contextlib import suppress
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Final, cast

from tests.machinery.model.conformance import Conformance, Disallowed, Seen
from tests.machinery.model.directory import Directory
from tests.machinery.model.exactly_once import ExactlyOnce
from tests.machinery.model.staged_state import FOREIGN, KAFKA, SERVICE
from tests.model.abstraction import TOPIC, WATERMARKS, Abstraction, value_of
from tests.model.processes import MachineClock, Processes, ProcessFiles

from tidelog.codec.checkpoint_file import write_checkpoint
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.datadir.lock_file import LOCK_FILE
from tidelog.datadir.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    CleanShutdown,
    write_clean_shutdown,
)
from tidelog.embedded.commits import commit_when_possible
from tidelog.env.machine import Machine
from tidelog.env.renamed_files import delete_if_there
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import (
    CommitTimeout,
    CommitUnfinished,
    DirectoryLocked,
    OutcomeUnknown,
    RequestNotTaken,
    TidelogError,
)
from tidelog.log.log import Log
from tidelog.mailbox.wait import Desk
from tidelog.manager.log_manager import LogManager
from tidelog.records.builder import build_batch
from tidelog.service.log_service import LogService
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.service.requests.request_client import Asker, here_or_there
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction
from tidelog.staging.finished import FINISHED_FILE
from tidelog.staging.journal_names import is_journal_name
from tidelog.staging.staged_file import is_staged_name
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing.crash_files import CrashFileSystem
from tidelog.testing.manual_time import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.machinery.model.staged_state import Scenario
    from tests.model.processes import Process

    from tidelog.env.files import FileSystem
    from tidelog.testing.disk import Kept
    from tidelog.testing.faults import Operation

DATA_DIR: Final = "/data"
CLEAN_SHUTDOWN: Final = f"{DATA_DIR}/{CLEAN_SHUTDOWN_FILE}"
TIMEOUT_MS: Final = 3_000
PAUSES_MS: Final = (200, 1_000, 2_800, 3_000, 6_000)
FAULTS_WITHIN: Final = 400
"""Faults happen before this operation of the run, unless it is known to be a short one."""
ALWAYS: Final = 1_000_000
"""More faults than any run has."""


class Mutation(Enum):
    """What the code does in another way than it should, as if its authors had forgotten it."""

    CLAIM_NOT_RENAMED = "the holder commits without renaming the manifest"
    CLAIM_NOT_SYNCED = "the directory is not synced before the journal is written"
    REQUEST_NOT_SYNCED = "the claim of a request is not synced before it is carried out"
    STAGED_NOT_SYNCED = "staged files are not synced"
    JOURNAL_NOT_SYNCED = "the directory is not synced after the journal is written"
    RECORDS_NOT_SYNCED = "logs are not synced"
    ANSWERED_EARLY = "the transaction is in the table of finished ones before its records are there"
    JOURNAL_DELETED_EARLY = "the journal is deleted before the transaction is known as finished"
    WITHDRAWAL_NOT_SYNCED = "a waiter reports its withdrawal without a sync of the directory"


UNSYNCED: Final = {
    Mutation.WITHDRAWAL_NOT_SYNCED: ("delete", ".ready"),
    Mutation.REQUEST_NOT_SYNCED: ("rename", ".request"),
}
"""The operation that a mutation leaves without its sync: its name, and how its file's ends."""


class Run:
    """One run, by its seed. ``kills`` and ``cuts``: how many it has at most."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        *,
        kills: int = 1,
        cuts: int = 1,
        mutation: Mutation | None = None,
        faults_within: int = FAULTS_WITHIN,
    ) -> None:
        self.mutation = mutation
        self.rng = Random(seed)
        self.scenario = scenario
        self.clock = MachineClock()
        self.fs = CrashFileSystem(seed, clock=self.clock)
        self.processes = Processes(self.rng, self.clock)
        self.disk = Abstraction(self.fs, scenario)
        self.topic_id = self._prepare()
        self.conformance = self._follow()
        self.error: Disallowed | None = None
        self.changes = 0
        self.outcomes: dict[int, str] = {}
        self.faults: list[str] = []
        self._changes: tuple[int, int | None] = len(self.fs.operations), None
        self._faults = [
            (self.rng.randrange(faults_within), fault)
            for fault, most in ((self._kill_one, kills), (self.cut, cuts))
            for _ in range(self.rng.randint(0, most))
        ]
        self._faults.sort(key=lambda one: one[0])
        self._begun: set[int] = set()
        self._log: list[str] = []

    # The machine

    def _prepare(self) -> UUID:
        """Create the topic and its logs."""
        scheduler = ManualScheduler(self.clock)
        machine = Machine(self.fs, self.clock, scheduler, Random(0), self.clock.advance)
        with LogService(self._config(), machine) as manager:
            manager.startup()
            manager.create_topic(TOPIC, len(self.scenario.partitions))
            topic_id = manager.topic(TOPIC).topic_id
        self.fs.power_cut("all")
        return topic_id

    def _config(self) -> BrokerConfig:
        defaults = LogConfig(segment_index_bytes=1200, retention_ms=-1)
        return BrokerConfig(log_dirs=(DATA_DIR,), log_cleaner_enable=False, log_defaults=defaults)

    def _follow(self) -> Conformance:
        many = self.scenario._replace(kills=ALWAYS, cuts=ALWAYS)
        seen = self.disk.seen(None)
        first = ExactlyOnce(many).first()
        first = first._replace(disk=Directory(seen.names, seen.durable), logs=seen.logs)
        return Conformance(many, first)

    # The processes

    def waiter(self, number: int) -> Callable[[Process], None]:
        """Return the process of an attempt."""

        def work(process: Process) -> None:
            files = cast("FileSystem", ProcessFiles(self.fs, process, self))
            rng = Random(f"{self.fs.seed} {number}")
            machine = Machine(files, self.clock, InlineScheduler(), rng, process.sleep)
            transaction = self._stage(number, files, rng)
            outcome = "over"
            try:
                commit_when_possible(
                    [DATA_DIR], DATA_DIR, transaction, timeout_ms=TIMEOUT_MS, machine=machine
                )
                outcome = "reported committed"
            except CommitTimeout:
                outcome = "reported withdrawn"
            except CommitUnfinished:
                pass
            except DirectoryLocked:
                raise
            except TidelogError:
                outcome = "reported refused"
            self._note(number, outcome)

        return work

    def asker(self, number: int) -> Callable[[Process], None]:
        """Return the process of an attempt that is a request, to create a topic of its name."""
        arguments = {
            "topic": self.scenario.attempts[number].id,
            "partitions": 1,
            "settings": {},
            "birth": {},
        }

        def work(process: Process) -> None:
            files = cast("FileSystem", ProcessFiles(self.fs, process, self))
            rng = Random(f"{self.fs.seed} {number}")
            machine = Machine(files, self.clock, InlineScheduler(), rng, process.sleep)
            desk = Desk(files, self.clock, rng, process.sleep)
            asker = Asker(desk, holder_of=lambda _: self._holder_id(), on_left=_ignore)

            def here() -> object:
                with LogManager(self._config(), machine) as manager:
                    return carry_out(Home(manager, machine, DATA_DIR), "create", arguments)

            try:
                here_or_there(asker, DATA_DIR, here, "create", arguments)
                outcome = "reported committed"
            except RequestNotTaken:
                outcome = "reported withdrawn"
            except OutcomeUnknown:
                outcome = "over"
            self._note(number, outcome)

        return work

    def _note(self, number: int, outcome: str) -> None:
        self.outcomes[number] = outcome
        self._check(lambda: self.conformance.reported(number, outcome), f"{number}: {outcome}")

    def _stage(self, number: int, files: FileSystem, rng: Random) -> Transaction:
        attempt = self.scenario.attempts[number]
        stream = StreamBatch(attempt.txn, attempt.batch) if attempt.batch else None
        txn = attempt.txn if stream is None else stream.txn
        bundle = BundleWriter(LocalFolder(files, DATA_DIR), txn, rng=rng)
        for partition, data in self._batches(number):
            bundle.append(TOPIC, partition, data)
        runs = tuple(bundle.finish())
        return Transaction(txn, attempt.is_named, runs, (), {TOPIC: self.topic_id}, stream)

    def _batches(self, number: int) -> list[tuple[int, bytes]]:
        """Return the batches of an attempt with their partitions, in order."""
        attempt = self.scenario.attempts[number]
        return [
            (partition, build_batch([(-1, None, value_of(attempt.id, batch), ())]))
            for partition, size in enumerate(attempt.sizes)
            for batch in range(size)
        ]

    def service(self, process: Process) -> None:
        """Run a service for a while, if the directory is free."""
        files = cast("FileSystem", ProcessFiles(self.fs, process, self))
        scheduler = ManualScheduler(self.clock)
        rng = Random(f"{self.fs.seed} service {self.processes.steps}")
        machine = Machine(files, self.clock, scheduler, rng, process.sleep)
        with suppress(DirectoryLocked):
            manager = LogService(self._config(), machine)
            manager.startup()
            for _ in range(self.rng.randint(1, 8)):
                self._work(scheduler)
                if self.rng.random() < 0.3:
                    manager.tasks.delete_staged_files()
                process.sleep(self.rng.randint(200, 1500))
            manager.shutdown()

    def kafka(self, process: Process) -> None:
        """Be Kafka for a while: it appends, and knows nothing of journals and manifests."""
        files = cast("FileSystem", ProcessFiles(self.fs, process, self))
        try:
            lock = files.lock(f"{DATA_DIR}/{LOCK_FILE}")
        except DirectoryLocked:
            return
        # As Kafka does before it opens a log: the next process has to recover what is not flushed.
        delete_if_there(files, CLEAN_SHUTDOWN)
        logs = [self._opened(files, number) for number in self.scenario.partitions]
        for _ in range(self.rng.randint(0, self._foreign_left)):
            value = value_of("kafka", self._foreign_left)
            self.rng.choice(logs).append_as_leader(build_batch([(-1, None, value, ())]))
        process.sleep(self.rng.choice(PAUSES_MS))
        for log in logs:
            log.flush()
        ends = {(TOPIC, number): log.log_end_offset for number, log in enumerate(logs)}
        write_checkpoint(files, f"{DATA_DIR}/{WATERMARKS}", ends)
        write_clean_shutdown(files, CLEAN_SHUTDOWN, CleanShutdown())
        lock.release()

    def _opened(self, files: FileSystem, number: int) -> Log:
        return Log.open(
            f"{DATA_DIR}/{TOPIC}-{number}",
            fs=files,
            clock=self.clock,
            scheduler=InlineScheduler(),
            rng=Random(0),
            config=self._config().log_defaults,
            clean_shutdown=False,
        )

    @property
    def _foreign_left(self) -> int:
        """How many batches Kafka has still to append."""
        return next(iter(self.conformance.states)).left[FOREIGN]

    def _has_kafka(self) -> bool:
        """Whether a Kafka runs, which may leave nothing to append for another one."""
        return any(one.name == KAFKA for one in self.processes.running)

    def _work(self, scheduler: ManualScheduler) -> None:
        while (task := scheduler.first()) is not None and task.due_ms <= self.clock.elapsed_ms():
            scheduler.run(task)

    # The run

    def run(self) -> None:
        """Run all processes to their ends; raise Disallowed if the model forbids something."""
        services = 0
        while self.error is None:
            self._begin()
            if not self.processes.running and len(self.outcomes) == len(self.scenario.attempts):
                break
            if services < 3 and self.rng.random() < 0.02:
                services += 1
                self.processes.start(SERVICE, self.service)
            if self._foreign_left and self.rng.random() < 0.02 and not self._has_kafka():
                self.processes.start(KAFKA, self.kafka)
            self._disturb()
            if self.processes.running:
                self.processes.run_next()
            else:
                self.clock.advance(100)
        for process in list(self.processes.running):
            self.processes.kill(process)
        if self.error is not None:
            raise self.error

    def _begin(self) -> None:
        """Start the attempts whose turn it is."""
        for number, attempt in enumerate(self.scenario.attempts):
            if number in self._begun:
                continue
            if (attempt.after is None or attempt.after in self.outcomes) and (
                self.rng.random() < 0.2
            ):
                self.start(number)

    def start(self, number: int) -> Process:
        """Start the process of an attempt."""
        self._begun.add(number)
        work = self.asker if self.scenario.attempts[number].is_request else self.waiter
        return self.processes.start(number, work(number))

    def _disturb(self) -> None:
        """Let time pass, or let the next fault happen if it is time for it."""
        if self.rng.random() < 0.02:
            self.clock.advance(self.rng.choice(PAUSES_MS))
        if self._faults and self._faults[0][0] <= self.processes.steps:
            self._faults.pop(0)[1]()

    def _kill_one(self) -> None:
        if self.processes.running:
            self.kill(self.rng.choice(self.processes.running))

    def kill(self, process: Process) -> None:
        """End a process where it is."""
        self.faults.append(f"kill {process.name}")
        self.processes.kill(process)
        if process.name >= 0:
            self.outcomes.setdefault(process.name, "over")
        self._check(
            lambda: self.conformance.killed(process.name, self.seen()), f"kill {process.name}"
        )

    def cut(self, kept: Kept | None = None) -> None:
        """Let the power fail; ``kept`` as ``CrashFileSystem.power_cut``."""
        self.faults.append("cut")
        ended = [one.name for one in self.processes.running if one.name >= 0]
        for process in list(self.processes.running):
            self.processes.kill(process)
        self.outcomes |= dict.fromkeys(ended, "over")
        self.fs.power_cut(kept)
        self._check(lambda: self.conformance.cut(ended, self.seen()), "power cut")

    def notice(self, process: Process) -> None:
        """Compare the disk with the model, after an operation of a process."""
        changes = len(self.fs.operations), self._holder()
        if changes != self._changes:
            self._changes = changes
            self._note_staged(process)
            operation = f"{process.name} {self._last}"
            self._check(lambda: self.conformance.changed(process.name, self.seen()), operation)

    def is_left_out(self, process: Process, operation: str, *paths: str) -> bool:
        """Return whether the mutation leaves an operation out; it may do another one first."""
        path, target, names = paths[0], paths[-1], self.fs.list(DATA_DIR)
        is_sync, has_lock = operation == "sync_directory" and path == DATA_DIR, bool(process.locks)
        has_journal = any(map(is_journal_name, names))
        match self.mutation:
            case Mutation.CLAIM_NOT_RENAMED:
                return operation == "rename" and target.endswith(".claimed")
            case Mutation.CLAIM_NOT_SYNCED:
                return is_sync and has_lock and not has_journal
            case Mutation.STAGED_NOT_SYNCED:
                return operation == "sync" and path.endswith(".staged")
            case Mutation.JOURNAL_NOT_SYNCED:
                return is_sync and has_lock and self._last.path.endswith(".intent.tmp")
            case Mutation.RECORDS_NOT_SYNCED:
                return operation == "sync" and path.endswith(".log")
            case Mutation.WITHDRAWAL_NOT_SYNCED | Mutation.REQUEST_NOT_SYNCED:
                return is_sync and self._has_just(*UNSYNCED[self.mutation])
            case Mutation.ANSWERED_EARLY if operation == "rename" and target.endswith(".intent"):
                self.fs.write(f"{DATA_DIR}/{FINISHED_FILE}", self._finished())
            case Mutation.JOURNAL_DELETED_EARLY if target.endswith(f"/{FINISHED_FILE}"):
                for name in filter(is_journal_name, names):
                    self.fs.delete(f"{DATA_DIR}/{name}")
        return False

    def _has_just(self, operation: str, suffix: str) -> bool:
        return self._last.name == operation and self._last.path.endswith(suffix)

    @property
    def _last(self) -> Operation:
        return self.fs.operations[-1]

    def _finished(self) -> bytes:
        """Return a table of finished transactions that has all attempts."""
        attempts = self.scenario.attempts
        ids = [{"txn": one.txn, "named": True, "timeMs": 0, "records": {}} for one in attempts]
        return json.dumps({"version": 1, "transactions": ids}).encode()

    def _holder(self) -> int | None:
        """Return the process that holds the lock of the directory."""
        holder = self._holding()
        return None if holder is None else holder.name

    def _holder_id(self) -> int | None:
        """Return a number that no other process has than the one that holds the directory."""
        holder = self._holding()
        return None if holder is None else id(holder)

    def _holding(self) -> Process | None:
        lock = self.disk.lock()
        return next((one for one in self.processes.running if lock in one.locks), None)

    def _note_staged(self, process: Process) -> None:
        """Take note of a staged file whose bytes have become complete."""
        name = posixpath.basename(self._last.path)
        if process.name >= 0 and is_staged_name(name) and name not in self.disk.staged:
            data = b"".join(data for _, data in self._batches(process.name))
            if self.fs.exists(f"{DATA_DIR}/{name}") and self.fs.read(f"{DATA_DIR}/{name}") == data:
                self.disk.staged[name] = process.name, data

    def seen(self) -> Seen:
        """Return what is to be seen of the disk and the lock."""
        return self.disk.seen(self._holder())

    def _check(self, check: Callable[[], None], what: str) -> None:
        if self.error is not None:
            return
        self.changes += 1
        self._log.append(what)
        try:
            check()
        except Disallowed as error:
            log = "\n".join(self._log[-40:])
            self.error = Disallowed(f"{error}\nafter:\n{log}\nseed {self.fs.seed}")
            for process in self.processes.running:
                process.is_dead = True


def _ignore() -> None:
    pass
