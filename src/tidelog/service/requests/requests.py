"""Looks for requests in the directories of a service: each pass lists each directory once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.mailbox.look import Look
from tidelog.service.requests.move_files import MoveFiles, MoveRequests
from tidelog.service.requests.request_service import RequestService

if TYPE_CHECKING:
    from tidelog.cleaner.log_cleaner import Machine
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.service.mover import PartitionMover


class Requests:
    """The requests of other processes, in the form of this release and of earlier ones."""

    def __init__(
        self,
        machine: Machine,
        log_dirs: LogDirs,
        registry: LogRegistry,
        mover: PartitionMover,
        manager: LogManager,
    ) -> None:
        self._log_dirs: Final = log_dirs
        self._service: Final = RequestService(machine, log_dirs, manager)
        self._moves: Final = Look(machine.fs, MoveFiles, MoveRequests(registry, mover).answer)

    def look(self) -> None:
        """Begin what was requested since the last pass, and go on with what was begun."""
        for path, names in self._log_dirs.listed():
            self._service.look(path, names)
            self._moves.look(path, names)

    def stop(self) -> None:
        """Begin nothing more; wait for what runs, and answer all that was claimed."""
        self._service.stop()
