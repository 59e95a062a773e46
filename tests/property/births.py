"""Histories of a topic: who created it and how, and the processes that opened it later.

What each process brings is read as the product reads it: keywords of ``tidelog.open``, options,
variables and the file of ``tidelog run``. A file ``server.properties`` in the data directory is
read by nobody.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from argparse import Namespace
from dataclasses import dataclass, replace
from errno import ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.machinery.manager_home import ManagerHome

from tidelog.arrow.writing.staged_commit import StagedWrite
from tidelog.arrow.writing.staged_rows import PlannedTopic
from tidelog.cli.serving.service_settings import given_settings, service_config
from tidelog.codec.compression import Codec
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of
from tidelog.config.sources import VARIABLE_PREFIX, broker_config, from_keywords
from tidelog.datadir.birth import birth_values
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.cluster_metadata.bootstrap import BOOTSTRAP_FILE
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.commits import commit_when_possible
from tidelog.embedded.logs import Logs
from tidelog.errors import CommitUnfinished, InvalidArgument
from tidelog.mailbox.answer import Answer
from tidelog.manager.directories.log_dirs import LogDirs
from tidelog.manager.from_kafka import take_over
from tidelog.manager.log_manager import LogManager
from tidelog.manager.mirror import Mirror
from tidelog.manager.to_kafka import plan_hand_over, write_hand_over
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.service.log_service import LogService
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.service.requests.request import Request
from tidelog.spark.jobs.repartition_plan import config_of_copy
from tidelog.spark.options.source_options import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.staging.commit import Transaction as Staged

    Left = dict[str, list[tuple[int, bytes | None]]]

PATH, COPY = "/data", "/copy"
CATALOGUE: Final = f"{PATH}/{CATALOGUE_FILE}"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
GAPS_MS: Final = (2 * HOUR_MS, 2 * HOUR_MS, 8 * DAY_MS)
"""Times between processes; Kafka's default retention is over in the last one."""
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
WAYS = ("keywords", "options", "variables", "server.properties", "defaults")
OLDER, ADOPTED = "an older release", "kafka"
NO_SETTINGS_OF_ITS_OWN = ("command", "manifest", "spark", "spark beside a service", ADOPTED, OLDER)
CREATED = (
    *("open", "command", "request", "transaction", "journal", "manifest", "spark"),
    *("spark beside a service", "repartition", OLDER, ADOPTED),
)
PROCESSES = ("service", "program", "command", "requests")
NO_TERMS: Final[Mapping[str, Any]] = {"settings": {}, "now_ms": None, "server_properties": None}
ACTS = ("retain", "compact", "append", "append", "alter", "unset", "wait")


class Brought(NamedTuple):
    """What a process brings: settings by their topic-level names, and by which way."""

    way: str
    given: Mapping[str, str]

    def config(self, home: ManagerHome, *, has_cleaner: bool = False) -> BrokerConfig:
        """Return the settings of such a process; segments are small and compaction is prompt."""
        if self.way == "keywords":
            keywords = {name.replace(".", "_"): text for name, text in self.given.items()}
            config = broker_config(from_keywords(keywords), home.paths)
        else:
            config = self._of_run(home)
        small: dict[str, Any] = {"internal_segment_bytes": 400, "segment_index_bytes": 1200}
        defaults = replace(config.log_defaults, min_cleanable_dirty_ratio=0.0, **small)
        return replace(config, log_defaults=defaults, log_cleaner_enable=has_cleaner)

    def _of_run(self, home: ManagerHome) -> BrokerConfig:
        """Return the settings of ``tidelog run``."""
        given = {SYNONYMS[name]: text for name, text in self.given.items()}
        options, variables, file = [], {}, None
        if self.way == "options":
            options = list(given.items())
        if self.way == "variables":
            variables = {VARIABLE_PREFIX + k.upper().replace(".", "_"): v for k, v in given.items()}
        folder = Path(tempfile.mkdtemp())
        if self.way == "server.properties":
            file = folder / "server.properties"
            file.write_text("".join(f"{name}={text}\n" for name, text in given.items()), "utf-8")
        args = Namespace(
            config=None if file is None else str(file),
            server_properties=None,
            options=options,
            directories=list(home.paths),
            words=[],
        )
        try:
            with pytest.MonkeyPatch.context() as patched:
                for name, value in variables.items():
                    patched.setenv(name, value)
                return service_config(args, given_settings(args))
        finally:
            shutil.rmtree(folder)


class Session(NamedTuple):
    """A process that opens the directory: what it is and brings, what it does, how it ends."""

    kind: str
    gap_ms: int
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
    handed_over_before: int
    """The session before which Kafka has had the directory; -1: none."""
    is_mirrored: bool

    @property
    def born(self) -> dict[str, str]:
        """What the creator keeps."""
        return birth_values(self.creator.config(ManagerHome(PATH)).log_defaults)


def drawn_settings(rng: Random, names: Sequence[str]) -> dict[str, str]:
    """Draw values for some settings."""
    chosen = rng.sample(names, rng.randint(0, len(names)))
    return {name: rng.choice(VALUES[name]) for name in chosen}


def drawn_brought(rng: Random, created: str) -> Brought:
    """Draw what a process brings; of older topics only the retention is known, unless in a file."""
    way = rng.choice(WAYS)
    names = ["retention.ms"] if created == OLDER else list(VALUES)
    is_empty = way == "defaults" or (created == OLDER and way == "server.properties")
    return Brought(way, {} if is_empty else drawn_settings(rng, names))


def drawn_acts(rng: Random) -> list[tuple[str, Any]]:
    """Draw what a process does."""
    acts: list[tuple[str, Any]] = []
    for _ in range(rng.randint(1, 4)):
        act = rng.choice(ACTS)
        detail: Any = rng.randint(1, 8)
        if act == "alter":
            detail = drawn_settings(rng, ["retention.ms", "retention.bytes"])
        acts.append((act, detail))
    return acts


def drawn(seed: int, rng: Random) -> History:
    """Draw a history."""
    created = CREATED[seed % len(CREATED)]
    creator = drawn_brought(rng, created)
    if created in NO_SETTINGS_OF_ITS_OWN:
        creator = Brought("defaults", {})
    sessions = [
        Session(
            rng.choice(PROCESSES),
            rng.choice(GAPS_MS),
            drawn_brought(rng, created),
            drawn_acts(rng),
            rng.random() < 0.3,
        )
        for _ in range(rng.randint(1, 3))
    ]
    own = drawn_settings(rng, ["cleanup.policy", "retention.ms"]) if rng.random() < 0.4 else {}
    handed_over = rng.randrange(len(sessions)) if rng.random() < 0.3 else -1
    return History(
        created,
        creator,
        drawn_brought(rng, created),
        {} if created == ADOPTED else own,
        sessions,
        # What Kafka would delete of its own topics is unknown: it is not handed over like this.
        -1 if created == ADOPTED else handed_over,
        rng.random() < 0.4,
    )


class World:
    """One machine on which a history happens."""

    def __init__(self, history: History, *, as_creator: bool) -> None:
        self.history = history
        self.home = ManagerHome(PATH)
        self.home.clock.set_time_of_day(1_700_000_000_000)
        self.home.fs.make_directory(PATH)
        self.home.fs.write(f"{PATH}/server.properties", b"log.retention.ms=1\n")
        self._as_creator = as_creator
        self._appended = 0
        self._asked = 0
        self.may_go = False
        """Whether the settings ever allowed that a record goes."""

    def brought(self, brought: Brought) -> Brought:
        """Return what a process brings in this run."""
        return self.history.creator if self._as_creator else brought

    # Processes

    def service(self, brought: Brought) -> LogService:
        """Start a service, with its cleaner."""
        manager = LogService(brought.config(self.home, has_cleaner=True), self.home.machine())
        manager.startup()
        return manager

    def short(self, brought: Brought, *paths: str) -> LogManager:
        """Open the directory, or others, as a command does."""
        config = brought.config(self.home)
        config = replace(config, log_dirs=paths) if paths else config
        return LogManager(config, self.home.machine())

    def end(self, manager: LogManager) -> None:
        """Stop a service."""
        manager.close()
        self.home.scheduler.forget()

    def ask(self, command: str, *, is_refused: bool = False, **arguments: object) -> None:
        """Ask the running service by a request, as a command does."""
        self._asked += 1
        path = f"{PATH}/tidelog.{self._asked:032x}.request"
        request = Request(command, arguments, self.home.clock.now_ms() + 15_000)
        self.home.fs.write(path, request.encoded())
        self.home.clock.advance(2_000)
        answer = Answer.parsed(json.loads(self.home.fs.read(f"{path}-answered")))
        assert (answer.exit_code != 0) == is_refused, answer
        self.home.fs.delete(f"{path}-answered")

    # What happens

    def run(self) -> Left:
        """Let all of it happen; return what is left."""
        getattr(self, f"created_by_{self.history.created.replace(' ', '_')}")()
        with self.short(self.history.creator) as manager:
            self.append(manager, 12)
        for number, session in enumerate(self.history.sessions):
            if number == self.history.handed_over_before:
                self.hand_over()
            self.home.clock.advance(session.gap_ms)
            self.session(session)
        if self.history.is_mirrored:
            self.mirror()
        paths = (PATH, COPY) if self.history.is_mirrored else (PATH,)
        return {path: self.left(path) for path in paths}

    # Creations

    def created_by_open(self) -> None:
        """A program creates the topic."""
        manager = self.service(self.history.creator)
        manager.create_topic("t", config=self.history.own)
        self.end(manager)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``tidelog create``, or of a program with settings of its own."""
        settings = dict(self.history.own)
        return {"topic": "t", "partitions": 1, "settings": settings, "birth": self.history.born}

    def created_by_command(self) -> None:
        """``tidelog create`` does, where no service runs."""
        with self.short(self.history.creator) as manager:
            carry_out(Home(manager, self.home.machine(), PATH), "create", self.arguments())

    def created_by_request(self) -> None:
        """A service with settings of its own creates it for another process."""
        manager = self.service(self.brought(self.history.other))
        self.ask("create", **self.arguments())
        self.end(manager)

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
        manager = self.service(self.brought(self.history.other))
        assert "t" in manager.topics(), "the journal was to be finished"
        self.end(manager)

    def created_by_manifest(self) -> None:
        """A transaction into a busy directory does, which the service that holds it commits."""
        manager = self.service(self.brought(self.history.other))
        txn = BusyDirectory(PATH, machine=self.home.machine()).transaction("x", codec=Codec.NONE)
        txn.create_topic("t", config=self.history.own)
        txn.commit()
        self.end(manager)

    def staged(self, settings: Mapping[str, str], **birth: Any) -> Staged:
        """Return what a write of Spark's commits, with options ``config.*``."""
        topic_config = {f"config.{name}": text for name, text in settings.items()}
        options = SinkOptions.parse({"path": PATH, "topic": "t", "txnId": "x", **topic_config})
        planned = {"t": PlannedTopic(1, None, is_new=True)}
        return StagedWrite(options, "x", None, (), planned, **birth).transaction({})

    def created_by_spark(self) -> None:
        """A write of Spark's does, which a process with other settings commits."""
        write = self.staged(self.history.own)
        with self.short(self.brought(self.history.other)) as manager:
            manager.staged_commits.commit(PATH, write)

    def created_by_spark_beside_a_service(self) -> None:
        """The service that holds the directory commits what Spark wrote."""
        manager = self.service(self.brought(self.history.other))
        write = self.staged(self.history.own)
        commit_when_possible([PATH], PATH, write, machine=self.home.machine())
        self.end(manager)

    def created_by_repartition(self) -> None:
        """It gets what its source topic has, whichever process repartitions and commits."""
        with self.short(self.history.creator) as manager:
            manager.create_topic("s", config=self.history.own)
        source = open_directory_read_only(PATH, fs=self.home.fs).topics["s"]
        birth = source.settings_of_copy().birth
        write = self.staged(config_of_copy(source, {}, 1), birth=birth)
        with self.short(self.brought(self.history.other)) as manager:
            manager.staged_commits.commit(PATH, write)
            manager.delete_topic("s")

    def created_by_an_older_release(self) -> None:
        """A release does that stored no birth values."""
        self.created_by_command()
        content = json.loads(self.home.fs.read(CATALOGUE))
        for entry in content["topics"]:
            del entry["birth"]
        self.home.fs.write(CATALOGUE, json.dumps({**content, "version": 1}).encode())

    def created_by_kafka(self) -> None:
        """A broker does, and the release that adopted it wrote the second form of the catalogue."""
        self.created_by_command()
        self.home.fs.delete(CATALOGUE)
        with self.short(self.history.creator):
            pass
        with self.short(self.history.creator) as manager:
            manager.alter_topic("t", {"segment.jitter.ms": "0"})
        assert json.loads(self.home.fs.read(CATALOGUE))["version"] == 2

    # Later processes

    def session(self, session: Session) -> None:
        """Let a process open the directory and act."""
        brought = self.brought(session.brought)
        is_short = session.kind == "command"
        manager = self.short(brought) if is_short else self.service(brought)
        way = "ask_to_" if session.kind == "requests" else ""
        for act, detail in session.acts:
            self.note(manager)
            acting = getattr(self, f"{way}{act}", None) or getattr(self, act)
            acting(manager, detail)
        self.note(manager)
        if session.kind == "service":
            self.home.clock.advance(BACKGROUND_MS)
        if session.is_killed:
            self.home.restart()
        else:
            self.end(manager)

    def note(self, manager: LogManager) -> None:
        """Note whether what the creator brought and the topic's own allow that a record goes."""
        if self.history.created == ADOPTED:
            return
        decides = {**self.history.born, **manager.topic("t").config}
        limits = decides["retention.ms"], decides["retention.bytes"]
        policy = decides["cleanup.policy"]
        self.may_go |= "compact" in policy or ("delete" in policy and limits != ("-1", "-1"))

    def append(self, manager: LogManager, count: int) -> None:
        """Append in an open process."""
        partition = manager.partition("t", 0)
        for _ in range(count):
            self._appended += 1
            key, value = b"k%d" % (self._appended % 3), b"value %d" % self._appended
            partition.append_records([(self.home.clock.now_ms(), key, value, ())])
            self.home.clock.advance(1_000)

    def retain(self, manager: LogManager, _detail: object) -> None:
        """Retain on demand, which is refused where it is not known what may be deleted."""
        if manager.config_of("t").is_policy_known:
            manager.on_demand.retain("t")
        else:
            with pytest.raises(InvalidArgument, match=r"cleanup\.policy of t is unknown"):
                manager.on_demand.retain("t")

    def compact(self, manager: LogManager, _detail: object) -> None:
        """Compact on demand."""
        if manager.config_of("t").is_compacted:
            manager.on_demand.compact("t")

    def alter(self, manager: LogManager, settings: Mapping[str, str]) -> None:
        """Set settings of the topic's own."""
        manager.alter_topic("t", settings)

    def unset(self, manager: LogManager, _detail: object) -> None:
        """Drop all settings of the topic's own: those of its birth return."""
        manager.alter_topic("t", {}, list(manager.topic("t").config))

    def wait(self, _manager: LogManager, tenths: int) -> None:
        """Let time pass."""
        self.home.clock.advance(tenths * 6_000)

    def ask_to_retain(self, manager: LogManager, _detail: object) -> None:
        """A command asks the service to retain."""
        is_refused = not manager.config_of("t").is_policy_known
        named: Any = {"partitions": {"t": [0]}, "are_named": True, **NO_TERMS}
        self.ask("retain", is_refused=is_refused, **named)

    def ask_to_compact(self, manager: LogManager, _detail: object) -> None:
        """A command asks it to compact."""
        if manager.config_of("t").is_compacted:
            self.ask("compact", partitions={"t": [0]}, **NO_TERMS)

    def ask_to_alter(self, _manager: LogManager, settings: Mapping[str, str]) -> None:
        """A command asks it to change settings."""
        self.ask("alter", topic="t", settings=settings, unset=[], follow=[])

    def ask_to_unset(self, manager: LogManager, _detail: object) -> None:
        """A command asks it to drop them."""
        self.ask("alter", topic="t", settings={}, unset=list(manager.topic("t").config), follow=[])

    def hand_over(self) -> None:
        """A broker of Kafka gets the directory, and gives it back."""
        with self.short(Brought("defaults", {})) as manager:
            write_hand_over(manager, plan_hand_over(manager))
        directory = f"{PATH}/__cluster_metadata-0"
        self.home.fs.make_directory(directory)
        known = self.home.fs.read(f"{PATH}/{BOOTSTRAP_FILE}")
        self.home.fs.write(f"{directory}/{0:020d}-{0:010d}.checkpoint", known)
        how: Any = {"fs": self.home.fs, "rng": self.home.rng}
        dirs = LogDirs([PATH], clock=self.home.clock, has_all_logs=False, **how)
        try:
            take_over(dirs, **how)
        finally:
            dirs.release_all()

    def mirror(self) -> None:
        """Mirror the directory by one process, and let another act on the mirror."""
        source = open_directory_read_only(PATH, fs=self.home.fs)
        with self.short(self.brought(self.history.other), COPY) as manager:
            Mirror(source, manager, COPY).run(["t"])
        with self.short(self.brought(self.history.sessions[0].brought), COPY) as manager:
            self.home.clock.advance(8 * DAY_MS)
            self.compact(manager, None)
            self.retain(manager, None)
            self.note(manager)

    # What is left

    def left(self, path: str) -> list[tuple[int, bytes | None]]:
        """Return offsets and values of the records that are left."""
        with open_directory_read_only(path, fs=self.home.fs).open("t", 0) as log:
            return [(one.offset, one.value) for one in log.records(end_offset=log.log_end_offset)]

    @property
    def appended(self) -> list[tuple[int, bytes | None]]:
        """All that was appended."""
        return [(number, b"value %d" % (number + 1)) for number in range(self._appended)]
