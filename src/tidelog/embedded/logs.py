"""Topics, appends and reads for a program, in one object.

Kafka has no such object: a program there is a client of a broker.
"""

from __future__ import annotations

import itertools
import os
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, overload

from tidelog.codec.compression import Codec
from tidelog.codec.given_values import check_flags, check_partition, listed
from tidelog.config.sources import topic_settings
from tidelog.embedded.drawings import DrawnLogs
from tidelog.embedded.group_source import OwnLogs
from tidelog.embedded.topic_reads import (
    TimeRange,
    TopicFollower,
    all_checked,
    check_count,
    consumed_of,
    numbers_to_read,
    point_in_log,
)
from tidelog.embedded.topic_writer import NOT_APPENDED, TopicWriter, append_gathered
from tidelog.env.forks import OfOneProcess
from tidelog.env.paths import absolute_path
from tidelog.errors import (
    InvalidArgument,
    KafkaStorageError,
    TidelogError,
    TopicAlreadyExists,
)
from tidelog.log.reading.record_count import total_count
from tidelog.log.retention.retention_rules import deletion_end
from tidelog.manager.topics.topic_checks import check_count_type, check_same
from tidelog.manager.whole_log import count_records, offset_at
from tidelog.readonly.log_follower import followed
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.readonly.read_only_log import Offsets
from tidelog.records.isolation import Isolation
from tidelog.records.new_record import NOT_GIVEN, NewRecord, NotGiven, content_of
from tidelog.records.partitioner import chosen_partition
from tidelog.segment.filenames import TopicPartition, check_topic_type, given_partition
from tidelog.staging.commit import Transaction as Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Self

    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.config.log_config import LogConfig
    from tidelog.config.sources import SettingValue
    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.log_dir_description import LogDirDescription
    from tidelog.embedded.group_reader import GroupReader
    from tidelog.embedded.topic_reads import ConsumedRecord
    from tidelog.embedded.transaction import Transaction
    from tidelog.env.moments import Moment
    from tidelog.env.scheduler import ThreadScheduler
    from tidelog.log.log import Log
    from tidelog.log.reading.offset_lookup import TimestampedOffset
    from tidelog.log.reading.record_count import RecordCount
    from tidelog.log.retention.retention_rules import DeletedSegment
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.metrics.metric import Metric
    from tidelog.manager.partition import Partition
    from tidelog.readonly.group_positions import Position
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.records.new_record import GivenRecord
    from tidelog.records.record import Header
    from tidelog.staging.finished import CommittedTransaction

MOVE_LOOK_MS: Final = 50
LOOK_AGAIN_MS: Final = 1000
"""How long a reader that follows waits at most before it looks again."""


class Appended(NamedTuple):
    """Where a record went."""

    partition: int
    offset: int


def writer_of_call(logs: Logs, topic: str, codec: Codec | str) -> TopicWriter:
    """Return the writer of one call of ``append_all``.

    ``Logs.close`` does not append what it has gathered: after an error the caller may call again.
    """
    return TopicWriter(logs, topic, clock=logs.manager.machine.clock, codec=codec)


class Door(Protocol):
    """Lets other programs use the logs until it is closed."""

    def close(self) -> None:
        """Let no more in, and end what they do; a second call does nothing."""


class Logs(OfOneProcess, DrawnLogs):
    """The topics of one or several data directories, open for reading and writing.

    Any thread may use it. ``close``, or leaving the ``with``, flushes and closes everything. What
    was appended survives the end of the process at any moment, and a power cut once ``flush`` has
    returned. ``door`` lets other programs in. It and ``scheduler`` are ended by ``close``; None:
    nobody can join, and nothing runs in background.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides", config={"retention.ms": "-1"}, exist_ok=True)
    ...     logs.append("tides", b"high at 06:12", key=b"Brest")
    ...     logs.append_all("tides", [b"low at 12:25", (b"Brest", b"high at 18:40")])
    ...     [record.value for record in logs.read("tides", start_offset=1)]
    Appended(partition=0, offset=0)
    2
    [b'low at 12:25', b'high at 18:40']
    """

    def __init__(self, manager: LogManager, scheduler: ThreadScheduler | None = None) -> None:
        self.manager = manager
        self.door: Door | None = None
        self._scheduler = scheduler
        self._turns = itertools.count()
        self._gathering: set[TopicWriter] = set()
        """Writers that have gathered records."""
        self.groups: Final = manager.staged_commits.groups

    def _told(self) -> str:
        return self.manager.told()

    def _look(self) -> ReadOnlyDirectory:
        paths = self.manager.config.data_directories
        return open_directory_read_only(*paths, fs=self.manager.machine.fs, accept=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self.is_inherited:
            self.close()
            return
        # An error of the body is not replaced by those of closing, which are noted or logged.
        try:
            append_gathered(self._gathering)
        except TidelogError as failure:
            error.add_note(NOT_APPENDED.format(failure))
        finally:
            self._close(self.manager.shutdown)

    # Topics

    def topics(self) -> dict[str, Topic]:
        """Return every topic by name, those that Kafka made included."""
        return {name: self._shown(topic) for name, topic in self.manager.topics().items()}

    def topic(self, name: str) -> Topic:
        """Return one topic; raise UnknownTopicOrPartition where there is none."""
        return self._shown(self.manager.topic(name))

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""
        return self.manager.config_of(topic)

    def create_topic(
        self,
        /,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, SettingValue] | None = None,
        *,
        is_spread: bool = False,
        exist_ok: bool = False,
        **settings: object,
    ) -> Topic:
        """Create a topic of empty logs, durably.

        Args:
            name: 1 to 249 letters, digits, dots, underscores and dashes.
            partitions: how many, from 1 to 10,000; None: 1.
            config: the topic's own settings, under Kafka's names; the values are text, numbers or
                booleans.
            is_spread: create each partition where the fewest logs are; see ``LogManager``.
            exist_ok: return the topic if it exists with these settings and ``partitions`` or more;
                what is not given may differ.
            settings: an error that names ``config``: that ``tidelog.open`` takes settings as
                keywords misleads.

        Raises:
            InvalidArgument: settings are given as keywords, or an argument is of a wrong type.
            TopicAlreadyExists: the topic exists; with ``exist_ok``: with fewer partitions or other
                settings than those given, which the error names. Nothing was changed.
            And as ``LogManager.create_topic``.
        """
        check_flags(is_spread=is_spread, exist_ok=exist_ok)
        given = topic_settings(config, settings)
        if partitions is not None:
            partitions = check_count_type(partitions)
        check_topic_type(name)
        try:
            if not (exist_ok and name in self.manager.topics()):
                count = 1 if partitions is None else partitions
                made = self.manager.create_topic(name, count, given, is_spread=is_spread)
                return self._shown(made)
        except TopicAlreadyExists:
            if not exist_ok or name not in self.manager.topics():
                raise  # with ``exist_ok`` another thread has created it
        topic = self.manager.topic(name)
        check_same(topic, partitions, given, defaults=self.manager.config.log_defaults)
        return self._shown(topic)

    def create_partitions(self, name: str, count: int, *, is_spread: bool = False) -> Topic:
        """Add partitions to a topic until it has ``count``; see ``LogManager``."""
        check_flags(is_spread=is_spread)
        wanted = check_count_type(count)
        return self._shown(self.manager.create_partitions(name, wanted, is_spread=is_spread))

    def alter_topic(
        self,
        /,
        name: str,
        config: Mapping[str, SettingValue] | None = None,
        unset: Collection[str] = (),
        follow: Collection[str] = (),
        **settings: object,
    ) -> Topic:
        """Change a topic's settings; those that are not named stay as they are.

        Args:
            name: an existing topic.
            config: settings and their new values, as for ``create_topic``.
            unset: settings of its own that it drops.
            follow: birth values that it drops, so that each process that opens it decides.
            settings: as for ``create_topic``.

        Raises as ``LogManager.alter_topic``.
        """
        given = topic_settings(config, settings), listed("unset", unset), listed("follow", follow)
        return self._shown(self.manager.alter_topic(name, *given))

    def delete_topic(self, name: str) -> None:
        """Delete a topic; its files are deleted after ``file.delete.delay.ms``, or at ``close``.

        Raises:
            UnknownTopicOrPartition: there is no such topic, or a directory that is not open here
                holds a part of it; nothing was deleted.
            KafkaStorageError: a disk is offline, full or failed. The topic may be deleted all the
                same: then ``topics`` has it no longer, and the start that finds the disk well
                deletes the rest.
        """
        self.manager.delete_topic(name)

    def move_partition(
        self, topic: str, partition: int, path: str | os.PathLike[str], *, wait: bool = True
    ) -> None:
        """Move a partition to another of the directories; appends and reads continue meanwhile.

        Without ``wait`` it is only begun, and also continues after the next start.

        Raises:
            UnknownTopicOrPartition, LogDirNotFound, InvalidReplicaAssignment: nothing was begun.
            KafkaStorageError: a directory is offline, or the move failed and was given up.
        """
        check_flags(wait=wait)
        target = absolute_path(path)
        given_partition(topic, partition)
        self.manager.move_partition(topic, partition, target)
        if not wait:
            return
        self.manager.wait_for_move(topic, partition, MOVE_LOOK_MS, lambda: None)
        if os.path.dirname(self.partition(topic, partition).log.directory) != target:
            raise KafkaStorageError(f"{topic}-{partition} was not moved to {target}")

    def partition(self, topic: str, partition: int) -> Partition:
        """Return one partition, for batches and for what is not offered here."""
        return self.manager.partition(*given_partition(topic, partition))

    def partitions(self, topic: str) -> Iterator[Partition]:
        """Yield all partitions of a topic, in order of their numbers."""
        return self.manager.partitions(topic)

    # Writing

    def append(
        self,
        topic: str,
        value: bytes | bytearray | memoryview | NotGiven | None = NOT_GIVEN,
        *,
        json: object = NOT_GIVEN,
        key: bytes | bytearray | memoryview | None = None,
        headers: Iterable[Header] = (),
        timestamp: Moment | None = None,
        partition: int | None = None,
    ) -> Appended:
        """Append one record; for many, ``append_all`` is far quicker.

        Args:
            topic: an existing topic.
            value: the record's value; None: null, which is a tombstone in a compacted topic.
            json: the value, as anything that JSON can express; it is written as UTF-8, without
                blanks. None: null, as for ``value``.
            key: its key, which also chooses the partition, as Kafka's producers do.
            headers: names and values.
            timestamp: in ms since the epoch, or a ``datetime``, which without a zone is in local
                time; None: now.
            partition: where it goes, instead of where the key says; without a key, any.

        Raises:
            InvalidArgument: a part of the record is of a wrong type, or no record can hold it.
            UnknownTopicOrPartition, InvalidRecord, InvalidTimestamp, MessageTooLarge: not taken.
            KafkaStorageError: the disk is full or failed.
        """
        content = content_of(value, json)
        given = NewRecord(key, content, headers, timestamp).checked()  # type: ignore[arg-type]  # it checks them
        manager = self.manager
        numbers = sorted(manager.topic(topic).partitions)
        if partition is None:
            chosen = chosen_partition(given.key, numbers, next(self._turns))
        else:
            chosen = check_partition(partition)
        record = given.fields(manager.machine.clock.now_ms())
        info = manager.partition(topic, chosen).append_records([record])
        return Appended(chosen, info.last_offset)

    def append_all(
        self, topic: str, records: Iterable[GivenRecord], *, codec: Codec | str = Codec.NONE
    ) -> int:
        """Append records in batches and make them durable; return how many.

        A record is a value (bytes), a tuple of key and value and perhaps headers and timestamp, a
        mapping with members of these names, or a ``NewRecord``. Errors as ``append``: some of the
        records may be appended then. A transaction appends all or none.
        """
        writer = writer_of_call(self, topic, codec)
        writer.append_all(records)
        writer.flush()
        return writer.records

    def writer(self, topic: str, *, codec: Codec | str = Codec.NONE) -> TopicWriter:
        """Return a writer that spreads records over a topic's partitions, as producers do.

        >>> with tidelog.open("data") as logs:
        ...     topic = logs.create_topic("tides", partitions=4)
        ...     with logs.writer("tides", codec=tidelog.Codec.ZSTD) as writer:
        ...         for height in range(1000):
        ...             writer.append(b"%d" % height, key=b"Brest")
        ...     writer.records
        1000
        """
        clock = self.manager.machine.clock
        return TopicWriter(
            self,
            topic,
            clock=clock,
            codec=codec,
            gathering=self._gathering,
            check_open=self.manager.check_not_closed,
        )

    def transaction(
        self, txn: str | None = None, path: str | None = None, *, codec: Codec | str = Codec.NONE
    ) -> Transaction:
        """Return a transaction: records for several topics, all of them once or none.

        >>> with tidelog.open("data") as logs:
        ...     created = [logs.create_topic(name) for name in ("orders", "stock")]
        ...     with logs.transaction("order-7") as txn:
        ...         txn.append("orders", b"7 eggs")
        ...         txn.append("stock", b"-7", key=b"eggs")
        ...     txn.committed.total
        2

        ``txn`` makes it repeatable: an id that was committed before, up to 7 days ago, is skipped.
        ``path`` is the data directory that holds its topics, None: the only one.

        Raises:
            InvalidArgument: there are several directories and no path, or ``txn`` is blank, not
                valid Unicode, or longer than 255 bytes of UTF-8.
            LogDirNotFound: the path is none of the directories.
            KafkaStorageError: the directory is offline, or this is closed.
        """
        from tidelog.embedded.transaction import Transaction  # noqa: PLC0415 - brokers have their own

        self.manager.check_not_closed()
        home = self.manager.staged_commits.home(path)
        return Transaction(self.manager, home, txn, codec=codec)

    def commit_transaction(
        self, transaction: Staged, path: str | None = None
    ) -> CommittedTransaction:
        """Commit what was staged in a directory, None: the only one; see ``staging.transaction``.

        Raises InvalidArgument without a path if there are several directories.
        """
        if not isinstance(transaction, Staged):
            raise InvalidArgument(f"{transaction!r} is not a staged transaction")
        home = self.manager.staged_commits.home(path)
        return self.manager.staged_commits.commit(home, transaction)

    def describe_log_dirs(self) -> dict[str, LogDirDescription]:
        """Return, by path, each directory's logs and disk space, or why it is offline."""
        return self.manager.describe_log_dirs()

    def retain(self, *chosen: str | tuple[str, int]) -> dict[tuple[str, int], list[DeletedSegment]]:
        """Delete the segments that have expired by now; return those deleted of each log.

        ``chosen`` are names of topics, or (topic, partition); none stands for all. A service does
        this by itself each ``log.retention.check.interval.ms``. Errors as ``OnDemand.retain``.
        """
        return self.manager.on_demand.retain(*chosen)

    def compact(self, *chosen: str | tuple[str, int]) -> dict[tuple[str, int], CompactionFacts]:
        """Clean compacted logs now, however dirty they are; return what was done to each log.

        ``chosen`` as for ``retain``. A service cleans by itself what is dirty enough. Errors as
        ``OnDemand.compact``.
        """
        return self.manager.on_demand.compact(*chosen)

    def roll(self, *chosen: str | tuple[str, int]) -> dict[tuple[str, int], int]:
        """Close active segments, so that compaction and archives reach what is in them.

        Returns the offset at which the next segment of each log begins; logs without a record in
        the active one are left out. ``chosen`` as for ``retain``. Errors as ``OnDemand.roll``.

        >>> with tidelog.open("data") as logs:
        ...     topic = logs.create_topic("stock", config={"cleanup.policy": "compact"})
        ...     logs.append_all("stock", [(b"tea", b"3"), (b"tea", None)])
        ...     logs.roll("stock"), logs.roll("stock")
        ...     facts = logs.compact("stock")
        ...     logs.count_records("stock").records
        2
        ({('stock', 0): 2}, {})
        1
        """
        return self.manager.on_demand.roll(*chosen)

    def delete_records(self, topic: str, partition: int, before_offset: int | str) -> int:
        """Delete the records of a partition below an offset; return the new log start offset.

        Readers no longer see them when this returns, nor after a crash; whole segments are deleted,
        too. Kafka: ``Admin.deleteRecords``.

        >>> with tidelog.open("data", retention_ms=-1) as logs:
        ...     topic = logs.create_topic("tides")
        ...     logs.append_all("tides", [b"old", b"new"])
        ...     logs.delete_records("tides", partition=0, before_offset=1)
        ...     [record.offset for record in logs.read("tides")]
        2
        1
        [1]

        Args:
            topic: an existing topic.
            partition: one of its partitions.
            before_offset: exclusive, at most the high watermark; ``"highWatermark"`` deletes all
                that readers see.

        Raises:
            UnknownTopicOrPartition: there is no such topic or partition.
            InvalidArgument: ``before_offset`` is negative, or another word.
            OffsetOutOfRange: the offset is above the high watermark.
            PolicyViolation: the topic is only compacted.
            KafkaStorageError: the disk failed.
        """
        before, key = deletion_end(before_offset), given_partition(topic, partition)
        deleted = self.manager.on_demand.delete_records(key, before)
        self.manager.on_demand.keep_deleted([key])
        return deleted.log_start_offset

    def metrics(self) -> list[Metric]:
        """Return all metrics as of now, under Kafka's names.

        >>> with tidelog.open("data") as logs:
        ...     topic = logs.create_topic("tides")
        ...     found = {metric.kafka_name: metric.value for metric in logs.metrics()}
        >>> found["kafka.log:type=Log,name=LogEndOffset,topic=tides,partition=0"]
        0
        """
        return self.manager.metrics()

    def flush(self) -> None:
        """Make all that was appended durable and visible to readers of other processes."""
        self.manager.flush()

    # Reading

    @overload
    def offsets(self, topic: str, partition: None = None) -> dict[int, Offsets]: ...

    @overload
    def offsets(self, topic: str, partition: int) -> Offsets: ...

    def offsets(self, topic: str, partition: int | None = None) -> dict[int, Offsets] | Offsets:
        """Return log start, high watermark, last stable offset and log end, all of one moment.

        Of each partition, by its number, or of the one that is given.

        >>> with tidelog.open("data") as logs:
        ...     topic = logs.create_topic("tides", partitions=2)
        ...     logs.append_all("tides", [b"high", b"low"])
        ...     {number: found.log_end_offset for number, found in logs.offsets("tides").items()}
        ...     logs.offsets("tides", 0).log_end_offset
        2
        {0: 2, 1: 0}
        2
        """
        if partition is None:
            return {number: self.offsets(topic, number) for number in self._chosen(topic, None)}
        return _offsets(self.partition(topic, partition).log)

    def offset_at(self, topic: str, partition: int, timestamp: Moment) -> TimestampedOffset | None:
        """Return the first record with this timestamp or a later one; None if there is none.

        ``timestamp`` is in ms since the epoch, a ``datetime``, which without a zone is in local
        time, or text as ``tidelog cat --since`` takes it: ``"2026-11-21T14:30"`` (in UTC unless it
        names a zone), or ``"1h"``, an hour ago.

        >>> with tidelog.open("data", retention_ms=-1) as logs:
        ...     topic = logs.create_topic("tides")
        ...     logs.append_all("tides", [(None, b"a", (), 1_000), (None, b"b", (), 2_000)])
        ...     logs.offset_at("tides", 0, 1_500).offset
        2
        1
        """
        target = point_in_log(timestamp, self.manager.machine.clock)
        return offset_at(self.partition(topic, partition).log, target, self.manager.machine.fs)

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
        numbers, and in offset order within each; records of different partitions have no order in
        time. ``start_offset`` is the first offset of the partition that is given, or of the only
        one; None: the log start. ``last``: only as many records of each partition, the last ones;
        what lies before them is not read. ``since`` leaves out earlier records, ``until`` that
        time and later ones; both are as for ``offset_at``. ``isolation`` is an ``Isolation`` or
        its word.

        Raises UnknownTopicOrPartition, OffsetOutOfRange below the log start and above the log end,
        InvalidArgument for a ``start_offset`` where there are several partitions to begin in, for
        a negative ``last``, and for an unknown word, and DataLoss where a segment is lost, after
        all other records.
        """
        check_count(last)
        level, manager = Isolation.of(isolation), self.manager
        times = TimeRange.of(since, until, manager.machine.clock)
        partitions = [
            self.partition(topic, number) for number in self._chosen(topic, partition, start_offset)
        ]
        holes: dict[Partition, list[tuple[int, int]]] = {one: [] for one in partitions}
        read = partial(consumed_of, manager, isolation=level, times=times)
        found = (read(one, start_offset, last, on_hole=holes[one].append) for one in partitions)
        return all_checked(found, manager, holes)

    def follow(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        *,
        idle_ms: int | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> Iterator[ConsumedRecord]:
        """Yield records as ``read`` does, then wait for new ones and yield those.

        Without ``partition`` new records of all partitions are looked for in turns, also of those
        that are added to the topic meanwhile.

        >>> with tidelog.open("data") as logs:
        ...     topic = logs.create_topic("tides")
        ...     logs.append_all("tides", [b"high", b"low"])
        ...     [record.value for record in logs.follow("tides", idle_ms=10)]
        2
        [b'high', b'low']

        Ends when nothing came for ``idle_ms``; never if that is None. Raises
        UnknownTopicOrPartition once the topic is deleted, KafkaStorageError once this is closed,
        and DataLoss as ``read``.
        """
        level, bell = Isolation.of(isolation), self.manager.bell
        follower = TopicFollower(self.manager, topic, partition, start_offset, isolation=level)
        seen = bell.rings

        def records() -> Iterator[ConsumedRecord]:
            nonlocal seen
            seen = bell.rings  # first, so that what comes while the logs are read rings
            return follower.records()

        yield from followed(
            *(records, lambda left_ms: bell.wait(seen, left_ms), self.manager.machine.clock),
            idle_ms=idle_ms,
            look_ms=LOOK_AGAIN_MS,
        )

    def reader(
        self,
        *topics: str,
        group: str,
        partitions: Collection[int] | None = None,
        start: str = "earliest",
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> GroupReader:
        """Return a reader of topics that continues where its group has committed.

        Args:
            topics: existing topics.
            group: a consumer group; its positions are kept as Kafka keeps them.
            partitions: only those of each topic; None: all, with those that are added later.
            start: where partitions without a committed position begin: ``earliest`` or ``latest``.
                Partitions begin there, too, if their position is no longer in the log, or belongs
                to another topic of this name. ``none``: such a position is an error, and
                partitions without one begin with the earliest record.
            isolation: an ``Isolation`` or its word.

        Raises:
            UnknownTopicOrPartition: there is no such topic, or it lacks one of ``partitions``.
            GroupInUse: another reader of the group reads the same; try again once it is closed.
            InvalidArgument: an argument is invalid.
        """
        from tidelog.embedded.group_reader import GroupReader  # noqa: PLC0415 - few programs read so

        source = self.group_source()
        return GroupReader(
            source, topics, group, partitions=partitions, start=start, isolation=isolation
        )

    def group_source(self) -> OwnLogs:
        """Return what a reader of a group reads from."""
        return OwnLogs(self.manager, self.groups)

    def group_positions(self) -> dict[str, dict[TopicPartition, Position]]:
        """Return the committed positions of all consumer groups, those of Kafka's among them."""
        self.manager.staged_commits.finish_interrupted()
        return self.groups.positions()

    def count_records(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        end_offset: int | None = None,
    ) -> RecordCount:
        """Count what the offsets of a topic, or of one partition, hold; see ``Log.count_records``.

        A difference of offsets also counts markers, aborted records and what compaction dropped.
        Offsets need a partition where there are several; else InvalidArgument.
        """
        numbers = self._chosen(topic, partition, start_offset, end_offset)
        logs = [self.partition(topic, number).log for number in numbers]
        fs = self.manager.machine.fs
        return total_count(count_records(log, start_offset, end_offset, fs) for log in logs)

    def _chosen(self, topic: str, partition: int | None, *offsets: int | None) -> list[int]:
        return numbers_to_read(topic, self.manager.topic(topic).partitions, partition, *offsets)

    # Closing

    def close(self) -> None:
        """Flush and close all logs, mark the directories as clean; a second call does nothing.

        What writers have gathered is appended first.

        Raises:
            KafkaStorageError: as ``LogManager.close``.
            TidelogError: what a writer has gathered cannot be appended; all else is done.
        """
        if self.is_inherited:
            return
        try:
            append_gathered(self._gathering)
        finally:
            self._close(self.manager.close)

    def _close(self, close_manager: Callable[[], None]) -> None:
        try:
            if self.door is not None:
                self.door.close()
            if self._scheduler is not None:
                self.manager.stop_background()
                self._scheduler.shutdown()
        finally:
            close_manager()


def _offsets(log: Log) -> Offsets:
    found = log.offset_snapshot()
    # That of the snapshot is where the disk begins; an archived log begins in its archive.
    start = min(log.log_start_offset, found.log_start.offset)
    ends = (found.high_watermark, found.last_stable, found.log_end)
    return Offsets(start, *(place.offset for place in ends))
