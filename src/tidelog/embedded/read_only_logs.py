"""The topics of a data directory for a program that only reads, beside its writer or without one.

Kafka has no such reader: its consumers need a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.readonly.log_follower import POLL_MS, LogFollower
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.readonly.read_only_log import Offsets, ReadUpTo
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.log.offset_lookup import TimestampedOffset
    from tidelog.log.record_count import RecordCount
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import ReadOnlyTopic
    from tidelog.records.record import Record


class ReadOnlyLogs:
    """The topics of one data directory, which is never changed or locked.

    Each call looks at the files as they are then, so it sees what a writer, tidelog or Kafka, has
    done since the last one. Any thread may use it. Records above the high watermark, and with
    ``read_committed`` above the last stable offset, are not seen.

    Raises, from any call, UnknownTopicOrPartition for what is not there, KafkaStorageError if the
    disk failed or the files change faster than they can be read.
    """

    def __init__(
        self,
        path: str,
        *,
        fs: FileSystem,
        clock: Clock,
        wait_ms: Callable[[int], None],
        server_properties: Mapping[str, str] | None = None,
    ) -> None:
        self.path: Final = path
        self._fs = fs
        self._clock = clock
        self._wait_ms = wait_ms
        self._server_properties = server_properties
        self._look()

    def topics(self) -> Mapping[str, ReadOnlyTopic]:
        """Return every topic by name, with its partitions, id and known settings."""
        return self._look().topics

    def topic(self, name: str) -> ReadOnlyTopic:
        """Return one topic."""
        return self._look().topic(name)

    def open(self, topic: str, partition: int = 0) -> ReadOnlyLog:
        """Open one log as it is now, for batches and for what is not offered here."""
        return self._look().open(topic, partition)

    def offsets(self, topic: str, partition: int = 0) -> Offsets:
        """Return log start, high watermark, last stable offset and log end."""
        with self.open(topic, partition) as log:
            return log.offsets()

    def offset_at(self, topic: str, partition: int, timestamp: int) -> TimestampedOffset | None:
        """Return the first record with this timestamp in ms or a later one; None if there is none.

        Raises CorruptMessage.
        """
        with self.open(topic, partition) as log:
            return log.offset_at(timestamp)

    def count_records(
        self,
        topic: str,
        partition: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
    ) -> RecordCount:
        """Count what the offsets of a partition hold; see ``ReadOnlyLog.count_records``."""
        with self.open(topic, partition) as log:
            return log.count_records(start_offset, end_offset)

    def read(
        self,
        topic: str,
        partition: int = 0,
        start_offset: int | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> Iterator[Record]:
        """Yield the records of a partition from ``start_offset`` on, up to its end as of then.

        None: from the log start. Raises OffsetOutOfRange, CorruptMessage after the records before
        the damage, InvalidArgument for an unknown word.
        """
        is_committed, up_to = _range(isolation)
        with self.open(topic, partition) as log:
            if start_offset is not None and start_offset > log.log_end_offset:
                raise log.out_of_range(start_offset)
            end = log.last_stable_offset(up_to) if is_committed else log.end_offset(up_to)
            yield from log.records(start_offset, end, committed=is_committed)

    def follow(
        self,
        topic: str,
        partition: int = 0,
        start_offset: int | None = None,
        *,
        idle_ms: int | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> Iterator[Record]:
        """Yield records as ``read`` does, then look for new ones several times a second.

        Ends when nothing came for ``idle_ms``; never if that is None. Raises OffsetOutOfRange, too,
        where records were deleted before they were read.
        """
        follower = self.follower(topic, partition, start_offset, isolation=isolation)
        last_ns = self._clock.monotonic_ns()
        while True:
            for columns in follower.columns():
                yield from columns.records()
                last_ns = self._clock.monotonic_ns()
            waited_ms = (self._clock.monotonic_ns() - last_ns) // 1_000_000
            if idle_ms is not None and waited_ms >= idle_ms:
                return
            self._wait_ms(POLL_MS if idle_ms is None else min(POLL_MS, idle_ms - waited_ms))

    def follower(
        self,
        topic: str,
        partition: int = 0,
        start_offset: int | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> LogFollower:
        """Return what ``follow`` reads with, for a program that waits in its own way."""
        is_committed, up_to = _range(isolation)
        path = self._look().partition_path(topic, partition)
        return LogFollower(
            path, fs=self._fs, next_offset=start_offset, up_to=up_to, committed=is_committed
        )

    def _look(self) -> ReadOnlyDirectory:
        return open_directory_read_only(
            self.path, fs=self._fs, server_properties=self._server_properties
        )


def _range(isolation: Isolation | str) -> tuple[bool, ReadUpTo]:
    """Return whether only committed records are read, and how far a reader of this level goes."""
    level = Isolation.of(isolation)
    up_to = ReadUpTo.LOG_END if level is Isolation.LOG_END else ReadUpTo.HIGH_WATERMARK
    return level is Isolation.READ_COMMITTED, up_to
