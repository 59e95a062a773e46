"""The topics of data directories for a program that only reads, beside their writer or without one.

Kafka has no such reader: its consumers need a broker.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, overload

from tidelog.codec.given_values import check_offsets
from tidelog.embedded.drawings import DrawnLogs, drawing
from tidelog.embedded.topic_reads import (
    ReadOnlyTopicFollower,
    TimeRange,
    all_consumed,
    check_count,
    numbers_to_read,
    point_in_log,
    start_of_last,
)
from tidelog.env.attempts import Closable
from tidelog.env.forks import refuse_pickling
from tidelog.env.paths import is_name
from tidelog.errors import TidelogError, UnknownTopicOrPartition
from tidelog.log.reading.record_count import total_count
from tidelog.readonly.absent_partitions import BY_ARGUMENT
from tidelog.readonly.log_follower import POLL_MS, LogFollower, followed
from tidelog.readonly.missing.holes import check_none_lost
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.isolation import Isolation, reach
from tidelog.segment.filenames import TopicPartition, check_topic_type, given_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidelog.embedded.topic_reads import ConsumedRecord
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.moments import Moment
    from tidelog.log.reading.offset_lookup import TimestampedOffset
    from tidelog.log.reading.record_count import RecordCount
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import Offsets, ReadOnlyLog
    from tidelog.readonly.read_only_topic import ReadOnlyTopic

    Look = Callable[[str], ReadOnlyDirectory]
    """Looks at a topic."""


class Looked(Protocol):
    """Directories in which topics are looked up, each once."""

    def look(self, topic: str) -> bool:
        """Look up a topic, unless it is known; return whether it was not."""


T = TypeVar("T", bound=Looked)

_RECENT_NS: Final = 200_000_000
_LOOKS: Final = 10
"""A look is recent, too, for as long as this many looks of its length take."""


class ReadOnlyLogs(DrawnLogs, Closable):
    """The topics of one or several data directories, which are never changed or locked.

    Each call looks at the files as they are then, so it sees what a writer, tidelog or Kafka, has
    done since the last one. Any thread may use it. Records above the high watermark, and with
    ``read_committed`` above the last stable offset, are not seen.

    Nothing stays open between two calls. So there is nothing to close, and it can be used again
    after the ``with``.

    Raises, from any call, UnknownTopicOrPartition for what is not there, PartitionsElsewhere if
    what it reads is, in part, in other data directories (unless topics may be read in part),
    KafkaStorageError if the disk failed or the files change faster than they can be read.
    """

    def __init__(
        self,
        path: str,
        *more: str,
        fs: FileSystem,
        clock: Clock,
        wait_ms: Callable[[int], None],
        server_properties: Mapping[str, str] | None = None,
        accept: str | None = BY_ARGUMENT,
        asks_holder: bool = True,
    ) -> None:
        self.path: Final = path
        self.paths: Final = (path, *more)
        self._accept = accept
        self._asks_holder = asks_holder
        self._asked_metadata: set[str] = set()
        """Topics of which the cluster's metadata was asked: a reader that polls asks it once."""
        self._fs = fs
        self._clock = clock
        self._wait_ms = wait_ms
        self._server_properties = server_properties
        self._look()

    __reduce__ = refuse_pickling

    def _told(self) -> str:
        return ", ".join(map(repr, self.paths))

    def topics(self) -> Mapping[str, ReadOnlyTopic]:
        """Return every topic by name, with the partitions that are here, id and known settings."""
        topics = self._look().topics
        return {name: self._shown(topic) for name, topic in topics.items()}

    def topic(self, name: str) -> ReadOnlyTopic:
        """Return one topic."""
        return self._shown(self._look().topic(name))

    def open(self, topic: str, partition: int) -> ReadOnlyLog:
        """Open one log as it is now, for batches and for what is not offered here."""
        return self._open(given_partition(topic, partition), self._look)

    def _open(self, key: TopicPartition, look: Look) -> ReadOnlyLog:
        given_partition(*key)
        try:
            log = _opened(look(key.topic), key)
        except TidelogError:
            if look == self._look:
                raise
            log = _opened(self._look(), key)  # it may have been created or moved since
        return log.drawn_by(drawing(log, self._look, *key))

    @overload
    def offsets(self, topic: str, partition: None = None) -> dict[int, Offsets]: ...

    @overload
    def offsets(self, topic: str, partition: int) -> Offsets: ...

    def offsets(self, topic: str, partition: int | None = None) -> dict[int, Offsets] | Offsets:
        """Return log start, high watermark, last stable offset and log end.

        Of each partition, by its number, or of the one that is given.
        """
        look = self._recent_look(partition)
        if partition is not None:
            return self._offsets_of(TopicPartition(topic, partition), look)
        numbers = self._numbers_in(topic, look(topic))
        return {one: self._offsets_of(TopicPartition(topic, one), look) for one in numbers}

    def _offsets_of(self, key: TopicPartition, look: Look) -> Offsets:
        with self._open(key, look) as log:
            return log.offsets()

    def offset_at(self, topic: str, partition: int, timestamp: Moment) -> TimestampedOffset | None:
        """Return the first record with this timestamp or a later one; None if there is none.

        ``timestamp`` is as for ``Logs.offset_at``. Raises CorruptMessage.
        """
        target = point_in_log(timestamp, self._clock)
        key, look = TopicPartition(topic, partition), self._recent_look(partition)
        with self._seen(key, None, Isolation.READ_UNCOMMITTED, look) as (log, _, end):
            return log.offset_at(target, end)

    def count_records(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        end_offset: int | None = None,
    ) -> RecordCount:
        """Count what the offsets of a topic, or of one partition, hold.

        Offsets need a partition where there are several; else InvalidArgument. See
        ``ReadOnlyLog.count_records``.
        """
        counts, look = [], self._recent_look(partition)
        for number in self._chosen(topic, partition, start_offset, end_offset, look=look):
            key = TopicPartition(topic, number)
            with self._seen(key, None, Isolation.READ_UNCOMMITTED, look) as (log, _, seen):
                end = seen if end_offset is None else end_offset
                counts.append(log.count_records(start_offset, end))
        return total_count(counts)

    def read(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        *,
        last: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> Iterator[ConsumedRecord]:
        """Yield the records of a topic, or of one partition, up to the ends as of then.

        Without ``partition`` those of all come, one partition after the other in order of their
        numbers, and in offset order within each. ``start_offset`` is the first offset of the
        partition that is given, or of the only one; None: the log start. ``last``: only as many
        records of each partition, the last ones. ``since`` leaves out earlier records, ``until``
        that time and later ones; both are as for ``Logs.offset_at``.

        Raises OffsetOutOfRange, CorruptMessage after the records before the damage, DataLoss where
        a segment is lost, after all other records, and InvalidArgument for a
        ``start_offset`` where there are several partitions to begin in, for a negative ``last``,
        and for an unknown word.
        """
        from tidelog.readonly.chosen_records import RecordFilter  # noqa: PLC0415 - loads NumPy

        check_count(last)
        times = TimeRange.of(since, until, self._clock)
        is_committed, _ = reach(isolation)
        lost: list[tuple[TopicPartition, list[Hole]]] = []
        wanted, look = RecordFilter(*times, committed=is_committed), self._recent_look(partition)
        for number in self._chosen(topic, partition, start_offset, look=look):
            key = TopicPartition(topic, number)
            with self._seen(key, start_offset, isolation, look) as (log, first, end):
                start = first
                if last is not None:
                    start = start_of_last(
                        log, first, end, last, isolation=isolation, times=times, fs=self._fs
                    )
                yield from all_consumed(topic, number, wanted.records(log, start, end))
                if log.holes:
                    lost.append((key, look(topic).lost(log, start, end)))
        for key, holes in lost:
            check_none_lost(key, holes)

    @contextmanager
    def _seen(
        self,
        key: TopicPartition,
        start_offset: int | None,
        isolation: Isolation | str,
        look: Look | None = None,
    ) -> Iterator[tuple[ReadOnlyLog, int, int]]:
        """Open a log; yield it with what a reader sees of it: start, and end, which is exclusive.

        Raises OffsetOutOfRange for a start that is not in the log.
        """
        is_committed, up_to = reach(isolation)
        with self._open(key, look or self._look) as log:
            start = log.log_start_offset if start_offset is None else start_offset
            if start > log.log_end_offset:
                raise log.out_of_range(start)
            yield log, start, log.visible_end(up_to, committed=is_committed)

    def follow(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        *,
        idle_ms: int | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> Iterator[ConsumedRecord]:
        """Yield records as ``read`` does, then look for new ones several times a second.

        Without ``partition`` all are looked at in turns, those that are added to the topic
        meanwhile too. Ends when nothing came for ``idle_ms``; never if that is None. Raises
        OffsetOutOfRange, too, where records were deleted before they were read, and DataLoss where
        the log was restored, so that others have the offsets now that were read, or a segment is
        lost.
        """
        follower = self.topic_follower(topic, partition, start_offset, isolation=isolation)
        waited = follower.records, self._wait_ms, self._clock
        yield from followed(*waited, idle_ms=idle_ms, look_ms=POLL_MS)

    def follower(
        self,
        topic: str,
        partition: int,
        start_offset: int | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> LogFollower:
        """Return what follows one partition, for a program that waits in its own way."""
        key = given_partition(topic, partition)
        if start_offset is not None:
            check_offsets(start_offset)
        directory = self._look()
        directory.check_present({topic: [partition]}, asks_metadata=False)
        follow = self._follow(isolation, asks_holder=True)
        return follow(directory.partition_path(*key), start_offset)

    def topic_follower(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> ReadOnlyTopicFollower:
        """Return what ``follow`` reads with."""
        starts = dict.fromkeys(self._chosen(topic, partition, start_offset), start_offset)
        follow = self._follow(isolation)
        if partition is not None:
            self._look().check_present({topic: [partition]}, asks_metadata=False)
        numbers_in = partial(self._numbers_in, topic) if partition is None else None
        return ReadOnlyTopicFollower(
            topic, starts, self._look, follow, numbers_in=numbers_in, clock=self._clock
        )

    def _follow(
        self, isolation: Isolation | str, *, asks_holder: bool = False
    ) -> Callable[[str, int | None], LogFollower]:
        is_committed, up_to = reach(isolation)
        return partial(
            LogFollower,
            fs=self._fs,
            up_to=up_to,
            committed=is_committed,
            end_of=self._end_of(isolation),
            asks_holder=asks_holder,
            look=self._look,
        )

    def _end_of(self, _isolation: Isolation | str) -> Callable[[TopicPartition], int] | None:
        """Return what is asked how far a reader sees, before a log is opened; None: the files."""
        return None

    def _chosen(
        self, topic: str, partition: int | None, *offsets: int | None, look: Look | None = None
    ) -> list[int]:
        check_topic_type(topic)
        there = (
            () if partition is not None else self._numbers_in(topic, (look or self._look)(topic))
        )
        return numbers_to_read(topic, there, partition, *offsets)

    def _numbers_in(self, topic: str, directory: ReadOnlyDirectory) -> list[int]:
        """Return the numbers of a topic's partitions, missing ones too, as reading them fails."""
        check_topic_type(topic)
        numbers = directory.numbers_of(topic, asks_metadata=topic not in self._asked_metadata)
        self._asked_metadata.add(topic)
        return numbers

    def _recent_look(self, _partition: int | None = None) -> Look:
        """Return what looks at the directories for a call that opens many logs of them, or one."""
        return RecentLook(self._look, self._clock, _RECENT_NS)

    def _look(self, _topic: str = "") -> ReadOnlyDirectory:
        return open_directory_read_only(
            *self.paths,
            fs=self._fs,
            server_properties=self._server_properties,
            accept=self._accept,
            asks_holder=self._asks_holder,
        )


class RecentLook(Generic[T]):
    """Returns directories in which a topic was looked up not long ago. Any thread may use it.

    Each look lists all partitions: one for each log would take time with the square of their
    number. None is older than ``recent_ns``, or than a few times what a slower look takes.
    """

    def __init__(self, open_now: Callable[[], T], clock: Clock, recent_ns: int) -> None:
        self._open_now = open_now
        self._clock = clock
        self._recent_ns = recent_ns
        self._looked: tuple[int, T] | None = None

    def __call__(self, topic: str) -> T:
        """Return the directories, in which the topic was looked up."""
        return self.until(topic)[1]

    def until(self, topic: str) -> tuple[int, T]:
        """Return up to which time of the clock they count as recent, and the directories."""
        looked, now_ns = self._looked, self._clock.monotonic_ns()
        if looked is None or now_ns > looked[0]:
            looked = now_ns + self._recent_ns, self._open_now()
        until_ns, directory = looked
        if directory.look(topic):  # else one that is asked all the time would never look again
            end_ns = self._clock.monotonic_ns()
            until_ns = max(until_ns, end_ns + _LOOKS * (end_ns - now_ns))
        self._looked = until_ns, directory
        return until_ns, directory

    def forget(self) -> None:
        """Let the next call look now."""
        self._looked = None


def _opened(directory: ReadOnlyDirectory, key: TopicPartition) -> ReadOnlyLog:
    if "/" in key.topic or not is_name(key.topic):
        raise UnknownTopicOrPartition(f"there is no topic {key.topic!r}")
    directory.check_present({key.topic: [key.partition]}, asks_metadata=False)
    return directory.open(*key)
