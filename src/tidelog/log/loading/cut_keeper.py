"""Keeping what a recovery cuts off a log, in cut files of the data directory.

Kafka deletes what it cuts; see ``cut_files`` for what the files hold.
"""

from __future__ import annotations

import errno
import logging
from contextlib import closing, contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Final

from tidelog.env.sparse import end_of_data
from tidelog.errors import InvalidArgument, InvariantError, KafkaStorageError
from tidelog.log.directory_guard import NO_SPACE
from tidelog.log.loading.cut_files import MAX_NUMBER, CutDescription, CutName, topic_part
from tidelog.log.topic_id import PARTITION_METADATA_FILE, read_partition_metadata
from tidelog.segment.filenames import is_future_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tidelog.env.files import OpenFile
    from tidelog.log.context import LogContext
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.segment_recovery import Cut

_BLOCK: Final = 1 << 20
_ZEROS_KEPT: Final = 1 << 20
_NOT_LINKED: Final = frozenset(
    {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
)

_log = logging.getLogger(__name__)


class KeepCuts(Enum):
    """Whether a recovery keeps what it cuts."""

    ALWAYS = "always"
    """Cut nothing that there is no space to keep: the log is not loaded then."""
    IF_SPACE = "if there is space"
    """Cut as Kafka does, with a warning, if the disk is full."""
    NEVER = "never"


class CutKeeper:
    """Keeps what the recovery of one log cuts.

    The copy of a partition that is being moved keeps nothing: the log it is copied from is whole.
    """

    def __init__(self, context: LogContext, keep: KeepCuts) -> None:
        self._context = context
        self._fs = context.fs
        self._keep = KeepCuts.NEVER if is_future_directory(context.name) else keep
        self._topic_id: UUID | None = None
        self._kept_end: str | None = None
        """The cut file that was made last within ``cutting``."""

    def keep_end(self, segment: LogSegment, cut: Cut) -> str | None:
        """Copy the end of a segment that is about to be truncated; return the cut file's path.

        None: nothing was kept, since all of it is zeros, or as there is no space.

        Raises:
            OSError: the disk failed, or is full and the cuts are to be kept in any case.
        """
        if self._keep is KeepCuts.NEVER:
            return None
        with closing(cut.file.hold()) as file:
            end = end_of_data(file, cut.position, cut.end)
            if end == cut.position:
                return None
            where = cut.position, cut.end - cut.position
            described = self._described(segment, where, cut.next_offset, cut.reason)
            path = None
            try:
                path, target = self._create(cut.next_offset)
                with closing(target):
                    _copy(file, cut.position, end, target)
                    target.pwrite(described.pack(), end - cut.position)
                    # Before the caller cuts: else a power cut could take both copies of the bytes.
                    target.sync()
                # The cut follows: without the name on the disk, neither copy would survive a power
                # cut.
                self._fs.sync_directory(self._context.parent)
            except OSError as error:
                self._discard(path)
                self._give_up(error, segment)
                return None
        _log.warning("cut-kept path=%s kept_in=%s bytes=%d", segment.path, path, end - cut.position)
        self._kept_end = path
        return path

    @contextmanager
    def cutting(self, segment: LogSegment) -> Iterator[None]:
        """Let the body recover a segment; if that fails before the cut, keep nothing of it.

        Else each attempt on a full disk would keep it once more.
        """
        size_bytes = segment.size_bytes
        # What was kept of an earlier segment is no longer in the log.
        self._kept_end = None
        try:
            yield
        except OSError:
            with suppress(OSError):
                if self._fs.stat(segment.path).size_bytes >= size_bytes:
                    self._discard(self._kept_end)
            raise

    def keep_whole(self, segment: LogSegment) -> str | None:
        """Rename a segment's ``.log`` file to a cut file; return its path, None if nothing is kept.

        That is a link, durable, and a deletion, so that no crash loses both names; a copy where
        the file system has no links. Nothing of a segment without records is kept. The index files
        stay, and the caller deletes them and calls ``describe``.

        Raises:
            OSError: as ``keep_end``.
        """
        if self._keep is KeepCuts.NEVER:
            return None
        with closing(self._fs.open(segment.path)) as file:
            end = end_of_data(file, 0, segment.size_bytes)
        if not end:
            return None
        try:
            # A cut file is deleted by its age, which the time of modification shows.
            self._fs.set_mtime_ms(segment.path, self._context.clock.now_ms())
            path = self._link(segment) or self._copied(segment, end)
        except OSError as error:
            self._give_up(error, segment)
            return None
        # The new name is durable before the old one goes.
        self._fs.sync_directory(self._context.parent)
        segment.close_handlers()
        self._fs.delete(segment.path)
        _log.warning("cut-kept path=%s kept_in=%s bytes=%d", segment.path, path, segment.size_bytes)
        return path

    def describe(self, path: str, segment: LogSegment, reason: str) -> None:
        """Append the description to a renamed file, without most of the zeros at its end.

        Some stay, since the last batch may end in zeros, which a crash must not take.
        If there is no space for that, the file's name has to do. Raises OSError if the disk failed.
        """
        where = 0, segment.size_bytes
        data = self._described(segment, where, segment.base_offset, reason).pack()
        with closing(self._fs.open(path, "r+")) as file:
            end = end_of_data(file, 0, segment.size_bytes) + _ZEROS_KEPT
            end = min(end, segment.size_bytes)
            try:
                file.pwrite(data, end)
                file.truncate(end + len(data))
                file.sync()
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                _log.warning("cut-not-described path=%s reason=%s", path, error)

    def _discard(self, path: str | None) -> None:
        if path is not None:
            with suppress(OSError):
                self._fs.delete(path)

    def _give_up(self, error: OSError, segment: LogSegment) -> None:
        """Log that nothing is kept for lack of space; raise any other error."""
        if error.errno not in NO_SPACE or self._keep is KeepCuts.ALWAYS:
            raise error
        _log.warning("cut-not-kept path=%s reason=%s", segment.path, error)

    def _create(self, from_offset: int) -> tuple[str, OpenFile]:
        """Create a cut file under the next free name."""
        for path in self._paths(from_offset):
            with suppress(FileExistsError):
                return path, self._fs.open(path, "x")
        raise InvariantError("every name of a cut file is taken")

    def _link(self, segment: LogSegment) -> str | None:
        """Give a segment's ``.log`` file the next free name of a cut file as a second one.

        None: the file system has no links, or the partition's directory lies on another disk.
        """
        for path in self._paths(segment.base_offset):
            try:
                self._fs.link(segment.path, path)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno in _NOT_LINKED:
                    return None
                raise
            return path
        raise InvariantError("every name of a cut file is taken")

    def _copied(self, segment: LogSegment, end: int) -> str:
        """Copy a segment's bytes up to ``end`` to a cut file, durably; return its path."""
        path, target = self._create(segment.base_offset)
        try:
            with closing(target), closing(self._fs.open(segment.path)) as file:
                _copy(file, 0, end, target)
                # As above: the segment is deleted next.
                target.sync()
        except OSError:
            self._discard(path)
            raise
        return path

    def _paths(self, from_offset: int) -> Iterator[str]:
        topic, partition = self._context.topic_partition
        part = topic_part(topic, self._known_id())
        for number in range(1, MAX_NUMBER + 1):
            yield f"{self._context.parent}/{CutName(part, partition, from_offset, number)}"

    def _described(
        self, segment: LogSegment, where: tuple[int, int], from_offset: int, reason: str
    ) -> CutDescription:
        topic, partition = self._context.topic_partition
        topic_id = self._known_id()
        return CutDescription(
            topic,
            partition,
            None if topic_id is None else topic_part(topic, topic_id),
            segment.path.rpartition("/")[2],
            *where,
            from_offset,
            reason,
            self._context.clock.now_ms(),
        )

    def _known_id(self) -> UUID | None:
        """Return the topic's id in ``partition.metadata``, None if it cannot be read."""
        if self._topic_id is None:
            with suppress(KafkaStorageError, InvalidArgument):
                path = self._context.path(PARTITION_METADATA_FILE)
                self._topic_id = read_partition_metadata(self._fs, path)
        return self._topic_id


def _copy(source: OpenFile, start: int, end: int, target: OpenFile) -> None:
    for position in range(start, end, _BLOCK):
        target.pwrite(source.pread(min(_BLOCK, end - position), position), position - start)
