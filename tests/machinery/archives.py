"""Archives for what reads them: on a store in memory, and logs that begin in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidelog
from tidelog.archive import open_archives
from tidelog.archive.archived_partitions import ArchivedPartitions
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.service.log_service import LogService

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.env.files import FileSystem
    from tidelog.store.objects import Objects


def files_with(store: Objects, uri: str) -> FileSystem:
    """Let ``uri`` be the archive on ``store`` in this process; return the files to read it with."""
    open_archives._archives[uri] = ArchivedPartitions(store, uri)  # noqa: SLF001 - as a process has it
    return SYSTEM_FILES


def give_up_locally(data: Path, uri: str) -> None:
    """Archive the closed segments of a directory's logs, then delete them from the disk.

    Of topics with ``remote.storage.enable=true``, by their local limits, as ``tidelog run`` does.
    """
    with tidelog.open(data, config={"tidelog.archive.uri": uri}) as logs:
        assert isinstance(logs.manager, LogService)
        tasks = logs.manager.tasks
        assert tasks.archiving is not None
        tasks.archiving.run()
        tasks.cleanup_logs()
