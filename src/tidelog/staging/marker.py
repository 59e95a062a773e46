"""A small staged file by which a task finds out that it sees the directory of the driver.

Each task writes to it, so that a sweep sees that the job is still at work.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import read_small_file
from tidelog.errors import CorruptFile, DirectoryNotShared, KafkaStorageError
from tidelog.records.batch import BATCH_HEADER
from tidelog.staging.staged_file import list_staged, staged_name

if TYPE_CHECKING:
    from random import Random

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem

MAX_MARKER_BYTES: Final = BATCH_HEADER.size - 1
"""A marker is smaller than any file with a batch: this distinguishes the two."""
VISIT_NS: Final = 10 * 10**9
"""Time in ns after which a task writes to the marker again; a file is kept for a minute or more."""


def make_marker(fs: FileSystem, path: str, txn: str, rng: Random) -> str:
    """Make the file in a data directory; return its name, which is that of a file of ``txn``."""
    marker = staged_name(txn, rng)
    fs.open(os.path.join(path, marker), "x").close()
    return marker


class MarkerVisits:
    """The visits of one task to the marker of its job; ``note`` is what each leaves there.

    ``note`` is the same for all tasks of a job, and at most ``MAX_MARKER_BYTES`` long.
    """

    def __init__(
        self, fs: FileSystem, path: str, marker: str, clock: Clock, note: bytes = b"."
    ) -> None:
        self._fs = fs
        self._path = os.path.join(path, marker)
        self._clock = clock
        self._note = note
        self._last_ns = -1
        self.visit()

    def visit_if_due(self) -> None:
        """Visit if the last visit is a while ago; errors as ``visit``."""
        if self._clock.monotonic_ns() - self._last_ns >= VISIT_NS:
            self.visit()

    def visit(self) -> None:
        """Write to the marker.

        Raises:
            DirectoryNotShared: this process does not see the file, or no longer does: the driver
                deletes it when it has committed or aborted the write.
            KafkaStorageError: the disk failed, or is full.
        """
        directory, marker = os.path.split(self._path)
        try:
            with closing(self._fs.open(self._path, "r+")) as file:
                file.pwrite(self._note, 0)
        except FileNotFoundError:
            text = (
                f"{directory} is not the data directory that the driver sees: every executor must"
                f" see it under the same path ({marker} is missing)"
            )
            if self._last_ns >= 0:
                text = f"the driver has ended the write of this task: {self._path} is gone"
            raise DirectoryNotShared(text) from None
        except OSError as error:
            text = f"staging in {directory} failed: {error}; nothing was committed"
            raise KafkaStorageError(text) from error
        self._last_ns = self._clock.monotonic_ns()


def visited_markers(fs: FileSystem, path: str, txn: str) -> dict[str, bytes]:
    """Return the markers of ``txn``, each with the note of the tasks that visited it."""
    found = {}
    for name in list_staged(fs, path, txn):
        try:
            found[name] = read_small_file(fs, os.path.join(path, name), MAX_MARKER_BYTES)
        except (FileNotFoundError, CorruptFile):  # just deleted, or no marker
            continue
    return found
