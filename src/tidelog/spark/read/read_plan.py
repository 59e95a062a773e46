"""Which offsets a batch read takes, and how ranges become tasks of about equal bytes.

Owns the packing into tasks. Must not know Spark's classes, so it can be tested without a session.
Spark: ``KafkaOffsetRangeCalculator``.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.spark.options.source_options import MEGABYTE
from tidelog.spark.read.data_loss import DELETED, LossPolicy
from tidelog.spark.read.offset_bounds import bounds, check_complete
from tidelog.spark.read.topic_partitions import PartitionDirectories, choose, list_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options.source_options import ReadOptions

SMALLEST_TASK_BYTES: Final = 8 * MEGABYTE
"""A smaller task costs more to start than it gains by running beside others."""

_GRAINS: Final = 16
"""Shares per task: the finer, the more equal the tasks."""

_WHOLE: Final = 1 << 62


class OffsetRange(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of one partition, about ``size_bytes`` of its log.

    ``topic_id`` is the topic's when the range was planned, in Kafka's form; None: unknown.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int
    topic_id: str | None = None

    def part(self, start_offset: int, end_offset: int) -> OffsetRange:
        """Return offsets ``[start_offset, end_offset)`` of the range, with their share of bytes."""
        size_bytes = self.size_bytes * (end_offset - start_offset) // max(self.offsets, 1)
        return self._replace(
            start_offset=start_offset, end_offset=end_offset, size_bytes=size_bytes
        )

    @property
    def offsets(self) -> int:
        """How many offsets there are, which is the most records it can hold."""
        return self.end_offset - self.start_offset


class LogRange(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` to read of an open log."""

    log: ReadOnlyLog
    topic_id: str | None
    start_offset: int
    end_offset: int


Task = tuple[OffsetRange, ...]


def plan(fs: FileSystem, options: ReadOptions, cores: int) -> list[Task]:
    """Return the ranges of each task; no tasks where there is nothing to read.

    Raises:
        UnknownTopicOrPartition: a topic or partition asked for is not in the directory.
        DataLoss: an offset asked for is not in the log, and ``failOnDataLoss`` holds.
        InvalidArgument: offsets were given for some partitions only, or end before they start.
    """
    found = choose(list_partitions(fs, options.path), options.choice, options.path)
    for choice in (options.starting, options.ending):
        check_complete(choice, found)
    ranges = []
    for place in found:
        resolved = _resolved(fs, options, place)
        if resolved is not None:
            ranges.append(resolved)
    return make_tasks(ranges, options, cores)


def _resolved(fs: FileSystem, options: ReadOptions, place: TopicPartition) -> LogRange | None:
    """Return what to read of one partition; None if it goes away meanwhile and may."""
    policy = LossPolicy(options.fail_on_data_loss)
    for _ in range(2):  # a segment that goes away takes the log start with it: look again
        directories = PartitionDirectories(fs, options.path)
        try:
            log = directories.open(*place)
            start, end = bounds(log, options, policy, fs=fs)
            return LogRange(log, directories.topic_id(*place), start, end)
        except FileNotFoundError:
            continue
    policy.report(*place, 0, None, DELETED)
    return None


def make_tasks(ranges: Iterable[LogRange], options: ReadOptions, cores: int) -> list[Task]:
    """Cut ranges into tasks of about equal bytes, as many as ``cores`` and options ask for."""
    wanted = list(ranges)
    total = sum(share.size_bytes for each in wanted for share in _shares(each, _WHOLE))
    count = task_count(total, options, cores)
    grain = max(total // (count * _GRAINS), 1)
    tasks = pack((share for each in wanted for share in _shares(each, grain)), count)
    if options.max_records_per_task is not None:
        tasks = limit_offsets(tasks, options.max_records_per_task)
    return at_least(tasks, options.min_partitions)


def _shares(part: LogRange, target_bytes: int) -> list[OffsetRange]:
    log = part.log
    splits = log.splits(part.start_offset, part.end_offset, target_bytes)
    return [OffsetRange(log.topic, log.partition, *split, part.topic_id) for split in splits]


def task_count(total_bytes: int, options: ReadOptions, cores: int) -> int:
    """Return how many tasks to make: enough for the cores, none above ``max_split_bytes``."""
    for_cores = min(cores, total_bytes // SMALLEST_TASK_BYTES)
    for_size = -(-total_bytes // options.max_split_bytes)
    return max(for_cores, for_size, options.min_partitions, 1)


def pack(shares: Iterable[OffsetRange], count: int) -> list[Task]:
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


def limit_offsets(tasks: Iterable[Task], most: int) -> list[Task]:
    """Cut tasks with more than ``most`` offsets into equal ones with no more."""
    limited: list[Task] = []
    for task in tasks:
        rest = task
        parts = -(-_offsets(task) // most)
        for left in range(parts, 1, -1):
            head, rest = _cut(rest, -(-_offsets(rest) // left))
            limited.append(head)
        limited.append(rest)
    return limited


def at_least(tasks: Iterable[Task], count: int) -> list[Task]:
    """Halve the largest tasks until there are ``count``, or only tasks of one offset."""
    heap = [(-_offsets(task), task) for task in tasks]
    heapq.heapify(heap)
    while heap and len(heap) < count and heap[0][0] < -1:
        _, largest = heapq.heappop(heap)
        for half in _cut(largest, _offsets(largest) // 2):
            heapq.heappush(heap, (-_offsets(half), half))
    return sorted(task for _, task in heap)


def _offsets(task: Task) -> int:
    return sum(part.offsets for part in task)


def _cut(task: Task, offsets: int) -> tuple[Task, Task]:
    """Part a task after so many offsets."""
    head: list[OffsetRange] = []
    rest = list(task)
    while rest and rest[0].offsets <= offsets:
        offsets -= rest[0].offsets
        head.append(rest.pop(0))
    if rest and offsets:
        first = rest[0]
        middle = first.start_offset + offsets
        head.append(first.part(first.start_offset, middle))
        rest[0] = first.part(middle, first.end_offset)
    return tuple(head), tuple(rest)


def _extend(task: list[OffsetRange], share: OffsetRange) -> None:
    """Add a share, as one range with the one before it where they adjoin."""
    last = task[-1] if task else None
    if last and last[:2] == share[:2] and last.end_offset == share.start_offset:
        size_bytes = last.size_bytes + share.size_bytes
        task[-1] = last._replace(end_offset=share.end_offset, size_bytes=size_bytes)
    else:
        task.append(share)
