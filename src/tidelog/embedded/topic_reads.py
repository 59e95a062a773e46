"""Which partitions a read of a topic covers, where it begins in each, and how it reads on.

Kafka: ``KafkaConsumer`` with all partitions of a topic assigned.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.given_values import check_offsets, check_partition, is_integer
from tidelog.codec.json_value import unpack_json
from tidelog.codec.one_line import record_line
from tidelog.env.moments import time_ms
from tidelog.errors import InvalidArgument, NotJson
from tidelog.manager.whole_log import columns_from, lost_of, offset_at, records_from
from tidelog.readonly.log_follower import FollowedTopic
from tidelog.readonly.missing.holes import check_none_lost
from tidelog.records.batch import NO_SEQUENCE, TimestampType
from tidelog.records.isolation import Isolation
from tidelog.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.moments import Moment
    from tidelog.log.log import Log
    from tidelog.log.reading.log_reads import OnHole
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.record import Header


class ConsumedRecord(NamedTuple):
    """A record with its place; the other fields are those of ``Record``.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append("tides", json={"celsius": 15.5}, key=b"Brest")
    ...     [record.json() for record in logs.read("tides")]
    Appended(partition=0, offset=0)
    [{'celsius': 15.5}]
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    leader_epoch: int | None = None
    sequence: int = NO_SEQUENCE

    def __repr__(self) -> str:
        return record_line(self, self._fields)

    def json(self) -> Any:  # noqa: ANN401 - a user knows what the values of a topic are
        """Return the value, parsed as JSON; None for a tombstone, and for the bytes ``null``.

        Raises NotJson, with the record's place, for a value that is not JSON in UTF-8, or has a
        number that no float holds.
        """
        if self.value is None:
            return None
        try:
            return unpack_json(self.value)
        except InvalidArgument as error:
            raise NotJson(self.topic, self.partition, self.offset, str(error)) from error


_FIELDS: Final = itemgetter(*map(Record._fields.index, ConsumedRecord._fields[2:]))
"""Returns the fields of records in the order of ``ConsumedRecord``."""
_new_consumed: Final[Callable[[tuple[object, ...]], ConsumedRecord]] = partial(
    tuple.__new__, ConsumedRecord
)


def consumed(topic: str, partition: int, record: Record) -> ConsumedRecord:
    """Return a record with its place."""
    return _new_consumed((topic, partition, *_FIELDS(record)))


def all_consumed(
    topic: str, partition: int, columns: Iterable[RecordColumns]
) -> Iterator[ConsumedRecord]:
    """Yield records with their place."""
    for group in columns:
        fields = _FIELDS(group.fields())
        # With no step in Python for each record: it would take as long as the rest of reading.
        yield from map(_new_consumed, zip(repeat(topic), repeat(partition), *fields, strict=False))


class TimeRange(NamedTuple):
    """Times of records to read, in ms; ``until_ms`` is exclusive; None: no limit."""

    since_ms: int | None = None
    until_ms: int | None = None

    @classmethod
    def of(cls, since: Moment | None, until: Moment | None, clock: Clock) -> TimeRange:
        """Return the range between two times as users give them; errors as ``point_in_log``."""
        given = (None if time is None else point_in_log(time, clock) for time in (since, until))
        return cls(*given)

    def chosen(self, found: RecordColumns) -> RecordColumns:
        """Return the records of this time."""
        if self.since_ms is not None:
            found = found.select(found.timestamp >= self.since_ms)
        if self.until_ms is not None:
            found = found.select(found.timestamp < self.until_ms)
        return found


ALL_TIMES: Final = TimeRange()


def consumed_of(
    manager: LogManager,
    partition: Partition,
    start_offset: int | None,
    last: int | None,
    *,
    isolation: Isolation,
    times: TimeRange,
    on_hole: OnHole,
) -> Iterator[ConsumedRecord]:
    """Yield what ``columns_from`` does, with its place, of the time in ``times``.

    ``last``: only as many, the last ones.
    """
    log, start, fs = partition.log, start_offset, manager.machine.fs
    if last is not None:
        end = end_of(log, isolation)
        start = start_of_last(log, start_offset, end, last, isolation=isolation, times=times, fs=fs)
    elif times.since_ms is not None and start not in range(log.log_start_offset):
        found_at = offset_at(log, times.since_ms, fs)
        # Without a record that late nothing is read, except what is appended meanwhile.
        since = end_of(log, isolation) if found_at is None else found_at.offset
        start = max(since, start or 0)
    columns = columns_from(log, start, isolation, fs, on_hole)
    if times != ALL_TIMES:
        columns = map(times.chosen, columns)
    records = all_consumed(partition.topic, partition.partition, columns)
    return records if last is None else islice(records, min(last, sys.maxsize))


def all_checked(
    found: Iterable[Iterator[ConsumedRecord]],
    manager: LogManager,
    holes: Mapping[Partition, list[tuple[int, int]]],
) -> Iterator[ConsumedRecord]:
    """Yield the records; then raise DataLoss if a hole that was met by then is a loss."""
    # In a generator, as ``each_record``.
    for records in found:
        yield from records
    for one, met in holes.items():
        check_none_lost((one.topic, one.partition), lost_of(manager, one, met))


def start_of_last(
    log: Log | ReadOnlyLog,
    start_offset: int | None,
    end: int,
    last: int,
    *,
    isolation: Isolation | str,
    times: TimeRange,
    fs: FileSystem,
) -> int:
    """Return where the last records before ``end`` begin; an offset out of range as it is."""
    from tidelog.readonly.chosen_records import RecordFilter  # noqa: PLC0415 - loads NumPy

    first = log.log_start_offset
    start = first if start_offset is None else start_offset
    if start < first:
        return start
    wanted = RecordFilter(*times, committed=isolation == Isolation.READ_COMMITTED)
    return wanted.start_of_last(log.directory, start, end, last, fs=fs)


def check_count(last: int | None) -> None:
    """Raise InvalidArgument for what is not a number of records; None: all."""
    if last is not None and (not is_integer(last) or last < 0):
        raise InvalidArgument(f"{last!r} is not a number of records")


def point_in_log(given: Moment, clock: Clock) -> int:
    """Return a time to look up, in ms since the epoch; raise InvalidArgument for another value."""
    target = time_ms(given, clock.now_ms)
    if target < 0:
        raise InvalidArgument(f"{given} is before 1970, and no record is")
    return target


def numbers_to_read(
    topic: str, there: Collection[int], partition: int | None, *offsets: int | None
) -> list[int]:
    """Return the partitions that a read covers; None: all of those that are ``there``, in order.

    Raises InvalidArgument if an offset is given and there are several: it belongs to one; and for
    what is not a number.
    """
    given = [offset for offset in offsets if offset is not None]
    check_offsets(*given)
    if partition is not None:
        return [check_partition(partition)]
    if given and len(there) > 1:
        raise InvalidArgument(
            f"topic {topic} has {len(there)} partitions, and offset {given[0]} belongs to one of"
            " them: say which, as partition=0"
        )
    return sorted(there)


def end_of(log: Log, isolation: Isolation) -> int:
    """Return the offset up to which a reader of this level sees."""
    match isolation:
        case Isolation.READ_COMMITTED:
            return log.last_stable_offset
        case Isolation.READ_UNCOMMITTED:
            return log.high_watermark
        case Isolation.LOG_END:
            return log.log_end_offset


class _Followed:
    """A partition that is followed; ``seen_end`` is where reading ended last, None before."""

    def __init__(self, partition: Partition, next_offset: int) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.seen_end: int | None = None


class TopicFollower:
    """Reads on in the partitions of a topic of an open ``Logs``; used by one thread at a time.

    With ``partition`` None it reads all, in turns, and those that are added later from their start.
    Raises InvalidArgument, UnknownTopicOrPartition.
    """

    def __init__(
        self,
        manager: LogManager,
        topic: str,
        partition: int | None,
        start_offset: int | None,
        *,
        isolation: Isolation,
    ) -> None:
        self._manager = manager
        self._topic = topic
        self._partition = partition
        self._isolation = isolation
        there = manager.topic(topic).partitions
        chosen = numbers_to_read(topic, there, partition, start_offset)
        self._followed = {number: self._follow(number, start_offset) for number in chosen}

    def has_more(self) -> bool:
        """Return whether there may be records that were not yielded yet; reads no file."""
        if self._new_numbers():
            return True
        return any(
            end_of(one.partition.log, self._isolation) != one.seen_end
            for one in self._followed.values()
        )

    def records(self) -> Generator[ConsumedRecord, None, None]:
        """Yield the records that have come since, partition by partition, up to the ends as of now.

        Raises UnknownTopicOrPartition once the topic is deleted, OffsetOutOfRange,
        KafkaStorageError; DataLoss, after the records of a partition, where a segment is lost.
        """
        for number in self._new_numbers():
            self._followed[number] = self._follow(number, None)
        for number, one in self._followed.items():
            log = one.partition.log
            end = end_of(log, self._isolation)
            fs, holes = self._manager.machine.fs, list[tuple[int, int]]()
            found = records_from(log, one.next_offset, self._isolation, fs, holes.append)
            for record in found:
                one.next_offset = record.offset + 1
                yield consumed(self._topic, number, record)
            # After markers, too, which are not yielded.
            one.next_offset = max(one.next_offset, end)
            one.seen_end = end
            lost = lost_of(self._manager, one.partition, holes)
            check_none_lost((self._topic, number), lost)

    def _new_numbers(self) -> list[int]:
        if self._partition is not None:
            return []
        return sorted(set(self._manager.topic(self._topic).partitions) - set(self._followed))

    def _follow(self, number: int, start_offset: int | None) -> _Followed:
        partition = self._manager.partition(self._topic, number)
        start = partition.log.log_start_offset if start_offset is None else start_offset
        return _Followed(partition, start)


class ReadOnlyTopicFollower(FollowedTopic):
    """Reads on in the partitions of a topic that any other process may write, record by record."""

    def records(self) -> Generator[ConsumedRecord, None, None]:
        """Yield the records that have come since, partition by partition; errors as ``columns``."""
        for number, columns in self.columns():
            yield from all_consumed(self.topic, number, [columns])
