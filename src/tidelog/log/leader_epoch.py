"""Which leader epoch began at which offset, kept in ``leader-epoch-checkpoint``.

Kafka: ``LeaderEpochFileCache`` and ``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, read_leader_epochs, write_leader_epochs
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.directory_guard import is_passing
from tidelog.records.batch import INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.directory_guard import DirectoryGuard

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1

_METADATA_LOG: Final = "__cluster_metadata-0"
_FEWEST_SKIPPED, _MOST_SKIPPED = 2**12, 2**20

_epoch = attrgetter("epoch")
_start = attrgetter("start_offset")
_log = logging.getLogger(__name__)


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written in it. Source: Kafka EpochEntry."""

    epoch: int
    start_offset: int


class OffsetAndEpoch(NamedTuple):
    """The end (exclusive) of a leader epoch, and that epoch. Source: Kafka OffsetAndEpoch."""

    offset: int
    leader_epoch: int


def epoch_after_loss(fs: FileSystem, data_dir: str, latest: int | None, rng: Random) -> int:
    """Return the epoch of what is written to a log whose end is lost; ``latest``: the one it has.

    A position in what is lost has an epoch of its time, so it can be distinguished from one in the
    records that get those offsets again. There is no epoch above the last that fits in a file.
    """
    if has_controller(fs, data_dir):
        return min((latest or 0) + 1, INT32_MAX)
    return later_epoch(latest, rng)


def later_epoch(latest: int | None, rng: Random, most_skipped: int = _MOST_SKIPPED) -> int:
    """Return an epoch that nothing was written in, where later ones than ``latest`` may be lost.

    Some are left out, and how many is drawn, up to ``most_skipped``, since the same may be lost a
    second time.
    """
    known = UNDEFINED_EPOCH if latest is None else latest
    return min(known + rng.randint(_FEWEST_SKIPPED, most_skipped), INT32_MAX)


def has_controller(fs: FileSystem, data_dir: str) -> bool:
    """Return whether a controller of Kafka's gives a directory's logs their epochs, in turn.

    Its clients wait without an end for a leader where they know an epoch above the controller's, so
    none may be left out; and when the broker starts again, the controller begins one.
    """
    return fs.exists(f"{data_dir}/{_METADATA_LOG}")


def _can_follow(old: EpochEntry, new: EpochEntry) -> bool:
    return old.epoch < new.epoch and old.start_offset < new.start_offset


def _is_new(entries: Sequence[EpochEntry], epoch: int, start_offset: int) -> bool:
    if epoch < 0 or start_offset < 0:
        raise InvalidArgument(f"epoch {epoch} cannot begin at offset {start_offset}")
    return not entries or entries[-1].epoch != epoch or start_offset < entries[-1].start_offset


def _add(entries: list[EpochEntry], begun: EpochEntry) -> list[EpochEntry]:
    """Put a new epoch after ``entries``; return those that contradict it, which are taken out."""
    at = len(entries)
    while at and not _can_follow(entries[at - 1], begun):
        at -= 1
    removed, entries[at:] = entries[at:], [begun]
    return removed


class LeaderEpochCache:
    """The epochs of one log, strictly increasing in epoch and in start offset.

    Changes are made under the log's lock. Readers need none: the entries are an immutable tuple,
    replaced as a whole. ``_file_lock`` guards the file, which a background task also writes, and
    its directory.
    Epochs that begin, and the loss of all, are in the file before they are in memory. Truncations
    may be ahead of it: then it is dirty, until a flush of the cache, of the log or its closing
    writes it. After a crash, loading truncates both ends again.
    Source: Kafka LeaderEpochFileCache.
    """

    def __init__(
        self,
        directory: str,
        *,
        fs: FileSystem,
        scheduler: Scheduler,
        guard: DirectoryGuard,
        entries: Iterable[EpochEntry] = (),
    ) -> None:
        self.directory = directory
        self._fs = fs
        self._scheduler = scheduler
        self._guard = guard
        self._entries = tuple(entries)
        self._written = self._entries
        self._file_lock = Lock()
        self._is_told = False
        """Whether it was logged that the file is behind, since it was last written."""

    @classmethod
    def open(
        cls, directory: str, *, fs: FileSystem, scheduler: Scheduler, guard: DirectoryGuard
    ) -> LeaderEpochCache:
        """Read the entries of ``directory``; a missing file has none.

        Where entries do not rise, the later line counts. InvalidArgument for a negative number.
        """
        path = f"{directory}/{LEADER_EPOCH_FILE}"
        entries: list[EpochEntry] = []
        for found in read_leader_epochs(fs, path):
            if _is_new(entries, *found):
                _add(entries, EpochEntry(*found))
        return cls(directory, fs=fs, scheduler=scheduler, guard=guard, entries=entries)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return self._entries

    @property
    def latest(self) -> EpochEntry | None:
        """The newest entry."""
        entries = self._entries
        return entries[-1] if entries else None

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch."""
        entries = self._entries
        return entries[-1].epoch if entries else None

    def create(self) -> None:
        """Make the file, empty, unless it is there."""
        if self._entries:
            return  # they were read from it
        path = f"{self.directory}/{LEADER_EPOCH_FILE}"
        with self._file_lock:
            if not self._fs.exists(path):
                self._fs.write(path, b"")

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that ``epoch`` begins at ``start_offset``, durably; return whether it was new.

        The latest epoch again, at a higher offset, changes nothing. Entries that contradict the
        new one (same or higher epoch, same or higher offset) are removed.
        """
        is_new = _is_new(self._entries, epoch, start_offset)
        return is_new and self.assign_all([EpochEntry(epoch, start_offset)])

    def assign_all(self, begun: Iterable[EpochEntry]) -> bool:
        """Do as ``assign`` for each in turn, with one write of the file."""
        entries, is_changed = list(self._entries), False
        for new in begun:
            if not _is_new(entries, *new):
                continue
            removed = _add(entries, new)
            is_changed = True
            if len(removed) > 1 or (removed and removed[0].start_offset != new.start_offset):
                _log.warning(
                    "leader-epochs-replaced directory=%s epoch=%d start_offset=%d removed=%s",
                    *(self.directory, *new, tuple(removed)),
                )
        if is_changed:
            self._replace(tuple(entries))
        return is_changed

    def truncate_from_end(self, end_offset: int, *, is_durable: bool = False) -> bool:
        """Drop entries that begin at or above ``end_offset``; return whether there were any.

        The file follows in background unless it ``is_durable``.
        """
        keep = bisect_left(self._entries, end_offset, key=_start)
        if end_offset < 0 or keep == len(self._entries):
            return False
        (self._replace if is_durable else self._truncate)(self._entries[:keep])
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Let the epochs begin at ``start_offset``: the one that covers it is cut to begin there.

        The file follows in background.
        """
        covered = bisect_right(self._entries, start_offset, key=_start)
        if covered == 0:
            return False
        cut = EpochEntry(self._entries[covered - 1].epoch, start_offset)
        if covered == 1 and self._entries[0] == cut:
            return False
        self._truncate((cut, *self._entries[covered:]))
        return True

    def clear(self) -> None:
        """Forget all entries in memory; the file stays, and no write in background follows."""
        with self._file_lock:
            self._entries = self._written = ()

    def end_writing(self) -> None:
        """Keep the entries in memory, and have no write in background follow."""
        with self._file_lock:
            self._written = self._entries

    def clear_and_flush(self) -> None:
        """Forget all entries, durably; on an error all are kept."""
        self._replace(())

    def restore(self, entries: tuple[EpochEntry, ...]) -> None:
        """Return to earlier ``entries``; the file follows in background."""
        if entries is not self._entries:
            self._truncate(entries)

    def truncate_all(self) -> None:
        """Forget all entries; the file follows at once, also an empty one, as Kafka's does.

        If the disk is full, it follows later.
        """
        self._entries = ()
        self._flush_if_room()

    def flush_if_room(self) -> None:
        """Write the entries if the file is behind; if the disk is full, a later flush does."""
        if self.is_dirty:
            self._flush_if_room()

    def _flush_if_room(self) -> None:
        self._unless_full(self.flush)

    def _flush_in_background(self) -> None:
        self._unless_full(self.flush_if_dirty)

    def _unless_full(self, flush: Callable[[], None]) -> None:
        """Call ``flush``; if the disk is full, a later one writes the file.

        That is logged once until then, as each truncation tries it.
        """
        try:
            flush()
        except (OSError, KafkaStorageError) as error:
            if not is_passing(error):
                raise
            if not self._is_told:
                self._is_told = True
                _log.warning("leader-epochs-not-flushed directory=%s", self.directory)

    def moved_to(self, directory: str) -> None:
        """Record that the log's directory was renamed; a write in background goes there, too."""
        with self._file_lock:
            self.directory = directory

    @property
    def is_dirty(self) -> bool:
        """Whether the file is behind."""
        return self._written is not self._entries

    def flush(self) -> None:
        """Write the entries as they are now; durable on return."""
        with self._file_lock:
            self._write(self._entries)

    def _replace(self, entries: tuple[EpochEntry, ...]) -> None:
        """Write ``entries`` durably, then let memory follow; on an error nothing has changed."""
        with self._file_lock:
            self._write(entries)
            self._entries = entries

    def _write(self, entries: tuple[EpochEntry, ...]) -> None:
        write_leader_epochs(self._fs, f"{self.directory}/{LEADER_EPOCH_FILE}", entries)
        self._written = entries
        self._is_told = False

    def _truncate(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        name = self.directory.rpartition("/")[2]
        self._scheduler.schedule(f"leader-epoch-cache-flush-{name}", self._flush_in_background)

    def flush_if_dirty(self) -> None:
        """Write the entries if the file is behind; nothing if the directory is gone or offline."""
        if not self.is_dirty or self._guard.is_offline:
            return
        with self._guard.watch("writing the leader epochs"), self._file_lock:
            try:
                if self.is_dirty:  # still: the entries may have been forgotten meanwhile
                    self._write(self._entries)
            except FileNotFoundError:
                # The directory was renamed or deleted meanwhile; and its entries with it.
                _log.warning("leader-epochs-not-flushed directory=%s", self.directory)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """Return the greatest known epoch up to ``epoch``, with its end offset (exclusive).

        Both are -1 when nothing is known. The latest epoch ends at ``log_end_offset``.
        """
        entries = self._entries
        if epoch != UNDEFINED_EPOCH and entries and epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        at = bisect_right(entries, epoch, key=_epoch)
        if epoch == UNDEFINED_EPOCH or at == len(entries):
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        floor = entries[at - 1].epoch if at else epoch
        return EpochEntry(floor, entries[at].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch that ``offset`` was written in, if it is known."""
        entries = self._entries
        at = bisect_right(entries, offset, key=_start)
        return entries[at - 1].epoch if at else None
