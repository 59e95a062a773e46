"""Where the copies that moves make lie, without a listing of the data directories for each move."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.datadir.partition_directories import find_copies

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.segment.filenames import TopicPartition


class KnownCopies:
    """The copies of partitions that earlier processes have left, and those that this one creates.

    The directories are locked, so no other process adds any: each is listed once, when a copy in it
    is first looked for. Whether a copy is still there is looked up each time. The caller holds the
    registry's ``change_lock``. Methods that look raise KafkaStorageError.
    """

    def __init__(self, fs: FileSystem, log_dirs: LogDirs) -> None:
        self._fs = fs
        self._log_dirs = log_dirs
        self._listed: dict[str, dict[TopicPartition, list[str]]] = {}
        """The paths of copies by the data directory, once it is listed, and by partition."""

    def note(self, key: TopicPartition, path: str) -> None:
        """Take note of a copy that is about to be created."""
        listed = self._listed.get(os.path.dirname(path))
        if listed is not None:  # what is not listed yet will have it
            listed.setdefault(key, []).append(path)

    def of(self, key: TopicPartition) -> list[tuple[LogDir, str]]:
        """Return the copies of a partition that are there, with their directories.

        Those in directories that are offline are left out.
        """
        return [(one, path) for one in self._log_dirs for path in self.within(one, key)]

    def within(self, log_dir: LogDir, key: TopicPartition) -> list[str]:
        """Return the paths of the copies of a partition that are there in one data directory."""
        with self._log_dirs.failing(log_dir.path, f"looking for copies of {key}"):
            listed = self._listed.get(log_dir.path)
            if listed is None:
                listed = self._listed[log_dir.path] = self._list(log_dir)
            there = [path for path in listed.get(key, ()) if self._is_there(path)]
        if there:
            listed[key] = list(there)
        else:
            listed.pop(key, None)
        return there

    def _is_there(self, path: str) -> bool:
        return self._fs.exists(path) or self._fs.is_link(path)

    def _list(self, log_dir: LogDir) -> dict[TopicPartition, list[str]]:
        found: dict[TopicPartition, list[str]] = {}
        for key, path in find_copies(self._fs, log_dir.path):
            found.setdefault(key, []).append(path)
        return found
