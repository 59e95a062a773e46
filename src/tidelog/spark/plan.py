"""Which offsets a batch read takes, and how they become tasks of about equal bytes.

Owns the choice of partitions, the resolution of offsets and the packing into tasks. Must not know
Spark's classes, so it can be tested without a session. Spark: ``KafkaOffsetReader`` and
``KafkaOffsetRangeCalculator``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import InvalidArgument, OffsetOutOfRange, UnknownTopicOrPartition
from tidelog.log.reader import open_read_only
from tidelog.manager.log_dirs import live_partitions
from tidelog.segment.filenames import log_directory_name
from tidelog.spark.options import EARLIEST, LATEST, MEGABYTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.env.files import FileSystem
    from tidelog.log.reader import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options import OffsetChoice, ReadOptions, TopicChoice

SMALLEST_TASK_BYTES: Final = 8 * MEGABYTE
"""A smaller task costs more to start than it gains by running beside others."""

_GRAINS: Final = 16
"""Shares per task: the finer, the more equal the tasks."""

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that a pattern never means. Source: Kafka ``exclude.internal.topics``."""


class OffsetRange(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of one partition, about ``size_bytes`` of its log."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int


def plan(fs: FileSystem, options: ReadOptions, cores: int) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task; no tasks where there is nothing to read.

    Raises:
        UnknownTopicOrPartition: a topic or partition asked for is not in the directory.
        OffsetOutOfRange: an offset asked for is not in the log.
        InvalidArgument: offsets were given for some partitions only, or end before they start.
    """
    found = choose(list_partitions(fs, options.path), options.choice, options.path)
    for name, choice in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        _check_complete(name, choice, found)
    logs = [_open(fs, options.path, place) for place in found]
    ranges = [(log, *_bounds(log, options)) for log in logs]
    total = sum(log.size_bytes for log, start, end in ranges if start < end)
    count = task_count(total, options, cores)
    grain = max(total // (count * _GRAINS), 1)
    shares = [
        OffsetRange(log.topic, log.partition, *share)
        for log, start, end in ranges
        for share in log.splits(start, end, grain)
    ]
    return pack(shares, count)


def list_partitions(fs: FileSystem, path: str) -> list[TopicPartition]:
    """Return the partitions whose directories lie in a data directory, in order.

    Raises:
        InvalidArgument: there is no such directory.
    """
    try:
        return live_partitions(fs, path)
    except OSError as error:
        raise InvalidArgument(f"{path} is no data directory: {error.strerror}") from error


def choose(found: list[TopicPartition], choice: TopicChoice, path: str) -> list[TopicPartition]:
    """Return the partitions that ``choice`` means out of those found."""
    if choice.pattern is not None:
        pattern = choice.pattern
        return [
            place
            for place in found
            if place.topic not in INTERNAL_TOPICS and pattern.fullmatch(place.topic)
        ]
    topics = choice.topics if choice.assigned is None else tuple(choice.assigned)
    missing = [topic for topic in topics if topic not in {place.topic for place in found}]
    if missing:
        there = ", ".join(sorted({place.topic for place in found})) or "none"
        raise UnknownTopicOrPartition(f"no topic {missing[0]} in {path}; topics there: {there}")
    if choice.assigned is None:
        return [place for place in found if place.topic in topics]
    wanted = {(topic, n) for topic, numbers in choice.assigned.items() for n in numbers}
    absent = wanted - set(found)
    if absent:
        topic, number = min(absent)
        raise UnknownTopicOrPartition(f"topic {topic} in {path} has no partition {number}")
    return [place for place in found if place in wanted]


def task_count(total_bytes: int, options: ReadOptions, cores: int) -> int:
    """Return how many tasks to make: enough for the cores, none above ``max_split_bytes``."""
    for_cores = min(cores, total_bytes // SMALLEST_TASK_BYTES)
    for_size = -(-total_bytes // options.max_split_bytes)
    return max(for_cores, for_size, options.min_partitions, 1)


def pack(shares: Iterable[OffsetRange], count: int) -> list[tuple[OffsetRange, ...]]:
    """Put shares, in order, into up to ``count`` tasks of about equal bytes."""
    ordered = list(shares)
    total = sum(share.size_bytes for share in ordered)
    tasks: list[list[OffsetRange]] = []
    before = 0
    for share in ordered:
        # A share belongs to the task in which its middle lies.
        number = (before + share.size_bytes // 2) * count // max(total, 1)
        before += share.size_bytes
        while len(tasks) <= min(number, count - 1):
            tasks.append([])
        _extend(tasks[-1], share)
    return [tuple(task) for task in tasks if task]


def _extend(task: list[OffsetRange], share: OffsetRange) -> None:
    """Add a share, as one range with the one before it where they adjoin."""
    last = task[-1] if task else None
    if last and last[:2] == share[:2] and last.end_offset == share.start_offset:
        size_bytes = last.size_bytes + share.size_bytes
        task[-1] = last._replace(end_offset=share.end_offset, size_bytes=size_bytes)
    else:
        task.append(share)


def _open(fs: FileSystem, path: str, place: TopicPartition) -> ReadOnlyLog:
    return open_read_only(os.path.join(path, log_directory_name(*place)), fs=fs)


def _check_complete(name: str, choice: OffsetChoice, found: list[TopicPartition]) -> None:
    if isinstance(choice, int):
        return
    given, chosen = set(choice), {(place.topic, place.partition) for place in found}
    if given != chosen:
        differing = ", ".join(f"{topic}-{n}" for topic, n in sorted(given ^ chosen))
        raise InvalidArgument(
            f"{name} must name each partition that is read and no other; differing: {differing}"
        )


def _bounds(log: ReadOnlyLog, options: ReadOptions) -> tuple[int, int]:
    start = _resolve(options.starting, log)
    end = _resolve(options.ending, log)
    if start > end:
        raise InvalidArgument(
            f"{log.topic}-{log.partition} would be read from offset {start} to {end}, which is less"
        )
    return start, end


def _resolve(choice: OffsetChoice, log: ReadOnlyLog) -> int:
    offset = choice if isinstance(choice, int) else choice[log.topic, log.partition]
    if offset == EARLIEST:
        return log.log_start_offset
    if offset == LATEST:
        return log.high_watermark
    if not log.log_start_offset <= offset <= log.high_watermark:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.high_watermark)
    return offset


def log_directories(path: str, ranges: Iterable[OffsetRange]) -> Iterator[tuple[str, OffsetRange]]:
    """Yield each range with the directory of its log."""
    for part in ranges:
        yield os.path.join(path, log_directory_name(part.topic, part.partition)), part
