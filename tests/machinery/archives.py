"""An archive on a store in memory, for what reads archives by their URIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.archive import open_archives
from tidelog.archive.archived_partitions import ArchivedPartitions
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.store.objects import Objects


def files_with(store: Objects, uri: str) -> FileSystem:
    """Let ``uri`` be the archive on ``store`` in this process; return the files to read it with."""
    open_archives._archives[uri] = ArchivedPartitions(store, uri)  # noqa: SLF001 - as a process has it
    return SYSTEM_FILES
