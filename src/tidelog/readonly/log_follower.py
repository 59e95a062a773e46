"""Logs that are read on as they grow, by opening them again whenever they may have changed.

Any other process may write it, so there is nothing to wait for but the files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.codec.one_line import one_line
from tidelog.datadir.offset_checkpoints import HIGH_WATERMARK_FILE
from tidelog.env.waiting import IdleTime
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.log.topic_id import is_other_topic, topic_id_or_none
from tidelog.readonly.checkpoints import ask_for_watermarks
from tidelog.readonly.epoch_lineage import lineage, other_records, parting
from tidelog.readonly.missing.holes import check_none_lost
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.isolation import ReadUpTo
from tidelog.segment.filenames import log_file, log_offsets, parse_topic_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
    from uuid import UUID

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.readonly.epoch_lineage import Epochs
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.segment.filenames import TopicPartition

T = TypeVar("T")

POLL_MS: Final = 200
"""Time between two looks that serves people well and costs little."""
_NEW_PARTITIONS_NS: Final = 1_000_000_000
"""Time between two looks for new partitions in a directory, which may hold thousands."""


class LogFollower:
    """Follows the log of one partition directory; used by one thread at a time.

    ``next_offset`` is where ``columns`` starts next; None: at the log start. It may be set.

    Args:
        path: the partition directory, as ``data/flights-0``.
        next_offset: where to begin; None: at the log start.
        fs: the file system.
        up_to: how far to read.
        committed: read committed records only, up to the last stable offset.
        end_of: returns the exclusive end to read to, where its writer can be asked, before the
            files are looked at; None: as the files say, which ``ask_holder`` brings up to date.
        asks_holder: whether each look does that first, rather than the caller for many at once.
        look: opens the data directory as it is now; None: the one that the path is in.
    """

    def __init__(
        self,
        path: str,
        next_offset: int | None = None,
        *,
        fs: FileSystem,
        up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK,
        committed: bool = False,
        end_of: Callable[[TopicPartition], int] | None = None,
        asks_holder: bool = False,
        look: Callable[[], ReadOnlyDirectory] | None = None,
    ) -> None:
        self.path: Final = path
        self.next_offset = next_offset
        self._fs: Final = reading(fs)
        self._up_to = up_to
        self._committed = committed
        self._end_of = end_of
        self._asks_holder = asks_holder
        self._look = look
        self._told_end = 0
        """What ``end_of`` returned last."""
        self._seen: tuple[object, ...] | None = None
        self._topic_id: UUID | None = None
        self._epochs: Epochs = ()
        """Of the log as it was read last."""
        self._refused: int | None = None
        """Where the log had other records than were read before."""

    def __repr__(self) -> str:
        return one_line(self, lambda: f"{self.path!r}: next_offset={self.next_offset}")

    def moved_to(self, path: str) -> LogFollower:
        """Return what follows the same partition, from where this is, in another directory."""
        moved = LogFollower(
            path,
            self.next_offset,
            fs=self._fs,
            up_to=self._up_to,
            committed=self._committed,
            end_of=self._end_of,
            asks_holder=self._asks_holder,
            look=self._look,
        )
        moved._topic_id, moved._epochs = self._topic_id, self._epochs
        return moved

    def opened_if_changed(self) -> ReadOnlyLog | None:
        """Open the log if it may have changed since the last call; None if it has not.

        Raises KafkaStorageError where the directory was deleted meanwhile, also if it is there
        again, of another topic; and as ``open_read_only``.
        """
        if self._asks_holder:
            self.ask_holder()
        state = self._state()
        if state is not None and state == self._seen:
            return None
        topic_id = topic_id_or_none(self._fs, self.path)
        if is_other_topic(topic_id, self._topic_id):
            text = "was deleted and created again while it was followed"
            raise KafkaStorageError(f"{self.path} {text}")
        if self._end_of is not None:
            # Before: what ends a transaction in between is not in the files that are looked at, and
            # records that it aborts would pass for committed ones.
            self._told_end = self._end_of(parse_topic_partition(os.path.basename(self.path)))
        log = open_read_only(self.path, fs=self._fs)
        self._topic_id = topic_id or self._topic_id
        self._seen = state
        return log

    def ask_holder(self) -> None:
        """See ``ask_for_watermarks``; nothing where the writer says itself where its logs end."""
        if self._end_of is None:
            ask_for_watermarks(self._fs, [os.path.dirname(self.path)])

    def columns(self) -> Iterator[RecordColumns]:
        """Yield the records that have come since the last call; none if the log has not changed.

        If a loop over them is left early, the next call yields the last ones again.

        Raises:
            OffsetOutOfRange: ``next_offset`` is below the log start or above the log end by now;
                set it to continue.
            DataLoss: the log was restored, or has lost its end, and no longer has what was read
                below ``next_offset``; set it to continue, as to the error's ``start_offset``. Or a
                segment is lost, not through compaction, which is raised after the records that
                follow it; the next call continues.
            CorruptMessage, KafkaStorageError: as ``ReadOnlyLog.columns``.
        """
        log = self.opened_if_changed()
        if log is None:
            return
        seen = self._seen
        self._seen = None  # until all is read: an error, or a break, leaves some for the next call
        with log:
            start = log.log_start_offset if self.next_offset is None else self.next_offset
            if not log.log_start_offset <= start <= log.log_end_offset:
                raise log.out_of_range(start)
            self._check_same(log, start)
            end = self._visible_end(log)
            for found in log.columns(start, max(start, end), committed=self._committed):
                yield found
                self.next_offset = int(found.offset[-1]) + 1
            self.next_offset = max(start, end)
            # Its writer may be about to say that more is visible, without writing anything.
            is_all = self._end_of is None or end == log.log_end_offset
        self._seen = seen if is_all else None
        self._check_whole(log, start, end)

    def _check_same(self, log: ReadOnlyLog, start: int) -> None:
        """Raise DataLoss if a log has other records below ``start`` than were read."""
        now = log.known_epochs()
        at = parting(lineage(self._epochs, start), start, now)
        if at is not None and self._refused in {None, start}:
            self._refused = start
            raise other_records((log.topic, log.partition), at, start, log.log_end_offset)
        self._refused, self._epochs = None, now

    def _check_whole(self, log: ReadOnlyLog, start: int, end: int) -> None:
        if not log.holes:
            return
        if self._look is not None:
            there = self._look()
        else:
            there = open_directory_read_only(os.path.dirname(self.path), fs=self._fs)
        check_none_lost((log.topic, log.partition), there.lost(log, start, end))

    def _visible_end(self, log: ReadOnlyLog) -> int:
        if self._end_of is None:
            return log.visible_end(self._up_to, committed=self._committed)
        return min(self._told_end, log.log_end_offset)

    def _state(self) -> tuple[object, ...] | None:
        """Return what changes whenever there may be more: the newest segment, and the watermarks.

        None while a writer replaces or deletes the newest segment.
        """
        self._fs.look_again()
        try:
            bases = sorted(log_offsets(self._fs.list(self.path)))
        except FileNotFoundError:
            if self._seen is None:
                return None
            raise KafkaStorageError(f"{self.path} was deleted while it was followed") from None
        above = os.path.dirname(self.path)
        # All that is known of the files: a preallocated segment keeps its size, and of two files of
        # watermarks that follow each other within a tick of the clock only the inodes differ.
        try:
            newest = self._fs.stat(log_file(self.path, bases[-1])) if bases else None
        except FileNotFoundError:
            return None
        try:
            watermarks = self._fs.stat(os.path.join(above, HIGH_WATERMARK_FILE))
        except FileNotFoundError:
            watermarks = None
        return len(bases), newest, watermarks


def ask_holders(followers: Iterable[LogFollower]) -> None:
    """Call ``ask_holder`` once for each directory: a topic may have a thousand partitions in it."""
    for one in {os.path.dirname(one.path): one for one in followers}.values():
        one.ask_holder()


def followed(
    found: Callable[[], Iterator[T]],
    wait_ms: Callable[[int], object],
    clock: Clock,
    *,
    idle_ms: int | None,
    look_ms: int,
) -> Iterator[T]:
    """Yield what is found, again and again, until nothing was found for ``idle_ms``.

    ``wait_ms`` waits between two looks, for ``look_ms`` at most; None: there is no end.
    """
    idle = IdleTime(idle_ms, clock.monotonic_ns)
    while True:
        for one in found():
            yield one
            idle.restart()
        left_ms = idle.left_ms(look_ms)
        if left_ms <= 0:
            return
        wait_ms(left_ms)


class FollowedTopic:
    """Reads on in the partitions of a topic that any other process may write.

    Used by one thread at a time.

    Args:
        topic: the topic's name.
        starts: the partitions, with the offsets where to begin; None: at the log start.
        look: opens the data directories as they are now: to begin, once a second for partitions
            that were added, and where one cannot be read any more, since it may have been moved to
            another of the directories.
        follow: makes what follows the log in a directory from an offset on.
        numbers_in: returns the partitions that are there; None: those that are added do not count.
        clock: the clock.
    """

    def __init__(
        self,
        topic: str,
        starts: Mapping[int, int | None],
        look: Callable[[], ReadOnlyDirectory],
        follow: Callable[[str, int | None], LogFollower],
        *,
        numbers_in: Callable[[ReadOnlyDirectory], Collection[int]] | None,
        clock: Clock,
    ) -> None:
        self.topic: Final = topic
        self._look: Final = look
        self._numbers_in: Final = numbers_in
        self._follow: Final = follow
        self._clock: Final = clock
        self._looked_ns = clock.monotonic_ns()
        there = look()
        self._followers = {
            number: follow(there.partition_path(topic, number), start)
            for number, start in starts.items()
        }

    def columns(self) -> Generator[tuple[int, RecordColumns], None, None]:
        """Yield the records that have come since, each group with its partition.

        Partitions come in turns. Errors as ``LogFollower.columns``.
        """
        self._add_new()
        ask_holders(self._followers.values())
        for number in self._followers:
            for columns in self._columns_of(number):
                yield number, columns

    def _add_new(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._numbers_in is None or now_ns - self._looked_ns < _NEW_PARTITIONS_NS:
            return
        there = self._look()
        for number in sorted(set(self._numbers_in(there)) - self._followers.keys()):
            path = there.partition_path(self.topic, number)
            self._followers[number] = self._follow(path, None)
        self._looked_ns = now_ns

    def _columns_of(self, number: int) -> Iterator[RecordColumns]:
        follower = self._followers[number]
        try:
            yield from follower.columns()
        except (KafkaStorageError, UnknownTopicOrPartition):
            path = self._look().partition_path(self.topic, number)
            if path == follower.path:
                raise
            moved = self._followers[number] = follower.moved_to(path)
            yield from moved.columns()
