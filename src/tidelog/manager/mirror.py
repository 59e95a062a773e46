"""Mirrors of topics from one data directory in another: the same batches at the same offsets.

A run copies what is new as one transaction: all of it is in the target, or nothing is. The source
is only read, beside any writer. Kafka: ``ReplicaFetcherThread``, which truncates where the two
differ; here that is an error, since nobody says which of them is right.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from tidelog.archive.claim_file import raise_known_start
from tidelog.codec.shown_rows import Named, PartitionNumber, TopicName
from tidelog.datadir.partition_directories import random_id
from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import (
    CommitPending,
    DataLoss,
    InconsistentTopicId,
    MirrorDiverged,
    UnknownTopicOrPartition,
)
from tidelog.manager.mirror_ranges import (
    CopiedBatches,
    MirrorRange,
    StagedRanges,
    check_topic_id,
    copy_batches,
    opened,
)
from tidelog.manager.producer_ids import begin_apart
from tidelog.readonly.group_positions import OFFSETS_TOPIC, read_committed_position
from tidelog.readonly.missing.holes import warn_of_lost
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.isolation import Isolation
from tidelog.records.known_records import known_records
from tidelog.records.memory import walk
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction
from tidelog.staging.finished import mirror_txn, read_finished
from tidelog.staging.journal import NewTopic, has_journal
from tidelog.staging.staged_file import MAX_TXN_BYTES, list_staged, transaction_hash
from tidelog.staging.staged_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.mirror_ranges import StageRanges
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import ReadOnlyTopic
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.staging.staged_run import StagedRun

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class MirroredPartition:
    """What is copied of one partition, or with `--dry-run` would be.

    Records that only the remote storage of a broker has are not copied.
    """

    topic: TopicName
    partition: PartitionNumber
    is_new_topic: Annotated[
        bool, Named("newTopic"), "Whether the mirror gets the topic by this run."
    ]
    start_offset: Annotated[int, "First offset that is copied."]
    end_offset: Annotated[int, "Log end of the mirror afterwards."]
    log_start_offset: Annotated[int, "Log start of the mirror afterwards."]
    batches: Annotated[int, "Batches that are copied."] = 0
    size_bytes: Annotated[int, "Their size, in bytes."] = 0
    settings_left_out: Annotated[
        tuple[Annotated[str, "Name."], ...],
        "Settings of tiered storage that the new topic does not get.",
    ] = ()
    is_archived: Annotated[
        bool, Named("archived"), "Whether tidelog's archive has records of it, which are copied."
    ] = False

    def add(self, copied: CopiedBatches) -> None:
        """Count what was copied, all of it."""
        if copied.batches:
            self.start_offset, self.end_offset = copied.start_offset, copied.end_offset
            self.batches, self.size_bytes = copied.batches, copied.size_bytes
        self.log_start_offset = min(self.log_start_offset, self.end_offset)


_IDENTITY: Final = (
    *("base_offset", "last_offset", "leader_epoch"),
    *("producer_id", "producer_epoch", "base_sequence", "crc"),
)
"""What identifies a batch; the last, only where no compaction may have rewritten it."""


class Mirror:
    """One run from a source, opened to be read only, into a directory of a manager.

    Args:
        source: the directories to copy from, beside their writer if they have one.
        manager: what holds the target, with logs loaded on first use.
        path: the data directory of the manager that gets the topics.
        is_plan: find out what would be copied, and change nothing.
        stage: reads and stages the batches, or only counts them for a plan; None: this process
            does.
        on_read: called by this process after each piece that is read, with the partition's name,
            its bytes so far, and the bytes that the source has of it.
    """

    def __init__(
        self,
        source: ReadOnlyDirectory,
        manager: LogManager,
        path: str,
        *,
        is_plan: bool = False,
        stage: StageRanges | None = None,
        on_read: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self._source = source
        self._manager = manager
        self._path = path
        self._is_plan = is_plan
        self._stage = stage or self._stage_here
        self._on_read = on_read
        self._new: dict[str, NewTopic] = {}
        self._left_out: dict[str, tuple[str, ...]] = {}
        self._wider: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}

    def run(self, topics: Collection[str] = ()) -> list[MirroredPartition]:
        """Copy what is new of some topics, or of all; return what was copied, by partition.

        Batches count that lie below the high watermark of the source as a whole; transactions that
        are open there are open in the mirror, too.

        Raises:
            UnknownTopicOrPartition: a topic is not in the source, or a partition of it lies in a
                directory beside the target.
            PartitionsElsewhere: partitions are in directories that are not in the source, and it
                was not opened to be read in part.
            InconsistentTopicId: the target has a topic of this name and another id.
            MirrorDiverged: the mirror is not the beginning of its source.
            DataLoss: a partition of the source is missing.
            CommitPending: an earlier run is committed and not applied yet.
            CorruptMessage: a batch of the source is damaged.
            KafkaStorageError: a disk failed, or is full, a topic's deletion cannot be completed, or
                the source's catalogue cannot be read. Nothing was copied, as with all of these.
            CommitUnfinished: it is committed; the next opening of the target completes it.
        """
        self._source.check_catalogue()
        named = [self._source.topic(name) for name in sorted(set(topics)) or self._source.topics]
        self._source.check_present({topic.name: None for topic in named})
        # Of what is read in part, a topic may lie in another data directory as a whole.
        chosen = [topic for topic in named if topic.partitions or topic.missing]
        elsewhere = [topic.name for topic in named if topic not in chosen and topic.name in topics]
        if elsewhere:
            raise UnknownTopicOrPartition(
                f"all partitions of topic {elsewhere[0]} lie in another data directory; mirror that"
            )
        for topic in chosen:
            self._prepare(topic)
        txn = self._new_txn()
        if not self._is_plan:
            begin_apart(self._manager.machine.fs, self._path, self._manager.machine.rng)
        planned = [self._range(topic, number) for topic in chosen for number in topic.partitions]
        planned = self._without_positions_ahead(planned)
        ranges = [one for _, one in planned if one.start_offset < one.end_offset]
        try:
            staged = self._stage(txn, ranges)
            if not self._is_plan:
                self._commit(txn, staged.runs)
        except BaseException:
            if not self._is_plan and not has_journal(self._manager.machine.fs, self._path, txn):
                with suppress(OSError):  # the next run deletes what is left
                    self._delete_staged([txn])
            raise
        copied = dict(zip(ranges, staged.copied, strict=True))
        for done, one in planned:
            done.add(copied.get(one, CopiedBatches()))
            if not self._is_plan:
                log = self._moved_log_start(done)
                # Once the mirror is a source, readers come with positions beyond its end: without
                # another epoch there, they would pass over what it appends below those.
                log.begin_epoch_of_copy()
        return [done for done, _ in planned]

    def _commit(self, txn: str, runs: Sequence[StagedRun]) -> None:
        for name, partitions in self._wider.items():
            self._manager.create_partitions(name, partitions)
        new = [topic for _, topic in sorted(self._new.items())]
        for topic, number in sorted({(run.topic, run.partition) for run in runs}):
            log = self._target(topic, number)
            if log is not None:
                log.drop_epoch_of_copy()
        if runs or new:
            transaction = Transaction(txn, False, tuple(runs), tuple(new), self._ids)
            self._manager.staged_commits.commit(self._path, transaction)

    def _prepare(self, topic: ReadOnlyTopic) -> None:
        """Check a topic, and find out what the target has of it."""
        name = topic.name
        if topic.missing:
            number = topic.missing[0]
            path = self._source.part_of(name, number).path
            raise DataLoss(name, number, 0, None, f"its directory in {path} is gone")
        known = self._manager.topics().get(name)
        partitions = max(topic.partitions, default=0) + 1
        if known is None:
            topic_id = topic.topic_id or random_id(self._manager.machine.rng)
            if not self._is_plan:
                self._manager.finish_deletion(name, topic_id)
            config, birth, self._left_out[name] = topic.settings_of_copy()
            self._new[name] = NewTopic(name, topic_id, partitions, config, birth)
            return
        if topic.topic_id not in {None, known.topic_id}:
            raise InconsistentTopicId(
                f"topic {name} has id {topic.topic_id} in {self._source.name} and"
                f" {known.topic_id} in {self._path}: it was created again, or is another topic"
            )
        self._check_here(known, topic.partitions)
        if partitions > max(known.partitions, default=-1) + 1:
            self._wider[name] = partitions
        self._ids[name] = known.topic_id

    def _check_here(self, known: Topic, numbers: Collection[int]) -> None:
        """Raise UnknownTopicOrPartition for a partition that lies beside the target."""
        log_dirs = self._manager.shared.log_dirs
        for number in sorted(known.partitions.keys() & set(numbers)):
            if log_dirs.with_id(known.partitions[number]) is None:
                key, home = TopicPartition(known.name, number), known.partitions[number]
                todo = "name the topics to mirror without it, or another target"
                raise log_dirs.not_here(key, home, todo)

    def _new_txn(self) -> str:
        """Return an id for the transaction, after deleting what killed runs left behind.

        Ids are used again: those of commits that may still come back are known as finished.
        """
        fs = self._manager.machine.fs
        known = read_finished(fs, self._path)
        source = os.fsencode(self._source.name).decode(errors="backslashreplace")
        if len(source.encode()) > MAX_TXN_BYTES // 2:
            source = transaction_hash(source)
        names = [mirror_txn(number, source) for number in range(len(known) + 3)]
        pending = {txn for _, txn in self._manager.staged_commits.pending}
        committed = next((txn for txn in names if txn in pending), None)
        if committed is not None:
            raise CommitPending(f"transaction {committed!r} is committed and not applied yet")
        if not self._is_plan:
            self._delete_staged(names)
        return next(txn for txn in names if txn not in known)

    def _delete_staged(self, txns: Collection[str]) -> None:
        fs, ours = self._manager.machine.fs, {transaction_hash(txn) for txn in txns}
        for name in list_staged(fs, self._path):
            if name.split(".")[1] in ours:
                delete_if_there(fs, os.path.join(self._path, name))

    def _range(self, topic: ReadOnlyTopic, number: int) -> tuple[MirroredPartition, MirrorRange]:
        """Find out what is new of a partition."""
        with self._source.open(topic.name, number) as log:
            if log.damage is not None:
                raise log.damage  # else the mirror would end there, as if that were the end
            start, end = log.log_start_offset, log.high_watermark
            log.check_undamaged(end)
            target = self._target(topic.name, number)
            found = 0 if target is None else target.log_end_offset
            if target is not None:
                self._check(topic, log, target)
            first = max(found, start)
            check_topic_id(self._source, topic.name, number, topic.topic_id)
            holes = self._source.unexplained_holes(log, log.find_holes(first, end))
            warn_of_lost(log.directory, holes)
            is_new = topic.name in self._new
            # Of a source that has deleted all its records, the mirror gets the end: below that,
            # appends after a hand-over would get offsets that consumers have passed.
            ends_at = found if first < end else first
            done = MirroredPartition(topic.name, number, is_new, ends_at, ends_at, start)
            done.log_start_offset = max(start, 0 if target is None else target.log_start_offset)
            done.settings_left_out = self._left_out.get(topic.name, ())
            done.is_archived = log.is_archived
            return done, MirrorRange(
                *(topic.name, number, topic.topic_id, found, first, max(first, end)),
                segment_bytes=self._segment_bytes(topic.name),
            )

    def _without_positions_ahead(
        self, planned: list[tuple[MirroredPartition, MirrorRange]]
    ) -> list[tuple[MirroredPartition, MirrorRange]]:
        """Put off the positions of groups whose records are not copied yet.

        A directory's checkpoint has no position before its record, but the checkpoint of another
        directory may be seconds younger. Groups would pass over what the mirror appends there once
        it is a source.
        """
        if len(self._source.paths) == 1:
            return planned
        ends = {(each.topic, each.partition): each.end_offset for _, each in planned}
        return [
            (done, each._replace(end_offset=self._end_of_positions(each, ends)))
            if each.topic == OFFSETS_TOPIC and each.start_offset < each.end_offset
            else (done, each)
            for done, each in planned
        ]

    def _end_of_positions(self, each: MirrorRange, ends: Mapping[tuple[str, int], int]) -> int:
        """Return up to where the positions in a range lie within what is copied.

        One beyond the end of the log in the source, too, was not set by a reader of it.
        """
        with opened(self._source, each) as log:
            records = log.records(each.start_offset, each.end_offset)
            for record, found in known_records(records, read_committed_position, log.directory):
                position, end = found.position, ends.get(found.key)
                if position is None or end is None or position.offset <= end:
                    continue
                topic_id = self._source.topic(found.key.topic).topic_id
                if position.topic_id in {None, topic_id}:
                    with self._source.open(*found.key) as now:
                        if position.offset <= now.log_end_offset:
                            return record.offset
        return each.end_offset

    def _stage_here(self, txn: str, ranges: Sequence[MirrorRange]) -> StagedRanges:
        """Stage the ranges in this process."""
        fs, rng = self._manager.machine.fs, self._manager.machine.rng
        writer = BundleWriter(LocalFolder(fs, self._path), txn, rng=rng, keeps_offsets=True)
        to = None if self._is_plan else writer
        copied = []
        try:
            for each in ranges:
                with opened(self._source, each) as log:
                    copied.append(copy_batches(log, each, to, on_read=partial(self._show, log)))
            return StagedRanges(writer.finish(), copied)
        except BaseException:
            writer.abandon()
            raise

    def _show(self, log: ReadOnlyLog, copied: CopiedBatches) -> None:
        self._on_read(f"{log.topic}-{log.partition}", copied.size_bytes, log.size_bytes)

    def _target(self, topic: str, number: int) -> Log | None:
        known = self._manager.topics().get(topic)
        if known is None or number not in known.partitions:
            return None
        return self._manager.partition(topic, number).log

    def _segment_bytes(self, topic: str) -> int:
        new = self._new.get(topic)
        if new is None:
            return self._manager.config_of(topic).segment_size_bytes
        defaults = self._manager.config.log_defaults
        return defaults.with_overrides(new.config).segment_size_bytes

    def _check(self, topic: ReadOnlyTopic, log: ReadOnlyLog, target: Log) -> None:
        """Raise MirrorDiverged unless the last batch of the mirror is one of its source's.

        Where retention or compaction has taken it away from the source, nothing can be compared.
        """
        end, key = target.log_end_offset, (log.topic, log.partition)
        if end > log.log_end_offset:
            last = log.log_end_offset
            raise MirrorDiverged(*key, end, f"the source ends at {last}", last)
        if end <= max(log.log_start_offset, target.log_start_offset):
            return
        ours = _last_batch(target, self._manager.machine.fs)
        theirs = _batch_at(log, end - 1)
        if ours is None or theirs is None:
            return
        policy = target.config.cleanup_policy
        if topic.is_compacted or "cleanup.policy" in topic.unknown_settings or "compact" in policy:
            ours, theirs = ours[:-1], theirs[:-1]
        if ours != theirs:
            raise MirrorDiverged(*key, end, "the source has another batch before this offset")

    def _moved_log_start(self, done: MirroredPartition) -> Log:
        """Let the log of a partition begin where its source does; return it."""
        log = self._manager.partition(done.topic, done.partition).log
        if log.log_end_offset < done.end_offset:
            key = TopicPartition(done.topic, done.partition)
            self._manager.truncation.truncate_fully_and_start_at(key, done.end_offset)
        elif log.log_start_offset < done.log_start_offset <= log.log_end_offset:
            log.maybe_increment_log_start_offset(done.log_start_offset)
            log.delete_segments_below_start()
        else:
            return log
        # An archive of the mirror's own may have what the source has deleted.
        raise_known_start(self._manager.machine.fs, log, done.partition)
        return log


def _last_batch(log: Log, fs: FileSystem) -> list[int] | None:
    """Return the batch that a log ends with; None if there is none at its last offset."""
    last = log.log_end_offset - 1
    if last < log.local_log_start_offset:  # only its archive has it
        with open_read_only(log.directory, fs=fs) as whole:
            return _batch_at(whole, last)
    with log.read(last, isolation=Isolation.LOG_END) as found:
        batches = walk(found.read()).batches
    held = batches.select(batches.last_offset == last)
    return _identity(held, -1) if len(held) else None


def _batch_at(log: ReadOnlyLog, offset: int) -> list[int] | None:
    """Return the batch of a source that holds an offset; None if it is no longer there."""
    for piece in log.pieces(offset, offset + 1):
        held = piece.batches_in_data
        held = held.select((held.base_offset <= offset) & (held.last_offset >= offset))
        if len(held):
            return _identity(held, 0)
    return None


def _identity(batches: BatchColumns, number: int) -> list[int]:
    return [int(getattr(batches, name)[number]) for name in _IDENTITY]
