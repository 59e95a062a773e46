"""Where the copies that moves make lie, without a listing of the data directories for each move."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.manager.lifecycle.move_status import find_copies

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.segment.filenames import TopicPartition


class KnownCopies:
    """The copies of partitions that earlier processes have left, and those that this one creates.

    The directories are locked, so no other process adds any: they are listed once, when the first
    copy is looked for. Whether a copy is still there is looked up each time. The caller holds the
    registry's ``change_lock``.
    """

    def __init__(self, fs: FileSystem, log_dirs: LogDirs) -> None:
        self._fs = fs
        self._log_dirs = log_dirs
        self._paths: dict[TopicPartition, list[str]] = {}
        self._has_listed = False

    def note(self, key: TopicPartition, path: str) -> None:
        """Take note of a copy that is about to be created."""
        self._paths.setdefault(key, []).append(path)

    def of(self, key: TopicPartition) -> list[tuple[LogDir, str]]:
        """Return the copies of a partition that are there, with their directories.

        Raises KafkaStorageError. Those in directories that are offline are left out.
        """
        self._list_once()
        there = [
            (log_dir, path)
            for path in self._paths.get(key, ())
            if (log_dir := self._log_dirs.get(os.path.dirname(path))) is not None
            and self._is_there(key, path)
        ]
        self._paths.pop(key, None)
        if there:
            self._paths[key] = [path for _, path in there]
        return there

    def _is_there(self, key: TopicPartition, path: str) -> bool:
        with self._log_dirs.failing(os.path.dirname(path), f"looking for copies of {key}"):
            return self._fs.exists(path) or self._fs.is_link(path)

    def _list_once(self) -> None:
        if self._has_listed:
            return
        found: dict[TopicPartition, list[str]] = {}
        for log_dir in self._log_dirs:
            try:
                for key, path in find_copies(self._fs, log_dir.path):
                    found.setdefault(key, []).append(path)
            except OSError as error:
                raise KafkaStorageError(f"{log_dir.path} cannot be listed: {error}") from error
        self._paths = found  # with all that were noted before and are there
        self._has_listed = True
