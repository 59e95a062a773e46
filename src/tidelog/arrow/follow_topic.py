"""A topic that grows, as Arrow record batches: what is there, then what comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.arrow.decode import ArrowDecoder
from tidelog.arrow.schema import named_columns, select
from tidelog.arrow.topic_read import TopicRead
from tidelog.codec.given_values import check_flags
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.moments import check_ms
from tidelog.env.waiting import sleep_ms
from tidelog.readonly.log_follower import POLL_MS, FollowedTopic, LogFollower, followed
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from tidelog.env.clock import Clock
    from tidelog.env.paths import Paths
    from tidelog.records.isolation import ReadUpTo


def follow(
    directory: Paths,
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    partitions: int | Iterable[int] | None = None,
    start_offsets: int | Mapping[int, int] | None = None,
    from_end: bool = False,
    isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    read_up_to: ReadUpTo | str | None = None,
    idle_ms: int | None = None,
    allow_partial: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a topic, then those that come, which is looked for five times a second.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [b"high", b"low"])
    2
    >>> for batch in tidelog.arrow.follow("data", "tides", columns=["value"], idle_ms=0):
    ...     print(batch.to_pylist())
    [{'value': b'high'}, {'value': b'low'}]

    A batch holds records of one partition. Partitions that are added to the topic are read from
    their start, and those that are moved to another of the directories are read on there. Memory is
    bounded. Any number of writers, tidelog or Kafka, may be at work: nothing is locked.

    Args:
        directory: a data directory, or a list of several that belong together.
        topic: the topic's name.
        columns: names of ``SCHEMA_WITH_HEADERS``, in the order wanted; None: all.
        partitions: a number or several; None: all.
        start_offsets: where to begin (inclusive) by partition, an ``int`` for the only one; the
            others begin at their log start.
        from_end: begin at the ends as of now instead, in partitions that ``start_offsets`` leaves
            out.
        isolation: as ``Logs.read``.
        read_up_to: ``highWatermark`` or ``logEnd``; None: as ``read``.
        idle_ms: end when nothing came for that many milliseconds; None: never.
        allow_partial: read a topic without the partitions in other directories.

    Raises:
        InvalidArgument, UnknownTopicOrPartition, PartitionsElsewhere: as ``read``, at once.
        OffsetOutOfRange: records were deleted before they were read.
        DataLoss: the log was restored, or has lost its end, and no longer has what was read; or a
            segment is lost, after the records that follow it.
        CorruptMessage: damage, after all records before it.
        KafkaStorageError: the disk failed, or the topic was deleted meanwhile.
        InvalidTimestamp: a timestamp does not fit in microseconds.
    """
    check_flags(from_end=from_end)
    read = TopicRead.of(
        directory,
        topic,
        partitions=partitions,
        start_offsets=start_offsets,
        isolation=isolation,
        read_up_to=read_up_to,
        allow_partial=allow_partial,
    )
    if idle_ms is not None:
        check_ms("idle_ms", idle_ms)
    schema = select(named_columns(columns))
    grown = _followed_topic(read, SYSTEM_CLOCK, from_end=from_end)
    return _batches(grown, schema, sleep_ms, SYSTEM_CLOCK, idle_ms)


def _followed_topic(read: TopicRead, clock: Clock, *, from_end: bool) -> FollowedTopic:
    now = {one.log.partition: one for one in read.plan()}
    given = now.keys() if isinstance(read.starts, int) else read.starts.keys()
    starts = {
        number: part.end_offset if from_end and number not in given else part.start_offset
        for number, part in now.items()
    }
    follow = partial(
        LogFollower, fs=read.fs, up_to=read.up_to, committed=read.committed, look=read.opened
    )
    numbers_in = read.numbers_in if read.partitions is None else None
    return FollowedTopic(
        read.topic, starts, read.opened, follow, numbers_in=numbers_in, clock=clock
    )


def _batches(
    topic: FollowedTopic,
    schema: pa.Schema,
    wait_ms: Callable[[int], object],
    clock: Clock,
    idle_ms: int | None,
) -> Iterator[pa.RecordBatch]:
    decoders: dict[int, ArrowDecoder] = {}

    def found() -> Iterator[pa.RecordBatch]:
        for number, columns in topic.columns():
            if number not in decoders:
                decoders[number] = ArrowDecoder(schema, topic.topic, number)
            yield from decoders[number].tables(columns)

    return followed(found, wait_ms, clock, idle_ms=idle_ms, look_ms=POLL_MS)
