"""A log on a fake disk, with a clock that tests control."""

from __future__ import annotations

from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any, Self

from tidelog.config.log_config import LogConfig
from tidelog.log.log import Log
from tidelog.records.isolation import Isolation
from tidelog.testing.crash_files import CrashFileSystem
from tidelog.testing.manual_time import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer
    from tidelog.records.record import Record
    from tidelog.testing.disk import Kept


class LogHome:
    """The directory of one log on a fake machine.

    ``settings`` are fields of ``LogConfig``. ``failures`` lists what ``on_failure`` received.
    """

    data_directory = "/data"
    directory = "/data/flights-0"

    def __init__(self, seed: int = 0, **settings: Any) -> None:  # noqa: ANN401 - LogConfig checks them
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.fs = CrashFileSystem(seed, clock=self.clock)
        self.config = LogConfig(**settings)
        self.failures: list[OSError] = []
        self.fs.make_directory(self.directory)
        self.fs.sync_directory(self.data_directory)
        self.fs.sync_directory("/")

    def open(self, *, clean: bool = True, **how: Any) -> Log:  # noqa: ANN401 - Log.open checks them
        """Open the log as after a clean shutdown, or not; ``how`` as for ``Log.open``."""
        return Log.open(
            self.directory,
            clock=self.clock,
            scheduler=self.scheduler,
            rng=Random(0),
            clean_shutdown=clean,
            on_failure=lambda _directory, error: self.failures.append(error),
            **{"fs": self.fs, "config": self.config, **how},
        )

    def restart(self) -> None:
        """End the process: its files close, its tasks never run; the disk keeps everything."""
        self.fs.kill()
        self._forget_tasks()

    def power_cut(self, kept: Kept | None = None) -> None:
        """End the process and lose some unsynced changes; see ``CrashFileSystem.power_cut``."""
        self.fs.power_cut(kept)
        self._forget_tasks()

    def _forget_tasks(self) -> None:
        self.clock = ManualClock(self.clock.now_ms())
        self.scheduler = ManualScheduler(self.clock)

    def copied(self, seed: int) -> Self:
        """Return a machine of its own with the same disk and time, as after a restart."""
        other = copy(self)
        other.clock = ManualClock(self.clock.now_ms())
        other.scheduler = ManualScheduler(other.clock)
        other.fs = self.fs.copied(seed, clock=other.clock)
        other.failures = []
        return other

    def files(self, suffix: str = "") -> list[str]:
        """Return the names of the files in the log's directory that end in ``suffix``."""
        return sorted(name for name in self.fs.list(self.directory) if name.endswith(suffix))

    def read(self, name: str) -> bytes:
        """Return the bytes of a file in the log's directory."""
        return self.fs.read(f"{self.directory}/{name}")

    def write(self, name: str, data: Buffer) -> None:
        """Replace a file in the log's directory."""
        self.fs.write(f"{self.directory}/{name}", data)


def all_records(log: Log, isolation: Isolation = Isolation.LOG_END) -> list[Record]:
    """Return all records that a reader at ``isolation`` sees."""
    return list(log.records(isolation=isolation))


def all_values(
    log: Log, isolation: Isolation = Isolation.LOG_END
) -> list[tuple[int, bytes | None]]:
    """Return offset and value of all records that a reader at ``isolation`` sees."""
    return [(record.offset, record.value) for record in all_records(log, isolation)]
