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
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.leader_epoch import UNDEFINED_EPOCH, epoch_after_loss
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


def least_epoch_after_loss(fs: FileSystem, data_dir: str, rng: Random) -> LeastEpoch:
    """Return an epoch above those of all logs: none of their lost records is in a newer one.

    For epochs are durable before a record in them can be read.
    """
    epoch = epoch_after_loss(greatest_epoch(fs, data_dir), rng, _MOST_SKIPPED)
    return LeastEpoch(epoch, is_closed=False)


def greatest_epoch(fs: FileSystem, data_dir: str) -> int:
    """Return the greatest leader epoch that a directory names, -1 if it names none.

    Raises OSError if a log's cannot be read, and as ``read_least_epoch``.
    """
    known = read_least_epoch(fs, data_dir)
    found = [UNDEFINED_EPOCH if known is None else known.leader_epoch]
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
