"""A data directory on a fake disk, with a clock that tests control."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.embedded.logs import Logs
from tidelog.env.machine import Machine
from tidelog.env.scheduler import InlineScheduler
from tidelog.manager.log_manager import LogManager
from tidelog.readonly.read_only_log import open_read_only
from tidelog.staging.journal_names import JOURNAL_SUFFIX
from tidelog.staging.staged_file import is_staged_name
from tidelog.testing.crash_files import CrashFileSystem
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.readonly.read_only_log import ReadOnlyLog

MARK: Final = ".kafka_cleanshutdown"
SMALL_INDEXES: Final = LogConfig(segment_index_bytes=1200)
"""Settings that keep the memory of a log below a megabyte."""


class DataHome:
    """One data directory on a fake machine.

    ``open`` accepts further arguments of ``LogManager``, such as ``overrides``.
    """

    path = "/data"

    def __init__(self, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.fs = CrashFileSystem(seed, clock=self.clock)
        self._rng = Random(seed)
        self._copies = 0

    def copied(self, seed: int) -> DataHome:
        """Return a machine of its own with the same disk and time, as after a restart.

        Random names differ from those of this machine, and are the same for every ``seed``.
        """
        copy = DataHome(seed)
        copy.clock = ManualClock(self.clock.now_ms())
        copy.fs = self.fs.copied(seed, clock=copy.clock)
        copy._copies = self._copies + 1
        copy._rng = Random(f"copy {copy._copies}")
        return copy

    def open(
        self,
        *,
        defaults: LogConfig = SMALL_INDEXES,
        rng: Random | None = None,
        paths: Sequence[str] = (path,),
        **how: Any,  # noqa: ANN401 - LogManager checks them
    ) -> Logs:
        """Open the directory as a short-lived writer does; logs are loaded on first use.

        ``paths`` are the data directories if there are several.
        """
        machine = Machine(
            self.fs, self.clock, InlineScheduler(), rng or self._rng, self.clock.advance
        )
        config = BrokerConfig(log_dirs=tuple(paths), log_defaults=defaults)
        return Logs(LogManager(config, machine, **how))

    def read_only(self, name: str) -> ReadOnlyLog:
        """Open the partition directory ``name`` read-only."""
        return open_read_only(f"{self.path}/{name}", fs=self.fs)

    def values(self, name: str) -> list[bytes | None]:
        """Return the values of all records of a partition, read with a read-only log."""
        with self.read_only(name) as log:
            return [record.value for record in log.records()]

    def files(self, name: str = "") -> list[str]:
        """Return the names in the data directory, or in its directory ``name``."""
        return sorted(self.fs.list(f"{self.path}/{name}"))

    def own_files(self) -> list[str]:
        """Name the staged files and journals."""
        return [n for n in self.files() if is_staged_name(n) or n.endswith(JOURNAL_SUFFIX)]

    def text(self, name: str) -> str:
        """Return the content of a file of the data directory."""
        return self.fs.read(f"{self.path}/{name}").decode()

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file in the data directory durably; its directory is created if missing."""
        path = f"{self.path}/{name}"
        directory = path.rpartition("/")[0]
        self.fs.make_directory(directory)
        self.fs.write(path, content.encode() if isinstance(content, str) else content)
        file = self.fs.open(path, "w")
        file.sync()
        file.close()
        while directory:
            self.fs.sync_directory(directory)
            directory = directory.rpartition("/")[0]
        self.fs.sync_directory("/")

    @property
    def is_marked(self) -> bool:
        """Whether the directory has the mark of a clean shutdown."""
        return self.fs.exists(f"{self.path}/{MARK}")

    def mark(self, broker_epoch: int = 7) -> None:
        """Mark the directory as cleanly shut down."""
        self.write(MARK, f'{{"version":0,"brokerEpoch":{broker_epoch}}}')


def record(value: bytes, key: bytes | None = None) -> tuple[int, bytes | None, bytes, list[Any]]:
    """Return a record for ``append_records``, without timestamp or headers."""
    return (-1, key, value, [])


def append(directory: Logs, *values: bytes, partition: int = 0) -> None:
    """Append values to topic t, one batch each."""
    for value in values:
        directory.partition("t", partition).append_records([record(value)])


def home_with_topic(*values: bytes, partitions: int = 2) -> DataHome:
    """Return a cleanly closed directory with topic t, and these values in t-0."""
    home = DataHome()
    with home.open() as directory:
        directory.create_topic("t", partitions)
        append(directory, *values)
    return home
