"""Space on the disks of data directories that is kept free for a reserve.

The rule is tidelog's own and off by default. In Kafka a full disk takes a directory offline.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.errors import DirectoryFull
from tidelog.log.directory_guard import PASSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dirs import LogDirs

_log = logging.getLogger(__name__)

_SOME_BYTES: Final = 1 << 20


class DiskReserve:
    """Says which directories take no more appends, as of the last look.

    ``reserve_bytes`` is asked at each look. A directory comes back by itself when its disk has
    more than that free again.
    """

    def __init__(
        self,
        dirs: LogDirs,
        free_bytes: Callable[[str], int],
        reserve_bytes: Callable[[], int],
    ) -> None:
        self._dirs = dirs
        self._free_bytes = free_bytes
        self._reserve_bytes = reserve_bytes
        self.full: frozenset[str] = frozenset()
        self.out_of_space: frozenset[str] = frozenset()
        """Directories whose disk did not take an append, as long as it has next to no space."""

    def check(self, log: Log) -> None:
        """Raise DirectoryFull if the log's directory takes no appends now."""
        if self.full:
            self.check_directory(log.data_dir)

    def check_directory(self, path: str) -> None:
        """Raise DirectoryFull if a directory takes no appends now."""
        if path in self.full:
            raise DirectoryFull(
                f"{path} takes no appends: its disk has less than tidelog.reserve.bytes,"
                f" {self._reserve_bytes():,}, free"
            )

    def note_full(self, log: Log) -> None:
        """Take note that the disk did not take an append; said once, till there is space again."""
        path = log.data_dir
        if path not in self.out_of_space:
            self.out_of_space |= {path}
            _log.warning("disk-full directory=%s", path)

    def _look_for_space(self) -> None:
        for path in self.out_of_space:
            home = self._dirs.get(path)
            try:
                if home is not None and self._free_bytes(path) < _SOME_BYTES:
                    continue
            except OSError as error:
                if error.errno in PASSING:
                    continue
                self._dirs.take_offline(path, error)
            self.out_of_space -= {path}
            _log.info("disk-has-space directory=%s", path)

    def look(self) -> None:
        """Look at all disks; a task does this each second where there is a reserve.

        What is known of a disk stays where its free space cannot be measured for lack of resources.
        """
        self._look_for_space()
        reserve = self._reserve_bytes()
        full = set()
        for home in self._dirs if reserve else ():
            try:
                if self._free_bytes(home.path) < reserve:
                    full.add(home.path)
            except OSError as error:
                self._dirs.note_error(home.path, error)
                if error.errno in PASSING and home.path in self.full:
                    full.add(home.path)
        for path in full - self.full:
            _log.warning("directory-full directory=%s reserve_bytes=%d", path, reserve)
        for path in self.full - full:
            _log.info("directory-has-room directory=%s reserve_bytes=%d", path, reserve)
        self.full = frozenset(full)
