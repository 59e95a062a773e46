"""Archives for what reads them: on a store in memory, and logs that begin in one."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID

import tidelog
from tidelog.archive import coarse_index, open_archives, segment_object
from tidelog.archive.archived_partitions import ArchivedPartitions
from tidelog.archive.copier import ClosedSegment
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.service.log_service import LogService
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest

    from tidelog.env.files import FileSystem
    from tidelog.store.objects import Objects


TOPIC = UUID(int=7)
TIERED = {
    "internal.segment.bytes": "500",
    "local.retention.ms": "0",
    "remote.storage.enable": "true",
}
"""Settings of a topic whose closed segments, which are small, are in the archive alone."""


@dataclass
class LogOfFiles:
    """A log whose newest segment is active, by its files."""

    path: Path
    first: int = 0
    topic: str = "t"
    partition: int = 0
    topic_id: UUID = TOPIC
    config: Mapping[str, str] = field(default_factory=dict)
    is_tiered: bool = False

    @property
    def data_dir(self) -> str:
        """The data directory."""
        return str(self.path)

    @property
    def directory(self) -> str:
        """The directory of the log."""
        return str(self.path / "t-0")

    @property
    def log_start_offset(self) -> int:
        """The first offset."""
        return self.first

    @property
    def local_start_offset(self) -> int:
        """Where the first segment begins."""
        return min(int(path.stem) for path in (self.path / "t-0").glob("*.log"))

    @property
    def log_end_offset(self) -> int:
        """Where the last segment ends."""
        with tidelog.open_read_only(self.directory) as log:
            return log.log_end_offset

    def closed_segments(self) -> Sequence[ClosedSegment]:
        """Return all segments but the last."""
        bases = sorted(int(path.stem) for path in (self.path / "t-0").glob("*.log"))
        return [ClosedSegment(base, end) for base, end in pairwise(bases)]


def shorten_coarse_indexes(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    """Let coarse indexes have an entry for each ``size_bytes``: so those of small segments do."""
    for module in (coarse_index, segment_object):
        monkeypatch.setattr(module, "COARSE_BYTES", size_bytes)


def files_with(store: Objects, uri: str) -> FileSystem:
    """Let ``uri`` be the archive on ``store`` in this process; return the files to read it with."""
    open_archives._archives[uri] = ArchivedPartitions(store, uri)  # noqa: SLF001 - as a process has it
    return SYSTEM_FILES


def give_up_locally(data: Path, uri: str) -> None:
    """Archive the closed segments of a directory's logs, then delete them from the disk.

    Of topics with ``remote.storage.enable=true``, by their local limits, as ``tidelog run`` does.
    """
    # On a clock that stands still nothing runs by itself: a pass in the background could have a log
    # that this one then leaves out.
    clock = ManualClock(SYSTEM_CLOCK.now_ms())
    with tidelog.open(data, config={"tidelog.archive.uri": uri}, clock=clock) as logs:
        assert isinstance(logs.manager, LogService)
        tasks = logs.manager.tasks
        assert tasks.archiving is not None
        tasks.archiving.run()
        tasks.cleanup_logs()
