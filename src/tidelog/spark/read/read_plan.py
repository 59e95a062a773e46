"""Plans a batch read: the offset ranges to read, packed into tasks of about equal size.

It uses none of Spark's classes, so it can be tested without a session.
Spark: ``KafkaOffsetRangeCalculator``.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import InvalidArgument, UnknownTopicOrPartition
from tidelog.readonly.log_range import LogRange
from tidelog.readonly.missing.damaged_range import ignore_damage
from tidelog.spark.options.source_options import MEGABYTE
from tidelog.spark.read.data_loss import DELETED, DataLossPolicy
from tidelog.spark.read.offset_bounds import bounds, check_complete
from tidelog.spark.read.topic_partitions import PartitionDirectories, wanted_topics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options.source_options import ReadOptions

SMALLEST_TASK_BYTES: Final = 8 * MEGABYTE
"""A smaller task costs more to start than it gains by running in parallel."""

_SHARES_PER_TASK: Final = 16
"""The smaller the shares that are packed, the more equal the tasks."""

MAX_TASKS: Final = 100_000
"""More tasks than that keep Spark's scheduler busy for longer than any scan takes."""

_UNLIMITED: Final = 1 << 62


class OffsetRange(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of one partition, about ``size_bytes`` of its log.

    ``topic_id`` is the topic's id at planning time, in Kafka's base64 form; None: unknown.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int
    topic_id: str | None = None

    def part(self, start_offset: int, end_offset: int) -> OffsetRange:
        """Return offsets ``[start_offset, end_offset)`` of the range, with a proportional size."""
        size_bytes = self.size_bytes * (end_offset - start_offset) // max(self.offsets, 1)
        return self._replace(
            start_offset=start_offset, end_offset=end_offset, size_bytes=size_bytes
        )

    @property
    def offsets(self) -> int:
        """The number of offsets: an upper bound of the number of records."""
        return self.end_offset - self.start_offset


Task = tuple[OffsetRange, ...]


def plan(fs: FileSystem, options: ReadOptions, cores: int) -> list[Task]:
    """Return the offset ranges of each task; no tasks if there is nothing to read.

    Raises:
        UnknownTopicOrPartition: the directory lacks a topic or partition that the options name.
        PartitionsElsewhere: some of the topics' partitions are in directories that are not named.
        DataLoss: a log lacks offsets that the options name, and ``failOnDataLoss`` is true.
        InvalidArgument: options name offsets of some partitions only, or an end before the start.
    """
    directories = _open(fs, options)
    found = directories.chosen(options.choice)
    DataLossPolicy(options.fail_on_data_loss).report_missing(directories.missing_of(options.choice))
    for choice in (options.starting, options.ending):
        check_complete(choice, found)
    ranges = []
    for partition in found:
        resolved = _resolve(fs, options, partition, directories)
        if resolved is not None:
            ranges.append(resolved)
    return make_tasks(ranges, options, cores)


def _open(fs: FileSystem, options: ReadOptions) -> PartitionDirectories:
    """Open the data directories; what is skipped of its logs is reported by the tasks."""
    on_damage = ignore_damage if options.skip_damage else None
    topics = wanted_topics(options.choice)
    return PartitionDirectories(
        fs, options.paths, on_damage, options.accept, topics, asks_holder=True
    )


def _resolve(
    fs: FileSystem,
    options: ReadOptions,
    partition: TopicPartition,
    directories: PartitionDirectories,
) -> LogRange | None:
    """Return what to read of one partition; None if it is deleted meanwhile and that is accepted.

    Raises:
        DataLoss: it is deleted meanwhile or lacks a segment, and ``failOnDataLoss`` is true.
    """
    policy = DataLossPolicy(options.fail_on_data_loss)
    for is_again in (False, True):  # a topic that was deleted may have been created again
        try:
            if is_again:
                directories = _open(fs, options)
            return range_of(directories, partition, options, policy)
        except UnknownTopicOrPartition:
            continue
    policy.report(*partition, 0, None, DELETED)
    return None


def range_of(
    directories: PartitionDirectories,
    partition: TopicPartition,
    options: ReadOptions,
    policy: DataLossPolicy,
) -> LogRange:
    """Return what to read of one partition; errors as ``bounds`` and ``DataLossPolicy``.

    Raises CorruptMessage, too, for damage that no task would come to.
    """
    with directories.open(*partition) as log:
        start, end = bounds(log, options, policy)
        bad = log.damage_at(end, committed=options.committed)
        # It keeps the read from beginning, or from continuing.
        if bad is not None and (start >= end or end < log.log_end_offset):
            raise bad
        policy.report_holes(log, directories.holes(log, start, end))
        return LogRange(log, start, end, directories.topic_id_text(*partition))


def make_tasks(ranges: Iterable[LogRange], options: ReadOptions, cores: int) -> list[Task]:
    """Return tasks of about equal size; ``cores`` and the options determine their number.

    Raises InvalidArgument if the options would make more than ``MAX_TASKS``.
    """
    all_ranges = list(ranges)
    total = sum(share.size_bytes for each in all_ranges for share in _shares(each, _UNLIMITED))
    count = task_count(total, options, cores)
    _check_count(count, "maxSplitBytes is too small, or minPartitions too large")
    share_bytes = max(total // (count * _SHARES_PER_TASK), 1)
    tasks = pack((share for each in all_ranges for share in _shares(each, share_bytes)), count)
    if options.max_records_per_task is not None:
        limit = options.max_records_per_task
        wanted = sum(-(-_offsets(task) // limit) for task in tasks)
        _check_count(wanted, "maxRecordsPerPartition is too small")
        tasks = limit_offsets(tasks, limit)
    return at_least(tasks, options.min_partitions)


def _check_count(tasks: int, reason: str) -> None:
    if tasks > MAX_TASKS:
        raise InvalidArgument(f"the read would take {tasks:,} tasks, not {MAX_TASKS:,}: {reason}")


def _shares(part: LogRange, target_bytes: int) -> list[OffsetRange]:
    log = part.log
    splits = log.splits(part.start_offset, part.end_offset, target_bytes)
    return [OffsetRange(log.topic, log.partition, *split, part.topic_id) for split in splits]


def task_count(total_bytes: int, options: ReadOptions, cores: int) -> int:
    """Return the number of tasks: enough for all cores, and for tasks of ``max_split_bytes``."""
    for_cores = min(cores, total_bytes // SMALLEST_TASK_BYTES)
    for_size = -(-total_bytes // options.max_split_bytes)
    return max(for_cores, for_size, options.min_partitions, 1)


def pack(shares: Iterable[OffsetRange], count: int) -> list[Task]:
    """Pack shares, in order, into at most ``count`` tasks of about equal size."""
    ordered = list(shares)
    total = sum(share.size_bytes for share in ordered)
    tasks: list[list[OffsetRange]] = []
    before = 0
    for share in ordered:
        # A share goes to the task that contains its midpoint.
        number = (before + share.size_bytes // 2) * count // max(total, 1)
        before += share.size_bytes
        while len(tasks) <= min(number, count - 1):
            tasks.append([])
        _extend(tasks[-1], share)
    return [tuple(task) for task in tasks if task]


def limit_offsets(tasks: Iterable[Task], limit: int) -> list[Task]:
    """Split tasks of more than ``limit`` offsets into equal ones that are within the limit."""
    limited: list[Task] = []
    for task in tasks:
        rest = task
        parts = -(-_offsets(task) // limit)
        for left in range(parts, 1, -1):
            head, rest = _split(rest, -(-_offsets(rest) // left))
            limited.append(head)
        limited.append(rest)
    return limited


def at_least(tasks: Iterable[Task], count: int) -> list[Task]:
    """Halve the largest tasks until there are ``count``, or all tasks have one offset."""
    heap = [(-_offsets(task), task) for task in tasks]
    heapq.heapify(heap)
    while heap and len(heap) < count and heap[0][0] < -1:
        _, largest = heapq.heappop(heap)
        for half in _split(largest, _offsets(largest) // 2):
            heapq.heappush(heap, (-_offsets(half), half))
    return sorted(task for _, task in heap)


def _offsets(task: Task) -> int:
    return sum(part.offsets for part in task)


def _split(task: Task, offsets: int) -> tuple[Task, Task]:
    """Split a task after its first ``offsets`` offsets."""
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
    """Add a share to a task; merge it with the last range if the two are adjacent."""
    last = task[-1] if task else None
    if last and last[:2] == share[:2] and last.end_offset == share.start_offset:
        size_bytes = last.size_bytes + share.size_bytes
        task[-1] = last._replace(end_offset=share.end_offset, size_bytes=size_bytes)
    else:
        task.append(share)
