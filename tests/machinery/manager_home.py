"""A log manager on a fake disk, with a clock that tests control."""

from __future__ import annotations

from copy import copy, deepcopy
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.env.machine import Machine
from tidelog.manager.log_manager import LogManager
from tidelog.service.log_service import LogService
from tidelog.testing.crash_files import CrashFileSystem
from tidelog.testing.manual_time import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK: Final = ".kafka_cleanshutdown"
MAX_AGE_MS: Final = 600_000
TOPIC_SETTINGS: Final[dict[str, Any]] = {
    "internal_segment_bytes": 1024,
    "segment_index_bytes": 4096,
    "retention_ms": MAX_AGE_MS,
}


class Loading(Enum):
    """When logs are loaded: the two kinds of managers, for tests of what both do."""

    ALL = "all"
    """By a service, at its start."""
    FIRST_USE = "first use"
    """By a short-lived writer."""


class ManagerHome:
    """One or more data directories on a fake machine.

    ``topic_settings`` are fields of ``LogConfig``; the defaults are small segments and a retention
    of ten minutes.
    """

    def __init__(
        self,
        *paths: str,
        seed: int = 0,
        **topic_settings: Any,  # noqa: ANN401 - LogConfig checks them
    ) -> None:
        self.paths = paths or ("/data",)
        self.clock = ManualClock()
        self.fs = CrashFileSystem(seed, clock=self.clock)
        self.rng = Random(seed)
        self.scheduler = ManualScheduler(self.clock)
        self.defaults = LogConfig(**{**TOPIC_SETTINGS, **topic_settings})
        self.halts = 0

    def config(self, **settings: Any) -> BrokerConfig:  # noqa: ANN401 - BrokerConfig checks them
        """Return the broker settings; the cleaner is off unless enabled."""
        options = {"log_cleaner_enable": False, "log_defaults": self.defaults, **settings}
        return BrokerConfig(log_dirs=self.paths, **options)

    def machine(self) -> Machine:
        """Return the clock, disk and scheduler of this machine."""
        return Machine(self.fs, self.clock, self.scheduler, self.rng, self.clock.advance)

    def make(self, *, how: Mapping[str, Any] | None = None, **settings: Any) -> LogService:  # noqa: ANN401 - as config
        """Lock the directories; ``how`` as for LogService."""
        return LogService(
            self.config(**settings), self.machine(), on_halt=self._halt, **(how or {})
        )

    def open_as(self, loading: Loading, **settings: Any) -> LogManager:  # noqa: ANN401 - as config
        """Open a manager of either kind; a service with its logs loaded."""
        if loading is Loading.ALL:
            return self.open(**settings)
        return LogManager(self.config(**settings), self.machine())

    def open(self, *, how: Mapping[str, Any] | None = None, **settings: Any) -> LogService:  # noqa: ANN401 - as config
        """Lock the directories, load the logs and start the tasks."""
        manager = self.make(how=how, **settings)
        manager.startup()
        return manager

    def restart(self) -> None:
        """End the process: its files close, its tasks never run; the disk keeps everything."""
        self.fs.kill()
        self._forget_tasks()

    def power_cut(self) -> None:
        """End the process and lose some unsynced changes, chosen by the seed."""
        self.fs.power_cut()
        self._forget_tasks()

    def _forget_tasks(self) -> None:
        # The clock keeps running: files must not become younger.
        self.scheduler.forget()

    def copied(self, seed: int) -> ManagerHome:
        """Return a machine of its own with the same disk and time, as after a restart."""
        other = copy(self)
        other.clock = ManualClock(self.clock.now_ms())
        other.fs = self.fs.copied(seed, clock=other.clock)
        other.rng = deepcopy(self.rng)
        other.scheduler = ManualScheduler(other.clock)
        return other

    def files(self, path: str = "/data") -> list[str]:
        """Return the names in a directory."""
        return sorted(self.fs.list(path))

    def is_marked(self, path: str = "/data") -> bool:
        """Return whether a directory has the mark of a clean shutdown."""
        return self.fs.exists(f"{path}/{MARK}")

    def lines(self, name: str, path: str = "/data") -> list[str]:
        """Return the entries of a checkpoint file."""
        return sorted(self.fs.read(f"{path}/{name}").decode().splitlines()[2:])

    def _halt(self) -> None:
        self.halts += 1


def as_service(manager: LogManager) -> LogService:
    """Return a manager that is known to be a service."""
    if not isinstance(manager, LogService):
        raise TypeError(f"a service is expected, not {type(manager).__name__}")
    return manager


def fill(
    manager: LogManager, topic: str, partition: int, count: int, key: bytes | None = b"k"
) -> None:
    """Append ``count`` records, each in its own batch, with the current time."""
    target = manager.partition(topic, partition)
    for number in range(count):
        now_ms = manager.machine.clock.now_ms()
        target.append_records([(now_ms, key, b"value %d" % number, ())])


def values(manager: LogManager, topic: str, partition: int) -> list[bytes | None]:
    """Return the values of all records that readers see."""
    return [record.value for record in manager.partition(topic, partition).log.records()]


def delete_log(home: ManagerHome, path: str) -> None:
    """Delete the directory of a partition with its files."""
    for name in home.fs.list(path):
        home.fs.delete(f"{path}/{name}")
    home.fs.delete_directory(path)


def copy_log(home: ManagerHome, source: str, target: str) -> None:
    """Copy the directory of a partition."""
    home.fs.make_directory(target)
    for name in home.fs.list(source):
        home.fs.write(f"{target}/{name}", home.fs.read(f"{source}/{name}"))


def home_with_two_logs_of_a_partition() -> ManagerHome:
    """Return directories /a and /b that both hold t-0, without a catalogue to say which counts.

    That of /b was t-1.
    """
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
    home.fs.rename("/b/t-1", "/b/t-0")
    for path in home.paths:
        home.fs.delete(f"{path}/tidelog.topics.json")
    return home
