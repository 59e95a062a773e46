"""Plans a stream: the offsets where each micro-batch ends, and the tasks of a micro-batch.

A plan lives as long as its query, so it keeps the logs that it has opened. It uses none of Spark's
classes, so it can be tested without a session. Spark: ``KafkaMicroBatchStream``.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.env.files import is_gone
from tidelog.errors import InvalidArgument, KafkaStorageError, UnknownTopicOrPartition
from tidelog.readonly.epoch_lineage import cause_of_parting, lineage, parting
from tidelog.readonly.log_range import LogRange
from tidelog.readonly.read_again import ATTEMPTS
from tidelog.records.isolation import ReadUpTo
from tidelog.spark.read.data_loss import (
    DELETED,
    MOVED_BACK_HINT,
    NEW_TOPIC_HINT,
    NOT_SELECTED,
    OTHERS_HINT,
    RECREATED,
    DataLossPolicy,
)
from tidelog.spark.read.offset_bounds import check_complete, resolve, visible_end
from tidelog.spark.read.read_limits import RateLimit
from tidelog.spark.read.read_plan import make_tasks
from tidelog.spark.read.stream_offsets import StreamOffset
from tidelog.spark.read.topic_partitions import (
    PartitionDirectories,
    is_selected,
    wanted_topics,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.errors import CorruptMessage, TidelogError
    from tidelog.readonly.epoch_lineage import Epochs
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.read_plan import Task
    from tidelog.spark.read.stream_offsets import Json

_log = logging.getLogger(__name__)

TASKS_PER_CORE: Final = 2
"""A task costs some milliseconds, so small ranges share one."""


class _Snapshot(NamedTuple):
    """A partition as last read: its log, and the end (exclusive) of what the stream may read.

    ``high_watermark`` is the one in the checkpoint file; None: the file has no entry. ``damage`` is
    what keeps the stream from reading more. ``epochs`` are all leader epochs that are known.
    """

    log: ReadOnlyLog
    topic_id: str | None
    high_watermark: int | None
    visible: int
    damage: CorruptMessage | None
    epochs: Epochs


class StreamPlan:
    """Plans the micro-batches of one query.

    Offsets are passed as JSON values (``StreamOffset``). An offset keeps its meaning across
    restarts, as long as the log holds it.
    """

    def __init__(self, fs: FileSystem, options: ReadOptions, *, clock: Clock, cores: int) -> None:
        self._fs = fs
        self._options = options
        self._cores = cores
        self._policy = DataLossPolicy(options.fail_on_data_loss)
        self._snapshots: dict[TopicPartition, _Snapshot] = {}
        self._initial: StreamOffset | None = None
        self._initial_error: TidelogError | None = None
        self._absent: str | None = None
        self._latest: StreamOffset | None = None
        self._without_start: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._is_bounded = False
        self._has_asked_metadata = False
        self._limit = RateLimit(options.limits, clock)

    def initial(self) -> Json:
        """Return where a new query begins; later calls return the same offset.

        Spark also asks for it when it repeats the first batch after a restart. That batch holds
        its own start, so partitions that have appeared since must not fail it: an offset that
        cannot be resolved is an error of the call of ``latest`` that begins at this offset.
        """
        if self._initial is None:
            try:
                snapshots = self._refresh(is_new=True)
                check_complete(self._options.starting, snapshots)
            except (InvalidArgument, UnknownTopicOrPartition) as error:
                self._initial_error = error
                snapshots = self._snapshots
            found = StreamOffset(self._resolved(snapshots), _topic_ids(snapshots))
            self._initial = _with_epochs(found, snapshots)
        return self._initial.to_json()

    def _resolved(self, snapshots: Mapping[TopicPartition, _Snapshot]) -> dict[TopicPartition, int]:
        """Return where a new query begins in each partition for which that can be determined."""
        offsets: dict[TopicPartition, int] = {}
        named = self._options.starting.by_partition
        for partition, each in snapshots.items():
            if named is not None and partition not in named:
                continue
            try:
                offsets[partition] = resolve(self._options.starting, each.log, each.visible)
            except InvalidArgument as error:
                self._initial_error = self._initial_error or error
        return offsets

    def bound(self) -> None:
        """End the query at what is available: the next call of ``latest`` fixes its end."""
        self._is_bounded = True

    def latest(self, start: Json | None, *, is_limited: bool = True) -> Json:
        """Return the end of a batch that begins at ``start``; ``start`` itself if nothing is new.

        Args:
            start: an offset that this plan, or the plan of an earlier run, returned; None: not
                known, nor whether the query is new.
            is_limited: whether to apply the limits that the options set.

        Raises:
            InvalidArgument: a new query begins here, and ``startingOffsets`` lacks a partition, or
                no record is as late as a starting timestamp.
            CorruptMessage: a log is damaged where the batch begins.
            DataLoss: a partition is gone, its topic is another one, or its end moved back, and
                ``failOnDataLoss`` is true.
            UnknownTopicOrPartition: a topic or partition that the options name does not exist; if
                ``failOnDataLoss`` is false, only for a new query.
        """
        if start is None:
            return self._latest_without_start().to_json()
        begin = StreamOffset.from_json(start)
        error, self._initial_error = self._initial_error, None
        if error is not None and not begin.first_start and begin == self._initial:
            self._initial_error = error  # Spark may ask again
            raise error
        end = self._latest = available = self._available(begin)
        parted = self._parted(begin, available)
        if self._policy.fail_on_data_loss:
            # Spark records what this returns before it asks for tasks. A start against a wrong
            # directory would leave that directory's ids and ends in the checkpoint.
            self._report_lost(begin, available, parted)
        first = begin.read_again(parted)
        if is_limited and not self._is_bounded and self._limit.delay_batch(first, available):
            return start
        if is_limited:
            logs = {partition: each.log for partition, each in self._snapshots.items()}
            end = self._limit.apply(self._begins(first, available), available, logs)
        # Spark plans an empty first batch too, and may repeat it once there is more.
        if end.is_at(begin) and not parted and begin != self._initial:
            return start
        if self._initial is not None and begin.is_at(self._initial):
            end = replace(end, first_start=self._initial.offsets)
        return _with_epochs(end, self._snapshots).to_json()

    def _latest_without_start(self) -> StreamOffset:
        """Return what is available, and where the query begins if this is its first batch."""
        # Before the end is looked up: one that is found later may be above it.
        self.initial()
        self._latest = _with_epochs(self._available(StreamOffset({})), self._snapshots)
        begin = StreamOffset({}) if self._initial_error else self._initial or StreamOffset({})
        self._without_start = replace(self._latest, first_start=begin.offsets)
        return self._without_start

    def report(self) -> Json | None:
        """Return the end of the available offsets as of the last batch; None before the first.

        Spark shows it in the query's progress.
        """
        return None if self._latest is None else self._latest.plain()

    def tasks(self, start: Json, end: Json) -> list[Task]:
        """Return the tasks of the batch between two offsets.

        Raises:
            InvalidArgument, UnknownTopicOrPartition: as ``latest``, if that was not passed a start.
            DataLoss: some of its offsets are lost, and ``failOnDataLoss`` is true.
        """
        if start == end:
            return []
        error, self._initial_error = self._initial_error, None
        begin, finish = StreamOffset.from_json(start), StreamOffset.from_json(end)
        is_first = self._initial is not None and begin.is_at(self._initial)
        # Not of a first batch that is repeated: that was planned before the restart.
        if error is not None and is_first and finish == self._without_start:
            raise error
        # An end that was planned without a start has one of its own, whichever batch it ends.
        if finish.first_start and is_first:
            # The ids of a repeated first batch are those it was planned with.
            is_planned = begin.offsets == finish.first_start
            ids = begin.topic_ids if is_planned else finish.topic_ids
            begin = StreamOffset(finish.first_start, ids)
        parted = self._parted(begin, finish)
        self._report_lost(begin, finish, parted)
        begin = begin.read_again(parted)
        directories = self._opened()
        ranges = [
            part
            for partition, until in finish.offsets.items()
            if (part := self._range(directories, partition, begin, finish, until)) is not None
        ]
        return make_tasks(ranges, self._options, TASKS_PER_CORE * self._cores)

    def _available(self, begin: StreamOffset) -> StreamOffset:
        """Return the end of the available offsets; a bounded query keeps the first such end."""
        if self._is_bounded and self._target is not None:
            return self._target
        snapshots = self._refresh()
        visible = {partition: each.visible for partition, each in snapshots.items()}
        now = StreamOffset(visible, _topic_ids(snapshots))
        read = begin.read_again(self._parted(begin, now)).offsets
        offsets = {
            partition: _end_not_before(each, read.get(partition))
            if _is_same_topic(partition, begin, now)
            else each.visible
            for partition, each in snapshots.items()
        }
        for partition, each in snapshots.items():
            start = read.get(partition, each.log.log_start_offset)
            # Else the stream would wait for ever at damage that no task of it reads.
            if each.damage is not None and offsets[partition] <= start:
                raise each.damage
        available = StreamOffset(offsets, now.topic_ids)
        if self._is_bounded:
            self._target = available
        return available

    def _refresh(self, *, is_new: bool = False) -> dict[TopicPartition, _Snapshot]:
        """Return the state of all partitions chosen.

        A log is opened again only if its high watermark may have moved.
        """
        directories = self._opened(asks_holder=True)
        found = self._chosen(directories, is_strict=is_new or self._policy.fail_on_data_loss)
        if self._initial is None:
            self._policy.report_missing(directories.missing_of(self._options.choice))
        ids: dict[str, str | None] = {}
        looked = ((each, self._current(directories, each, ids)) for each in found)
        snapshots = {partition: each for partition, each in looked if each is not None}
        is_strict = self._policy.fail_on_data_loss
        if not snapshots and self._options.choice.pattern is None and is_strict:
            raise UnknownTopicOrPartition(
                "the topics that the stream reads were deleted from"
                f" {', '.join(self._options.paths)}"
            )
        self._snapshots = snapshots
        return snapshots

    def _opened(self, *, asks_holder: bool = False) -> PartitionDirectories:
        return PartitionDirectories(
            self._fs,
            self._options.paths,
            accept=self._options.accept,
            topics=wanted_topics(self._options.choice),
            asks_holder=asks_holder,
        )

    def _current(
        self,
        directories: PartitionDirectories,
        partition: TopicPartition,
        ids: dict[str, str | None],
    ) -> _Snapshot | None:
        """Return the state of a partition; None: it was deleted, and the next listing lacks it.

        It is looked for again where it is gone: left out of the offsets it would count as deleted,
        and it may have been moved to another of the directories. ``ids``: those of topics.
        """
        for _ in range(ATTEMPTS):
            if not directories.has(*partition):
                break
            path = directories.partition_path(*partition)
            try:
                if partition.topic not in ids:
                    ids[partition.topic] = directories.topic_id_text(*partition)
                return self._snapshot(directories, partition, ids[partition.topic])
            except UnknownTopicOrPartition:
                pass
            except KafkaStorageError:
                if not is_gone(self._fs, path):
                    raise
            ids.pop(partition.topic, None)
            directories.look_again()
        return None

    def _chosen(
        self, directories: PartitionDirectories, *, is_strict: bool
    ) -> list[TopicPartition]:
        """Return the partitions chosen that exist; log once what is named and does not exist.

        Raises UnknownTopicOrPartition instead if ``is_strict``.
        """
        choice = self._options.choice
        # Reading the cluster's metadata for each batch would take more time than small batches do.
        asks_metadata, self._has_asked_metadata = not self._has_asked_metadata, True
        try:
            return directories.chosen(choice, asks_metadata=asks_metadata)
        except UnknownTopicOrPartition as error:
            if is_strict:
                raise
            if str(error) != self._absent:
                self._absent = str(error)
                _log.warning("data-loss: %s", error)
            return directories.existing(choice)

    def _snapshot(
        self, directories: PartitionDirectories, partition: TopicPartition, topic_id: str | None
    ) -> _Snapshot:
        high_watermark = directories.high_watermark(*partition)
        previous = self._snapshots.get(partition)
        if previous is not None and previous[1:3] == (topic_id, high_watermark):
            to_high_watermark = self._options.up_to is ReadUpTo.HIGH_WATERMARK
            if to_high_watermark and previous.log.high_watermark == high_watermark:
                return previous
        with directories.open(*partition) as log:
            visible = visible_end(log, self._options)
            damage = log.damage_at(visible, committed=self._options.committed)
            return _Snapshot(log, topic_id, high_watermark, visible, damage, log.known_epochs())

    def _parted(self, begin: StreamOffset, end: StreamOffset) -> dict[TopicPartition, int]:
        """Return where logs have other records, below the start of a batch, than were read."""
        found = {}
        for partition, known in begin.epochs.items():
            if partition not in end.offsets or not _is_same_topic(partition, begin, end):
                continue
            each = self._snapshots.get(partition)
            now = end.epochs.get(partition, ()) if each is None else each.epochs
            at = parting(known, begin.offsets.get(partition, 0), now)
            if at is not None:
                found[partition] = at
        return found

    def _begins(self, begin: StreamOffset, end: StreamOffset) -> dict[TopicPartition, int]:
        """Return where the batch begins in each partition; a new one begins at its log start."""
        return {
            partition: begin.offsets[partition]
            if partition in begin.offsets and _is_same_topic(partition, begin, end)
            else self._snapshots[partition].log.log_start_offset
            for partition in end.offsets
            if partition in begin.offsets or partition in self._snapshots
        }

    def _report_lost(
        self, begin: StreamOffset, finish: StreamOffset, parted: Mapping[TopicPartition, int]
    ) -> None:
        """Report what a batch cannot read, as its two ends show, and where logs are others.

        These are the partitions that only its start contains, those of a topic with another id at
        its end, those whose log has other records below the start, and those that end before they
        start.
        """
        report, choice = self._policy.report, self._options.choice
        for partition, offset in begin.offsets.items():
            until = finish.offsets.get(partition)
            if until is None:
                cause = DELETED if is_selected(partition, choice) else NOT_SELECTED
                report(*partition, offset, None, cause)
            elif not _is_same_topic(partition, begin, finish):
                report(*partition, offset, None, RECREATED, hint=NEW_TOPIC_HINT)
            elif partition in parted:
                each = self._snapshots.get(partition)
                end = until if each is None else each.log.log_end_offset
                self._report_others(partition, parted[partition], offset, end)
            elif until < offset:
                cause = f"the end of the log moved back from {offset} to {until}"
                report(*partition, until, offset, cause, hint=MOVED_BACK_HINT)

    def _range(
        self,
        directories: PartitionDirectories,
        partition: TopicPartition,
        begin: StreamOffset,
        finish: StreamOffset,
        until: int,
    ) -> LogRange | None:
        """Return what a batch reads of one partition, to ``until`` (exclusive); None: nothing."""
        topic, number = partition
        topic_id = finish.topic_ids.get(topic)
        start = begin.offsets.get(partition)
        try:
            log = self._open(directories, partition, topic_id)
            if log is None:
                place = topic, number, start or 0, until
                self._policy.report(*place, RECREATED, hint=NEW_TOPIC_HINT)
                return None
            if start is None or not _is_same_topic(partition, begin, finish):
                start = 0  # offsets below the log start of a new partition are lost, too
            until = self._planned_end(log, partition, finish, until)
            if start < until:
                start, until = self._policy.available(log, start, until)
                self._policy.report_holes(log, directories.holes(log, start, until))
        except UnknownTopicOrPartition:
            self._policy.report(topic, number, start or 0, until, DELETED)
            return None
        return LogRange(log, start, until, topic_id) if start < until else None

    def _planned_end(
        self, log: ReadOnlyLog, partition: TopicPartition, finish: StreamOffset, until: int
    ) -> int:
        """Return up to where a log is the one that a batch was planned with; report the rest.

        It may have been restored since, if the batch is repeated after a restart.
        """
        each = self._snapshots.get(partition)
        now = each.epochs if each is not None and each.log is log else log.known_epochs()
        end = parting(finish.epochs.get(partition, ()), until, now)
        if end is None:
            return until
        self._report_others(partition, end, until, log.log_end_offset)
        return end

    def _report_others(
        self, partition: TopicPartition, at: int, offset: int, log_end_offset: int
    ) -> None:
        """Report the offsets ``[at, offset)`` of a log, which are not what was read."""
        cause = cause_of_parting(at, offset, log_end_offset)
        self._policy.report(*partition, at, offset, cause, hint=OTHERS_HINT)

    def _open(
        self, directories: PartitionDirectories, partition: TopicPartition, topic_id: str | None
    ) -> ReadOnlyLog | None:
        """Return the partition's log; None if its topic has another id than ``topic_id``."""
        snapshot, path = self._snapshots.get(partition), directories.partition_path(*partition)
        if snapshot is not None and (snapshot.topic_id, snapshot.log.directory) == (topic_id, path):
            return snapshot.log
        if topic_id is not None and directories.topic_id_text(*partition) != topic_id:
            return None
        with directories.open(*partition) as log:
            return log


def _topic_ids(snapshots: Mapping[TopicPartition, _Snapshot]) -> dict[str, str]:
    ids = {partition.topic: each.topic_id for partition, each in snapshots.items()}
    return {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}


def _with_epochs(end: StreamOffset, snapshots: Mapping[TopicPartition, _Snapshot]) -> StreamOffset:
    """Return an offset with the leader epochs of the records below it."""
    found = {
        partition: lineage(snapshots[partition].epochs, offset)
        for partition, offset in end.offsets.items()
        if partition in snapshots
    }
    return replace(end, epochs={partition: epochs for partition, epochs in found.items() if epochs})


def _end_not_before(snapshot: _Snapshot, offset: int | None) -> int:
    """Return the visible end, or the stream's own ``offset`` if that is later and in the log.

    The high watermark in the checkpoint file may be older than what the stream has read.
    """
    if offset is None or snapshot.visible >= offset:
        return snapshot.visible
    return min(offset, max(snapshot.log.log_end_offset, snapshot.visible))


def _is_same_topic(partition: tuple[str, int], begin: StreamOffset, end: StreamOffset) -> bool:
    before, now = (offset.topic_ids.get(partition[0]) for offset in (begin, end))
    return before is None or now is None or before == now
