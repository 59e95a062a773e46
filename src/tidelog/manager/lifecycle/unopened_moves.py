"""Moves that an earlier process began, as a process sees them that opens none of their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.manager.lifecycle.move_status import moves_in_files

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.lifecycle.creator import LogCreator
    from tidelog.manager.lifecycle.deleter import LogDeleter
    from tidelog.manager.lifecycle.move_status import MoveStatus
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.manager.topics.topics import Topics
    from tidelog.segment.filenames import TopicPartition


class UnopenedMoves:
    """The copies of partitions that lie in the directories, and their deletion."""

    def __init__(
        self,
        fs: FileSystem,
        log_dirs: LogDirs,
        *,
        topics: Topics,
        registry: LogRegistry,
        creator: LogCreator,
        deleter: LogDeleter,
    ) -> None:
        self._fs: Final = fs
        self._log_dirs: Final = log_dirs
        self._topics: Final = topics
        self._registry: Final = registry
        self._creator: Final = creator
        self._deleter: Final = deleter

    def all(self) -> list[MoveStatus]:
        """Return the moves whose copies lie in the directories, sorted; raise KafkaStorageError."""
        try:
            return moves_in_files(self._fs, [one.path for one in self._log_dirs])
        except OSError as error:
            raise KafkaStorageError(f"the directories cannot be listed: {error}") from error

    def cancel(self, key: TopicPartition) -> None:
        """Delete the copy of a move of which no log is open.

        Raises:
            InvalidArgument: there is no such copy, or the catalogue already names its directory:
                opening the log finishes that move.
            KafkaStorageError: the disk failed.
        """
        home_id = self._topics.get(key.topic).partitions.get(key.partition)
        with self._registry.change_lock:
            copies = self._creator.copies.of(key)
            if not copies:
                raise InvalidArgument(f"{key} is not being moved")
            for log_dir, path in copies:
                current = log_dir.path_of(*key)
                with self._log_dirs.failing(log_dir.path, f"looking for {key}"):
                    is_there = self._fs.exists(current)
                if log_dir.directory_id == home_id and not is_there:
                    raise InvalidArgument(
                        f"the move of {key} to {log_dir.path} is decided: opening it finishes it"
                    )
                self._deleter.remove_unopened_copy(key, log_dir, path)
