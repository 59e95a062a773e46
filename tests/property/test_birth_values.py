"""Nothing is deleted or compacted that the creator of a topic keeps, by any later process.

A history is run twice: once every process brings the settings that were drawn for it, once all
bring those of the process that created the topic. What is left must be the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from errno import ENOSPC
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tidelog.codec.compression import Codec
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of
from tidelog.config.sources import broker_config, from_keywords
from tidelog.datadir.birth import birth_values
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.logs import Logs
from tidelog.errors import CommitUnfinished
from tidelog.manager.log_manager import Loading, LogManager
from tidelog.manager.mirror import Mirror
from tidelog.manager.requests.carry_out import Home, carry_out
from tidelog.manager.requests.request_files import Answer, Request
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.spark.options.source_options import WriteOptions
from tidelog.spark.write.staged_commit import StagedWrite
from tidelog.spark.write.staged_rows import PlannedTopic
from tidelog.testing.manager_home import ManagerHome
from tidelog.testing.scale import scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.conftest import Enumerated

    from tidelog.config.broker_config import BrokerConfig

    Left = dict[str, list[tuple[int, bytes | None]]]

PATH, COPY = "/data", "/copy"
REQUEST = f"{PATH}/tidelog.{'0' * 31}1.request"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BACKGROUND_MS = 60_000
"""Retention and the cleaner have run by themselves after that."""
FOREVER = str((1 << 63) - 1)
VALUES: Final[Mapping[str, Sequence[str]]] = {
    "cleanup.policy": ("delete", "compact", "compact,delete", ""),
    "retention.ms": ("-1", "1", "60000", str(HOUR_MS)),
    "retention.bytes": ("-1", "1", "900"),
    "delete.retention.ms": ("0", str(DAY_MS)),
    "min.compaction.lag.ms": ("0", str(HOUR_MS)),
    "max.compaction.lag.ms": (str(2 * HOUR_MS), FOREVER),
    "segment.ms": ("1000", str(7 * DAY_MS)),
}
SYNONYMS = {known.name: known.synonyms[0].name for known in options_of(LogConfig) if known.synonyms}
BRINGS = ("keywords", "options", "server.properties", "defaults")
CREATED = ("open", "command", "request", "transaction", "journal", "manifest", "spark")
PROCESSES = ("service", "program", "command")
ACTS = ("retain", "compact", "append", "append", "alter", "unset", "wait")


class Brought(NamedTuple):
    """What a process brings: settings by their topic-level names, and by which way."""

    way: str
    given: Mapping[str, str]

    def config(self, home: ManagerHome, *, has_cleaner: bool = False) -> BrokerConfig:
        """Return the settings of such a process; segments are small and compaction is prompt."""
        at_broker_level = {SYNONYMS[name]: text for name, text in self.given.items()}
        if self.way == "keywords":
            keywords = {name.replace(".", "_"): text for name, text in self.given.items()}
            config = broker_config(from_keywords(keywords), home.paths)
        elif self.way == "server.properties":
            config = broker_config(at_broker_level, home.paths, LogConfig.of_kafka())
            config = replace(config, is_retention_in_file="retention.ms" in self.given)
        else:
            config = broker_config(at_broker_level, home.paths)
        small: dict[str, Any] = {"internal_segment_bytes": 400, "segment_index_bytes": 1200}
        defaults = replace(config.log_defaults, min_cleanable_dirty_ratio=0.0, **small)
        return replace(config, log_defaults=defaults, log_cleaner_enable=has_cleaner)


class Session(NamedTuple):
    """A process that opens the directory: what it is and brings, what it does, how it ends."""

    kind: str
    brought: Brought
    acts: Sequence[tuple[str, Any]]
    is_killed: bool


@dataclass(frozen=True)
class History:
    """A topic's creation, and the processes after it."""

    created: str
    creator: Brought
    other: Brought
    """What the service or the committer brings that creates the topic for the creator."""
    own: Mapping[str, str]
    sessions: Sequence[Session]
    is_mirrored: bool


def drawn_settings(rng: Random, names: Sequence[str]) -> dict[str, str]:
    """Draw values for some settings."""
    chosen = rng.sample(names, rng.randint(0, len(names)))
    return {name: rng.choice(VALUES[name]) for name in chosen}


def drawn_brought(rng: Random) -> Brought:
    """Draw what a process brings."""
    way = rng.choice(BRINGS)
    return Brought(way, {} if way == "defaults" else drawn_settings(rng, list(VALUES)))


def drawn(seed: int) -> History:
    """Draw a history."""
    rng = Random(seed)
    created = CREATED[seed % len(CREATED)]
    creator = drawn_brought(rng)
    if created in {"command", "manifest", "spark"}:  # these bring no settings of their own
        creator = Brought("defaults", {})
    sessions = []
    for _ in range(rng.randint(1, 3)):
        acts: list[tuple[str, Any]] = []
        for _ in range(rng.randint(1, 4)):
            act = rng.choice(ACTS)
            detail: Any = rng.randint(1, 8)
            if act == "alter":
                detail = drawn_settings(rng, ["retention.ms", "retention.bytes"])
            acts.append((act, detail))
        kind = rng.choice(PROCESSES)
        sessions.append(Session(kind, drawn_brought(rng), acts, rng.random() < 0.3))
    own = drawn_settings(rng, ["cleanup.policy", "retention.ms"]) if rng.random() < 0.4 else {}
    return History(created, creator, drawn_brought(rng), own, sessions, rng.random() < 0.4)


class World:
    """One machine on which a history happens."""

    def __init__(self, history: History, *, as_creator: bool) -> None:
        self.history = history
        self.home = ManagerHome(PATH)
        self.home.clock.set_time_of_day(1_700_000_000_000)
        self._as_creator = as_creator
        self._appended = 0
        self.may_go = False
        """Whether the settings ever allowed that a record goes."""

    def brought(self, brought: Brought) -> Brought:
        """Return what a process brings in this run."""
        return self.history.creator if self._as_creator else brought

    # Processes

    def service(self, brought: Brought, home: ManagerHome | None = None) -> LogManager:
        """Start a service, with its cleaner."""
        home = home or self.home
        manager = LogManager(brought.config(home, has_cleaner=True), home.machine())
        manager.startup()
        return manager

    def short(self, brought: Brought, *paths: str) -> LogManager:
        """Open the directory, or others, as a command does."""
        config = brought.config(self.home)
        config = replace(config, log_dirs=paths) if paths else config
        return LogManager(config, self.home.machine(), loading=Loading.FIRST_USE)

    # What happens

    def run(self) -> Left:
        """Let all of it happen; return what is left."""
        getattr(self, f"created_by_{self.history.created}")()
        with self.short(self.history.creator) as manager:
            self.act_append(manager, 12)
        for session in self.history.sessions:
            self.home.clock.advance(2 * HOUR_MS)
            self.session(session)
        if self.history.is_mirrored:
            self.mirror()
        paths = (PATH, COPY) if self.history.is_mirrored else (PATH,)
        return {path: self.left(path) for path in paths}

    def created_by_open(self) -> None:
        """A program creates the topic."""
        with self.service(self.history.creator) as manager:
            manager.create_topic("t", config=self.history.own)
        self.home.scheduler.forget()

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``tidelog create``."""
        settings, birth = dict(self.history.own), birth_values(LogConfig())
        if self.history.created == "request":  # some program, with settings of its own
            birth = birth_values(self.history.creator.config(self.home).log_defaults)
        return {"topic": "t", "partitions": 1, "settings": settings, "birth": birth}

    def created_by_command(self) -> None:
        """``tidelog create`` does, where no service runs."""
        with self.short(self.history.creator) as manager:
            carry_out(Home(manager, self.home.machine(), PATH), "create", self.arguments())

    def created_by_request(self) -> None:
        """A service with settings of its own creates it for another process."""
        manager = self.service(self.brought(self.history.other))
        request = Request("create", self.arguments(), self.home.clock.now_ms() + 15_000)
        self.home.fs.write(REQUEST, request.encoded())
        self.home.clock.advance(2_000)
        answer = Answer.decoded(self.home.fs.read(f"{REQUEST}-answered"))
        assert answer.exit_code == 0, answer
        manager.close()
        self.home.scheduler.forget()

    def created_by_transaction(self) -> None:
        """A transaction does, which its own process commits."""
        with Logs(self.short(self.history.creator)) as logs, logs.transaction("x") as txn:
            txn.create_topic("t", config=self.history.own)

    def created_by_journal(self) -> None:
        """A transaction does, which a process with other settings finishes after a full disk."""
        logs = Logs(self.short(self.history.creator))
        txn = logs.transaction("x")
        txn.create_topic("t", config=self.history.own)
        self.home.fs.fail("rename", CATALOGUE_FILE, OSError(ENOSPC, "no space"))
        with pytest.raises(CommitUnfinished):
            txn.commit()
        self.home.restart()
        with self.service(self.brought(self.history.other)) as manager:
            assert "t" in manager.topics(), "the journal was to be finished"
        self.home.scheduler.forget()

    def created_by_manifest(self) -> None:
        """A transaction into a busy directory does, which the service that holds it commits."""
        manager = self.service(self.brought(self.history.other))
        txn = BusyDirectory(PATH, self.home.machine()).transaction("x", codec=Codec.NONE)
        txn.create_topic("t", config=self.history.own)
        txn.commit()
        manager.close()
        self.home.scheduler.forget()

    def created_by_spark(self) -> None:
        """A write of Spark's does, which a process with other settings commits."""
        topic_config = {f"config.{name}": text for name, text in self.history.own.items()}
        options = WriteOptions.parse({"path": PATH, "topic": "t", "txnId": "x", **topic_config})
        planned = {"t": PlannedTopic(1, None, is_new=True)}
        transaction = StagedWrite(options, "x", None, (), planned).transaction({})
        with self.short(self.brought(self.history.other)) as manager:
            manager.commit_transaction(PATH, transaction)

    def session(self, session: Session) -> None:
        """Let a process open the directory and act."""
        brought = self.brought(session.brought)
        is_short = session.kind == "command"
        manager = self.short(brought) if is_short else self.service(brought)
        for act, detail in session.acts:
            self.note(manager)
            getattr(self, f"act_{act}")(manager, detail)
        self.note(manager)
        if session.kind == "service":
            self.home.clock.advance(BACKGROUND_MS)
        if session.is_killed:
            self.home.restart()
        else:
            manager.close()
            self.home.scheduler.forget()

    def note(self, manager: LogManager) -> None:
        """Note whether what the creator brought and the topic's own allow that a record goes."""
        born = birth_values(self.history.creator.config(self.home).log_defaults)
        decides = {**born, **manager.topic("t").config}
        limits = decides["retention.ms"], decides["retention.bytes"]
        policy = decides["cleanup.policy"]
        self.may_go |= "compact" in policy or ("delete" in policy and limits != ("-1", "-1"))

    def act_append(self, manager: LogManager, count: int) -> None:
        """Append in an open process."""
        partition = manager.partition("t", 0)
        for _ in range(count):
            self._appended += 1
            key, value = b"k%d" % (self._appended % 3), b"value %d" % self._appended
            partition.append_records([(self.home.clock.now_ms(), key, value, ())])
            self.home.clock.advance(1_000)

    def act_retain(self, manager: LogManager, _detail: object) -> None:
        """Retain on demand."""
        manager.retain("t")

    def act_compact(self, manager: LogManager, _detail: object) -> None:
        """Compact on demand."""
        if manager.config_of("t").is_compacted:
            manager.compact("t")

    def act_alter(self, manager: LogManager, settings: Mapping[str, str]) -> None:
        """Set settings of the topic's own."""
        manager.alter_topic("t", settings)

    def act_unset(self, manager: LogManager, _detail: object) -> None:
        """Drop all settings of the topic's own: those of its birth return."""
        manager.alter_topic("t", {}, list(manager.topic("t").config))

    def act_wait(self, _manager: LogManager, tenths: int) -> None:
        """Let time pass."""
        self.home.clock.advance(tenths * 6_000)

    def mirror(self) -> None:
        """Mirror the directory by one process, and let another act on the mirror."""
        source = open_directory_read_only(PATH, fs=self.home.fs)
        with self.short(self.brought(self.history.other), COPY) as manager:
            Mirror(source, manager, COPY).run()
        with self.short(self.brought(self.history.sessions[0].brought), COPY) as manager:
            self.home.clock.advance(2 * HOUR_MS)
            self.act_compact(manager, None)
            manager.retain("t")
            self.note(manager)

    def left(self, path: str) -> list[tuple[int, bytes | None]]:
        """Return offsets and values of the records that are left."""
        with open_directory_read_only(path, fs=self.home.fs).open("t", 0) as log:
            return [(one.offset, one.value) for one in log.records(end_offset=log.log_end_offset)]

    @property
    def appended(self) -> list[tuple[int, bytes | None]]:
        """All that was appended."""
        return [(number, b"value %d" % (number + 1)) for number in range(self._appended)]


def check(seeds: Iterable[int]) -> Counter[str]:
    """Run histories twice each; return how many of them there were of each kind."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        history = drawn(seed)
        world = World(history, as_creator=False)
        left = world.run()
        assert left == World(history, as_creator=True).run(), (seed, history)
        if not world.may_go:
            assert left[PATH] == world.appended, (seed, history)
            seen["in which nothing may go"] += 1
        seen["in which records went"] += left[PATH] != world.appended
        seen[f"created by {history.created}"] += 1
        seen["with a mirror"] += history.is_mirrored
    return seen


@pytest.mark.parametrize("created", CREATED)
def test_what_a_creator_keeps_is_kept_by_all_that_open_it_later(created: str) -> None:
    """However the topic was created; a sample."""
    first = CREATED.index(created)

    assert check([first, first + len(CREATED)])[f"created by {created}"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("created", CREATED)
def test_what_a_creator_keeps_is_kept_in_many_histories(
    created: str, enumerated: Enumerated
) -> None:
    """The whole."""
    first = CREATED.index(created) + 2 * len(CREATED)
    seen = check(range(first, scaled(1200), len(CREATED)))

    for what, count in sorted(seen.items()):
        enumerated(f"histories {what}", count, at_least=25)
