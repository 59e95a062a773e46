"""A service and short-lived writers leave the same files for the same history."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import Loading
from tests.machinery.scale import scaled

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.env.machine import Machine
from tidelog.env.scheduler import InlineScheduler
from tidelog.log.producers.producer_snapshot import SNAPSHOT_HEADER
from tidelog.manager.log_manager import LogManager
from tidelog.service.log_service import LogService
from tidelog.testing import CrashFileSystem, ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Enumerated

    Operation = Callable[[LogManager], None]
    Session = list[Operation]

PATH = "/data"
RANDOM_ID = re.compile(rb"(?<![\w-])[\w-]{22}(?![\w-])")
SETTINGS = LogConfig(internal_segment_bytes=300, segment_index_bytes=1200, retention_ms=-1)
SEEDS = [
    *range(12),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, scaled(200))),
]
KINDS = ("create", "append", "append", "append", "alter", "delete", "retain", "records")
NOW_MS = 1_700_000_000_000
DELAY_MS = 120_000
"""Longer than ``file.delete.delay.ms``."""


class Computer:
    """One machine with the data directory, on which sessions run one after the other."""

    def __init__(self, loading: Loading) -> None:
        self.loading = loading
        self.clock = ManualClock()
        self.fs = CrashFileSystem(0, clock=self.clock)
        self.rng = Random(0)

    def run(self, session: Session) -> None:
        """Open the directory, do what the session says, and close it."""
        scheduler: Any = InlineScheduler()
        if self.loading is Loading.ALL:
            scheduler = ManualScheduler(self.clock)
        machine = Machine(self.fs, self.clock, scheduler, self.rng, self.clock.advance)
        config = BrokerConfig(log_dirs=(PATH,), log_defaults=SETTINGS, log_cleaner_enable=False)
        manager: LogManager
        if self.loading is Loading.ALL:
            manager = LogService(config, machine)
            manager.startup()
        else:
            manager = LogManager(config, machine)
        for operation in session:
            operation(manager)
        if self.loading is Loading.ALL:
            self.clock.advance(DELAY_MS)
        manager.close()
        if self.loading is Loading.FIRST_USE:
            self.clock.advance(DELAY_MS)

    def files(self) -> dict[str, bytes]:
        """Return every file by path, with the random ids replaced."""
        found: dict[str, bytes] = {}
        for name in sorted(self.fs.list(PATH)):
            path = f"{PATH}/{name}"
            if self.fs.stat(path).is_directory:
                found |= {
                    f"{name}/{file}": self.fs.read(f"{path}/{file}") for file in self.fs.list(path)
                }
            elif name != "meta.properties":
                found[name] = self.fs.read(path)
        found = {name: data for name, data in found.items() if not is_empty_snapshot(name, data)}
        return {name: RANDOM_ID.sub(b"<id>", data) for name, data in found.items()}


def is_empty_snapshot(name: str, data: bytes) -> bool:
    """Whether this is a producer snapshot without a producer: it is as good as none."""
    return name.endswith(".snapshot") and len(data) == SNAPSHOT_HEADER.size


def append(topic: str, partition: int, values: list[bytes], now_ms: int) -> Operation:
    """Return an operation that appends records, a batch each."""

    def act(manager: LogManager) -> None:
        for value in values:
            manager.partition(topic, partition).append_records([(now_ms, b"k", value, ())])

    return act


def create(topic: str, partitions: int, config: dict[str, str]) -> Operation:
    """Return an operation that creates a topic and touches each of its logs."""

    def act(manager: LogManager) -> None:
        manager.create_topic(topic, partitions, config)
        list(manager.partitions(topic))

    return act


def retain(topic: str) -> Operation:
    """Return an operation that deletes the segments of a topic that are over its size."""

    def act(manager: LogManager) -> None:
        manager.alter_topic(topic, {"retention.bytes": "600"})
        for partition in manager.partitions(topic):
            partition.log.delete_old_segments()
        manager.alter_topic(topic, {}, ["retention.bytes"])

    return act


def delete_records(topic: str, number: int) -> Operation:
    """Return an operation that raises the start of a log by some records."""

    def act(manager: LogManager) -> None:
        log = manager.partition(topic, number).log
        log.delete_records(min(log.log_start_offset + 2, log.high_watermark))
        log.delete_segments_below_start()

    return act


def alter(topic: str, settings: dict[str, str]) -> Operation:
    """Return an operation that changes a topic's settings."""

    def act(manager: LogManager) -> None:
        manager.alter_topic(topic, settings)

    return act


def delete(topic: str) -> Operation:
    """Return an operation that deletes a topic."""
    return lambda manager: manager.delete_topic(topic)


def load_all(manager: LogManager) -> None:
    """Load every log."""
    for topic in manager.topics():
        list(manager.partitions(topic))


def without_what_loading_drops(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return all files but producer snapshots and leader epochs."""
    dropped = (".snapshot", "leader-epoch-checkpoint")
    return {name: data for name, data in files.items() if not name.endswith(dropped)}


def history(seed: int) -> list[Session]:
    """Return sessions of operations, chosen by a seed; each topic is used after it was created."""
    rng = Random(seed)
    topics: dict[str, int] = {}
    sessions: list[Session] = []
    for _ in range(rng.randint(2, 5)):
        session: Session = []
        for _ in range(rng.randint(1, 6)):
            kind = rng.choice(
                ("create", "append", "append", "append", "alter", "delete", "retain", "records")
            )
            if kind == "create" or not topics:
                name, count = f"t{len(topics)}-{rng.randrange(1000)}", rng.randint(1, 3)
                topics[name] = count
                codec = rng.choice(("producer", "zstd", "lz4"))
                session.append(create(name, count, {"compression.type": codec}))
                continue
            name = rng.choice(sorted(topics))
            number = rng.randrange(topics[name])
            if kind == "append":
                values = [
                    bytes([rng.randrange(256)]) * rng.randint(1, 90)
                    for _ in range(rng.randint(1, 9))
                ]
                session.append(
                    append(name, number, values, 1_700_000_000_000 + rng.randrange(10**6))
                )
            elif kind == "alter":
                session.append(alter(name, {"flush.messages": str(rng.randint(1, 9))}))
            elif kind == "retain":
                session.append(retain(name))
            elif kind == "records":
                session.append(delete_records(name, number))
            elif len(topics) > 1:
                del topics[name]
                session.append(delete(name))
        sessions.append(session)
    return [*sessions, [load_all]]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_service_and_short_lived_writers_leave_the_same_files(
    seed: int, enumerated: Enumerated
) -> None:
    """Byte for byte, after every session; only random ids differ.

    Loading a log drops superfluous producer snapshots, and leader epochs that begin at its end; a
    service does that at each start. So these are compared once all logs have been loaded.
    """
    service, brief = Computer(Loading.ALL), Computer(Loading.FIRST_USE)
    sessions = history(seed)
    compared = 0
    for session in sessions:
        service.run(session)
        brief.run(session)
        expected = service.files()
        assert without_what_loading_drops(brief.files()) == without_what_loading_drops(expected)
        compared += len(expected)

    assert brief.files() == service.files()
    enumerated("files of generated histories", compared, at_least=5 * len(sessions))


@pytest.mark.parametrize("seed", SEEDS)
def test_they_take_turns(seed: int) -> None:
    """What one kind leaves, the other continues, with the same result."""
    service, mixed = Computer(Loading.ALL), Computer(Loading.ALL)
    rng = Random(seed)
    for session in history(seed):
        service.run(session)
        mixed.loading = rng.choice((Loading.ALL, Loading.FIRST_USE))
        mixed.run(session)

    assert mixed.files() == service.files()
