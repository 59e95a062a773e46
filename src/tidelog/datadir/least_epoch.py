"""The leader epoch that appends to a data directory begin with: ``tidelog.least-epoch.json``.

A process that ends without closing its logs, as in a power cut, may leave them without records that
readers saw. So what is appended later is of another leader epoch, by which a position in those
records can be distinguished from one in the records that get their offsets. There is no file before
that has happened. Kafka's controller gives each partition a new epoch whenever a broker starts.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, read_leader_epochs, replace_file
from tidelog.datadir.versioned_file import read_versioned, whole
from tidelog.env.files import WRONG_KIND
from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.directory_guard import lacks_space
from tidelog.log.leader_epoch import UNDEFINED_EPOCH, has_controller, later_epoch
from tidelog.records.batch import INT32_MAX

if TYPE_CHECKING:
    from random import Random

    from tidelog.env.files import FileSystem

LEAST_EPOCH_FILE: Final = "tidelog.least-epoch.json"
LEAST_EPOCH_VERSION: Final = 1

_MOST_SKIPPED: Final = 2**13
"""Few: processes are killed more often than logs lose their end."""


class LeastEpoch(NamedTuple):
    """What the file says.

    ``is_closed``: the last process has closed the logs that it used, so that they have lost
    nothing, but the directory is not clean: it has others.
    """

    leader_epoch: int
    is_closed: bool


def read_least_epoch(fs: FileSystem, data_dir: str) -> LeastEpoch | None:
    """Read the file of a directory; None if it has none. Raises as ``read_versioned``."""

    def parse(content: Any) -> LeastEpoch:  # noqa: ANN401 - JSON
        epoch = whole(content["leaderEpoch"], "a leader epoch")
        if epoch > INT32_MAX:
            raise ValueError(f"{epoch} is above the last leader epoch")
        return LeastEpoch(epoch, content["isClosed"] is True)

    try:
        path = os.path.join(data_dir, LEAST_EPOCH_FILE)
        return read_versioned(fs, path, LEAST_EPOCH_VERSION, parse)
    except FileNotFoundError:
        return None


def write_least_epoch(fs: FileSystem, data_dir: str, least: LeastEpoch) -> None:
    """Replace the file durably."""
    content = {"leaderEpoch": least.leader_epoch, "isClosed": least.is_closed}
    data = json.dumps({"version": LEAST_EPOCH_VERSION, **content}).encode()
    replace_file(fs, os.path.join(data_dir, LEAST_EPOCH_FILE), data)


class LeastEpochFile:
    """The file of a data directory that this process has locked."""

    def __init__(self, fs: FileSystem, data_dir: str) -> None:
        self._fs: Final = fs
        self._data_dir: Final = data_dir
        self._found: LeastEpoch | None = None
        self._is_written = True
        self.is_outlived = False
        """Whether the logs were used since by a program that does not know the file."""

    def read(self, *, was_left_locked: bool) -> None:
        """Read the file; raises as ``read_least_epoch``.

        ``was_left_locked``: a process that had the directory was killed. Where the file says that
        the logs were closed, that was another program, such as Kafka.
        """
        self._found = read_least_epoch(self._fs, self._data_dir)
        self.is_outlived = was_left_locked and self._is_closed

    @property
    def epoch(self) -> int:
        """The leader epoch that appends have at least, 0 where there is none."""
        return 0 if self._found is None else self._found.leader_epoch

    @property
    def _is_closed(self) -> bool:
        return self._found is not None and self._found.is_closed

    def begin(self, rng: Random, *, was_clean: bool) -> None:
        """Write, durably, that logs are in use from now on, and in which leader epoch at least.

        Raises OSError, but not on a full disk: ``keep`` writes it later.
        """
        if self._is_closed and not self.is_outlived:
            epoch = self.epoch
        elif not (was_clean or has_controller(self._fs, self._data_dir)):
            known = UNDEFINED_EPOCH if self._found is None else self.epoch
            # Epochs are durable before a record in them can be read, so that no lost record is in a
            # newer one than the greatest.
            latest = max(known, greatest_epoch(self._fs, self._data_dir))
            epoch = later_epoch(latest, rng, _MOST_SKIPPED)
        else:
            return
        least = LeastEpoch(epoch, is_closed=False)
        try:
            write_least_epoch(self._fs, self._data_dir, least)
            self._is_written = True
        except OSError as error:
            if not lacks_space(error):
                raise
            # On a full disk, too, topics are deleted. Where there is no file, as where it says that
            # logs are in use, the next start finds another epoch.
            if self._is_closed:
                delete_if_there(self._fs, os.path.join(self._data_dir, LEAST_EPOCH_FILE))
            self._is_written = False
        self._found = least

    def keep(self) -> None:
        """Write what a full disk has refused: the directory is about to be marked as clean."""
        if self._found is not None and not self._is_written:
            write_least_epoch(self._fs, self._data_dir, self._found)

    def close(self) -> None:
        """Write that the logs that were used are closed, where the directory gets no such mark."""
        write_least_epoch(self._fs, self._data_dir, LeastEpoch(self.epoch, is_closed=True))


def greatest_epoch(fs: FileSystem, data_dir: str) -> int:
    """Return the greatest leader epoch of the logs in a directory, -1 if they have none.

    Raises OSError if one's cannot be read.
    """
    found = [UNDEFINED_EPOCH]
    for name in fs.list(data_dir):
        found += _epochs_in(fs, os.path.join(data_dir, name))
    return max(found)


def _epochs_in(fs: FileSystem, directory: str) -> list[int]:
    """Return the leader epochs of a log, or of the copy of one; none for another entry."""
    try:
        found = read_leader_epochs(fs, os.path.join(directory, LEADER_EPOCH_FILE))
    except (KafkaStorageError, InvalidArgument, PermissionError):
        return []  # with it a log does not load, and takes no appends; lost+found is none
    except OSError as error:
        if error.errno not in WRONG_KIND:
            raise
        return []
    return [epoch for epoch, _ in found]
