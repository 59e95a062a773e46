"""A data source ``stopped``: ``tidelog``, whose commits and tasks can be stopped at a moment.

Options say where: ``stopAt`` is the name of a ``CommitPoint``, ``task``, ``random`` (in a commit)
or ``random task``; how: ``stopBy`` is ``raise``, ``kill`` (the process), ``driver`` (its JVM) or
``full`` (the disk, from there on); and once: ``stopFile`` is created by the first stop, after which
there are no more. ``stopSeed`` selects a random moment.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.arrow.writing import staged_commit
from tidelog.env.system_files import SystemFile
from tidelog.spark.source import LogSource
from tidelog.spark.write.batch_writer import LogWriter
from tidelog.spark.write.stream_writer import LogStreamWriter
from tidelog.staging.directory import CommitPoint

if TYPE_CHECKING:
    from collections.abc import Iterator

POINTS = [point.name for point in CommitPoint]
OPTIONS = ("stopAt", "stopBy", "stopFile", "stopSeed")


class Stop:
    """When and how to stop."""

    def __init__(self, options: dict[str, str]) -> None:
        self.at = options.get("stopAt", "")
        self.by = options.get("stopBy", "raise")
        self.file = options.get("stopFile", "")
        self.seed = int(options.get("stopSeed", "0"))

    def stop(self) -> None:
        """Stop, if that has not been done before."""
        try:
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if self.by == "raise":
            raise RuntimeError(f"stopped at {self.at}")
        if self.by == "full":
            setattr(SystemFile, "pwrite", _full)  # noqa: B010 - a worker has no monkeypatch
            return
        if self.by == "driver":
            os.kill(jvm_of(os.getpid()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def in_commit(self) -> Iterator[None]:
        """Stop within a commit."""

        def reached(point: object) -> None:
            if getattr(point, "name", "") == self.at:
                self.stop()

        before = staged_commit.reached
        setattr(staged_commit, "reached", reached)  # noqa: B010 - a worker has no monkeypatch
        if self.at == "random":
            self.stop_later()
        try:
            yield
        finally:
            setattr(staged_commit, "reached", before)  # noqa: B010 - as above
            setattr(SystemFile, "pwrite", _pwrite)  # noqa: B010 - as above

    def in_task(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """Stop within a task: at its first batch, or at any moment until shortly after its end."""
        if self.at == "random task":
            self.stop_later()
        if self.at != "task":
            return iterator
        first = next(iterator)
        self.stop()
        return chain([first], iterator)

    def stop_later(self) -> None:
        """Stop in up to 60 ms, on another thread, while the work continues.

        Later seeds wait less, and then as long again: a fast machine is done after a few ms.
        """
        wait_s = random.Random(self.seed).random() * 0.06 / (1 + self.seed // 8 % 8)
        timer = threading.Timer(wait_s, self.stop)
        timer.daemon = True
        timer.start()


_pwrite = SystemFile.pwrite


def _full(file: SystemFile, data: Any, position: int) -> None:
    if file.path.endswith(".log"):
        raise OSError(errno.ENOSPC, "no space left on device", file.path)
    _pwrite(file, data, position)


def jvm_of(pid: int) -> int:
    """Return the Java process that a process descends from."""
    while Path(f"/proc/{pid}/comm").read_text("utf-8").strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    return pid


class StoppedWriter(LogWriter):
    """A batch writer that is stopped."""

    stop: Stop

    def write(self, iterator: Any) -> Any:
        return super().write(self.stop.in_task(iterator))

    def commit(self, messages: Any) -> None:
        with self.stop.in_commit():
            super().commit(messages)


class StoppedStreamWriter(LogStreamWriter):
    """A stream writer that is stopped."""

    stop: Stop

    def write(self, iterator: Any) -> Any:
        return super().write(self.stop.in_task(iterator))

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        with self.stop.in_commit():
            super().commit(messages, batchId)


class StoppedSource(LogSource):
    """The data source; its reader is that of ``tidelog``."""

    @classmethod
    def name(cls) -> str:
        return "stopped"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        stop = self._take_stop()
        writer = super().writer(schema, overwrite)
        writer.__class__ = StoppedWriter
        writer.stop = stop  # type: ignore[attr-defined]  # of its new class
        return writer

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        stop = self._take_stop()
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = StoppedStreamWriter
        writer.stop = stop  # type: ignore[attr-defined]  # of its new class
        return writer

    def _take_stop(self) -> Stop:
        return Stop({name: self.options.pop(name) for name in OPTIONS if name in self.options})
