"""What a stream reads next: offsets from moment to moment, and their tasks.

Owns the rules of a stream's offsets; lives as long as its query, so it remembers what it has seen.
Must not know Spark's classes. Spark: ``KafkaMicroBatchStream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.readonly.read_only_log import ReadUpTo
from tidelog.spark.read.data_loss import DELETED, RECREATED, LossPolicy
from tidelog.spark.read.offset_bounds import check_complete, resolve, visible_end
from tidelog.spark.read.read_limits import RateLimit
from tidelog.spark.read.read_plan import LogRange, make_tasks
from tidelog.spark.read.stream_offsets import StreamOffset
from tidelog.spark.read.topic_partitions import PartitionDirectories, choose, list_partitions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.read_plan import Task
    from tidelog.spark.read.stream_offsets import Json

TASKS_PER_CORE: Final = 2
"""Each task costs some milliseconds, so small ranges share one."""


class _Seen(NamedTuple):
    """A partition's log as it was looked at last, with the end that readers may see."""

    log: ReadOnlyLog
    topic_id: str | None
    watermark_line: int | None
    visible: int


class StreamPlan:
    """Tells where a stream stands and what its batches are.

    Offsets go in and out as JSON values. An offset that was given out and is given in again is the
    same place for ever, as long as the log holds it.
    """

    def __init__(self, fs: FileSystem, options: ReadOptions, *, clock: Clock, cores: int) -> None:
        self._fs = fs
        self._options = options
        self._cores = cores
        self._policy = LossPolicy(options.fail_on_data_loss)
        self._seen: dict[TopicPartition, _Seen] = {}
        self._initial: StreamOffset | None = None
        self._latest: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._is_bounded = False
        self._limit = RateLimit(options.limits, clock)

    def initial(self) -> Json:
        """Return where a new query begins; the same however often it is asked.

        Raises:
            InvalidArgument: ``startingOffsets`` leaves a partition out, or a time is too late.
        """
        if self._initial is None:
            seen = self._look()
            check_complete(self._options.starting, seen)
            offsets = {
                place: resolve(self._options.starting, each.log, each.visible, fs=self._fs)
                for place, each in seen.items()
            }
            self._initial = StreamOffset(offsets, _topic_ids(seen))
        return self._initial.to_json()

    def bound(self) -> None:
        """From here on take nothing that is not there yet: the query ends when it has read it."""
        self._is_bounded = True

    def latest(self, start: Json, *, is_limited: bool = True) -> Json:
        """Return the end of a batch that begins at ``start``; ``start`` itself if nothing is new.

        Args:
            start: an offset given out before.
            is_limited: keep to the limits that the options set.
        """
        begin = StreamOffset.from_json(start)
        end = self._latest = available = self._available(begin)
        if is_limited and not self._is_bounded and self._limit.is_to_wait(begin, available):
            return start
        if is_limited:
            logs = {place: each.log for place, each in self._seen.items()}
            end = self._limit.apply(self._begins(begin, available), available, logs)
        if end.is_at(begin):
            return start
        if self._initial is not None and begin.is_at(self._initial):
            end = StreamOffset(end.offsets, end.topic_ids, self._initial.offsets)
        return end.to_json()

    def report(self) -> Json | None:
        """Return the end of what is there, as last seen, for the query's progress."""
        return None if self._latest is None else self._latest.plain()

    def tasks(self, start: Json, end: Json) -> list[Task]:
        """Return the tasks of the batch between two offsets.

        Raises:
            DataLoss: some of its offsets are gone, and ``failOnDataLoss`` holds.
        """
        if start == end:
            return []
        begin, finish = StreamOffset.from_json(start), StreamOffset.from_json(end)
        if finish.begun:
            begin = StreamOffset(finish.begun, finish.topic_ids)
        self._report_gone(begin, finish)
        directories = PartitionDirectories(self._fs, self._options.path)
        ranges = [
            part
            for place, until in finish.offsets.items()
            if (part := self._range(directories, place, begin, finish, until)) is not None
        ]
        return make_tasks(ranges, self._options, TASKS_PER_CORE * self._cores)

    def _available(self, begin: StreamOffset) -> StreamOffset:
        """Return the end of all that may be read; in a bounded query, as it was at first."""
        if self._is_bounded and self._target is not None:
            return self._target
        seen = self._look()
        ids = _topic_ids(seen)
        offsets = {
            place: _never_back(each, begin.offsets.get(place))
            if begin.topic_ids.get(place.topic) == ids.get(place.topic)
            else each.visible
            for place, each in seen.items()
        }
        found = StreamOffset(offsets, ids)
        if self._is_bounded:
            self._target = found
        return found

    def _look(self) -> dict[TopicPartition, _Seen]:
        """Look at all partitions chosen; at those whose high watermark has not moved, not again."""
        found = choose(
            list_partitions(self._fs, self._options.path), self._options.choice, self._options.path
        )
        directories = PartitionDirectories(self._fs, self._options.path)
        ids = {}
        seen: dict[TopicPartition, _Seen] = {}
        for place in found:
            try:
                if place.topic not in ids:
                    ids[place.topic] = directories.topic_id(*place)
                seen[place] = self._look_at(directories, place, ids[place.topic])
            except (FileNotFoundError, KafkaStorageError):
                continue  # deleted since the listing; the next look will not find it
        if not seen and self._options.choice.pattern is None:
            raise UnknownTopicOrPartition(f"the topics in {self._options.path} were deleted")
        self._seen = seen
        return seen

    def _look_at(
        self, directories: PartitionDirectories, place: TopicPartition, topic_id: str | None
    ) -> _Seen:
        line = directories.checkpoints.high_watermarks.get(place)
        before = self._seen.get(place)
        if before is not None and before[1:3] == (topic_id, line):
            is_settled = line is not None and self._options.up_to is ReadUpTo.HIGH_WATERMARK
            if is_settled and before.log.high_watermark == line:
                return before
        log = directories.open(*place)
        return _Seen(log, topic_id, line, visible_end(log, self._options))

    def _begins(self, begin: StreamOffset, end: StreamOffset) -> dict[TopicPartition, int]:
        """Return where the batch begins in each partition; a new one begins at its log start."""
        return {
            place: begin.offsets[place]
            if place in begin.offsets and _is_same_topic(place, begin, end)
            else self._seen[place].log.log_start_offset
            for place in end.offsets
            if place in begin.offsets or place in self._seen
        }

    def _report_gone(self, begin: StreamOffset, finish: StreamOffset) -> None:
        """Report partitions that the batch's start has and its end has not."""
        for place, offset in begin.offsets.items():
            if place not in finish.offsets:
                self._policy.report(*place, offset, None, DELETED)

    def _range(
        self,
        directories: PartitionDirectories,
        place: TopicPartition,
        begin: StreamOffset,
        finish: StreamOffset,
        until: int,
    ) -> LogRange | None:
        """Return what a batch reads of one partition; None for nothing."""
        topic, number = place
        topic_id = finish.topic_ids.get(topic)
        start = begin.offsets.get(place)
        try:
            log = self._open(directories, place, topic_id)
            if log is None:
                self._policy.report(topic, number, start or 0, until, RECREATED)
                return None
            if start is None or not _is_same_topic(place, begin, finish):
                if start is not None:
                    self._policy.report(topic, number, start, None, RECREATED)
                start = 0  # what a new partition had below its log start counts as lost, too
            if until < start:
                cause = f"the offset of the log went back from {start} to {until}"
                self._policy.report(topic, number, until, start, cause)
                return None
            held = self._policy.held(log, start, until) if start < until else (start, until)
        except FileNotFoundError:
            self._policy.report(topic, number, start or 0, until, DELETED)
            return None
        return LogRange(log, topic_id, *held) if held[0] < held[1] else None

    def _open(
        self, directories: PartitionDirectories, place: TopicPartition, topic_id: str | None
    ) -> ReadOnlyLog | None:
        """Return the partition's log; None if it is of another topic than ``topic_id``."""
        seen = self._seen.get(place)
        if seen is not None and seen.topic_id == topic_id:
            return seen.log
        if topic_id is not None and directories.topic_id(*place) != topic_id:
            return None
        return directories.open(*place)


def _topic_ids(seen: Mapping[TopicPartition, _Seen]) -> dict[str, str]:
    return {place.topic: each.topic_id for place, each in seen.items() if each.topic_id is not None}


def _never_back(seen: _Seen, offset: int | None) -> int:
    """Return the end that may be seen, unless the stream is further on in what is still there."""
    if offset is None or seen.visible >= offset:
        return seen.visible
    return min(offset, max(seen.log.log_end_offset, seen.visible))


def _is_same_topic(place: tuple[str, int], begin: StreamOffset, end: StreamOffset) -> bool:
    before, now = (offset.topic_ids.get(place[0]) for offset in (begin, end))
    return before is None or now is None or before == now
