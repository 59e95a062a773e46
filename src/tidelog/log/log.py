"""One partition's log, as its owner uses it.

All changes run under one lock; each method states what it promises and leaves the work to the
module of that name. Kafka: ``UnifiedLog``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.compression import Codec
from tidelog.env.attempts import Closable
from tidelog.errors import (
    InvalidArgument,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRange,
    PolicyViolation,
)
from tidelog.log import closing, flushing, truncation
from tidelog.log.adoption import adopt_locked
from tidelog.log.append import AppendRequest, append
from tidelog.log.append_info import NO_GUARD, AppendInfo
from tidelog.log.context import LogContext, log_name_of
from tidelog.log.directory_guard import DirectoryGuard
from tidelog.log.leader_epoch import LeaderEpochCache, epoch_after_loss
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.log.loading.load_watch import SILENT
from tidelog.log.loading.loader import LogCheckpoints, LogLoader
from tidelog.log.local_log import LocalLog
from tidelog.log.producers.producer_append import UNKNOWN_TRANSACTION_VERSION
from tidelog.log.producers.producer_state import ProducerStateConfig, ProducerStateManager
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.log.reading.readable import ReadableLog
from tidelog.log.retention import retention_pass
from tidelog.log.retention.retention_rules import deletion_target
from tidelog.log.segment_swap import SegmentSwap
from tidelog.log.state import LogState
from tidelog.log.topic_id import TopicIdFile
from tidelog.records.builder import build_batch
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.own_records import OwnRecords
from tidelog.records.validation.rejection import ignore_rejections
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from random import Random
    from typing import Self
    from uuid import UUID

    from tidelog.codec.layout import Buffer
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.append_info import Appended, HighWatermarkRule
    from tidelog.log.archived import ArchivedOffsets
    from tidelog.log.flush_times import FlushTimes
    from tidelog.log.listeners import Listeners, LogListener
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
    from tidelog.log.retention.retention_rules import DeletedSegment
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.builder import RecordFields
    from tidelog.records.validation.rejection import OnRejected
    from tidelog.segment.segment import LogSegment

DEFAULT_PRODUCER_CONFIG: Final = ProducerStateConfig()


class Log(ReadableLog, Closable):
    """The log of one partition.

    Every change runs under one lock, ``LogState.lock``, which guards the segments, the offsets,
    producers, epochs and the settings; ``LogState`` names the fields. ``read``, ``records`` and the
    offsets need no lock and may run on any thread beside a writer. Offsets are exclusive ends,
    except ``log_start_offset``. A failed disk raises KafkaStorageError from any method.
    """

    def __init__(self, state: LogState) -> None:
        super().__init__(state)
        self.swap: Final = SegmentSwap(state)
        interval_ms = state.producers.config.expiration_check_interval_ms
        self._expiration = state.context.scheduler.schedule(
            "PeriodicProducerExpirationCheck",
            self._remove_expired_producers,
            delay_ms=interval_ms,
            period_ms=interval_ms,
        )

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        fs: FileSystem,
        clock: Clock,
        scheduler: Scheduler,
        rng: Random,
        config: LogConfig,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean_shutdown: bool = True,
        topic_id: UUID | None = None,
        on_failure: Callable[[str, OSError], None] | None = None,
        producer_config: ProducerStateConfig = DEFAULT_PRODUCER_CONFIG,
        watcher: LoadWatcher = SILENT,
        keep_cuts: KeepCuts = KeepCuts.IF_SPACE,
        cuts_contradictions: bool = False,
        recovery_threads: int = 1,
        flush_times: FlushTimes | None = None,
        keeps_epoch_at_end: bool = False,
    ) -> Self:
        """Open the log in ``directory``, which is created if missing, and recover it if needed.

        Args:
            directory: absolute path, named topic-partition.
            fs: the disk.
            clock: the time of day and for durations.
            scheduler: runs the log's background tasks.
            rng: spreads the times at which segments roll.
            config: the topic's settings.
            log_start_offset: as checkpointed, 0 if it was not.
            recovery_point: as checkpointed; offsets below it were flushed.
            clean_shutdown: whether the log was closed in order; else the log is checked from
                the segment of the recovery point on, and truncated at the first bad batch.
            topic_id: to be given to a log that has none; InconsistentTopicId if it has another.
            on_failure: called with the data directory and the error when the disk fails.
            producer_config: the broker's settings about producers.
            watcher: notified of the progress of a recovery, and of what it truncates.
            keep_cuts: whether what a recovery truncates is kept in cut files of the parent.
            cuts_contradictions: whether a recovery truncates also where the offsets of batches
                contradict each other and one damaged batch explains that; else the log takes no
                appends.
            recovery_threads: how many of the scheduler's threads check one segment together.
            flush_times: counts each flush of a segment.
            keeps_epoch_at_end: whether a leader epoch stays that begins at the log end, and has no
                record yet. Kafka drops it: the controller gives the leader one anyway.
        """
        directory = directory.rstrip("/")
        parent = directory.rpartition("/")[0]
        guard = DirectoryGuard(parent, on_failure, log=log_name_of(directory))
        context = LogContext(directory, config, fs, clock, scheduler, rng, guard)
        if flush_times is not None:
            context.flush_times = flush_times
        with guard.watch("loading the log"):
            names = _names_in(fs, directory)
            epochs = LeaderEpochCache.open(directory, fs=fs, scheduler=scheduler, guard=guard)
            snapshots = SnapshotFiles(directory, fs, names)
            producers = ProducerStateManager(
                directory, fs=fs, clock=clock, config=producer_config, snapshots=snapshots
            )
            checkpoints = LogCheckpoints(log_start_offset, recovery_point, clean_shutdown)
            loader = LogLoader(
                context,
                epochs,
                producers,
                checkpoints,
                watcher,
                keep_cuts=keep_cuts,
                cuts_contradictions=cuts_contradictions,
                recovery_threads=recovery_threads,
                keeps_epoch_at_end=keeps_epoch_at_end,
                names=names,
            )
            loaded = loader.load()
            local = LocalLog(context, loaded.segments)
            try:
                epochs.create()
                known_id = TopicIdFile(context, topic_id)
                state = LogState(
                    context,
                    local,
                    loaded.offsets,
                    producers=producers,
                    epochs=epochs,
                    topic_id=known_id,
                    contradiction=loaded.contradiction,
                )
            except BaseException:
                local.close_handlers()
                raise
            state.emptied_from = loaded.emptied_from
            return cls(state)

    # Appending

    def append_as_leader(
        self,
        records: Appended,
        leader_epoch: int = 0,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
        verification_guard: int = NO_GUARD,
        on_rejected: OnRejected = ignore_rejections,
        high_watermark_rule: HighWatermarkRule | None = None,
        may_change: bool = False,
    ) -> AppendInfo:
        """Check batches, give them the next offsets, and append them.

        Args:
            records: whole batches, the start of one more after them is left out; or records that
                become one batch, for which ``origin`` is ``CLIENT``; or a list of batches of
                clients, one each of several requests.
            leader_epoch: stamped into the batches.
            origin: who appends; it selects the checks.
            transaction_version: of the markers among the batches.
            verification_guard: what ``start_verification`` returned, for a transaction's begin.
            on_rejected: called with what a metric counts before one of the errors is raised.
            high_watermark_rule: the owner's; the high watermark moves together with the log end.
            may_change: the caller needs ``records`` no more, whether they are appended or not.

        Raises:
            CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge,
            OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState,
            TransactionCoordinatorFenced: refused as a whole; nothing was written.
            DamagedLog: the log takes no appends before it is recovered; nothing was written.
            KafkaStorageError: the disk is full or failed, or the log is closed.

        A batch that an idempotent producer sent before succeeds without being written again. A list
        is refused with InvalidRecord unless each of its batches needs only offsets and the leader
        epoch, and for any error, or a batch that was sent before, nothing of it is written: each
        batch may then be appended by itself.
        """
        request = AppendRequest(
            leader_epoch,
            origin,
            transaction_version,
            verification_guard,
            on_rejected,
            high_watermark_rule,
            may_change=may_change,
        )
        return append(self._state, records, request)

    def prepare(self, records: OwnRecords, on_rejected: OnRejected = ignore_rejections) -> None:
        """Build the batch of records before they are appended, and before any lock is taken.

        Errors as ``append_as_leader``, which builds it again if the settings have changed by then.
        """
        context = self._state.context
        limit_bytes, now_ms = context.config.max_message_bytes, context.clock.now_ms()
        try:
            records.accept(context.policy, limit_bytes, now_ms, on_rejected)
        except KafkaError as error:
            error.of_log(context.log_name)
            raise

    def append_as_follower(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        on_rejected: OnRejected = ignore_rejections,
        flushes_before_roll: bool = False,
        keeps_segment: bool = False,
    ) -> AppendInfo:
        """Append batches as they came from the leader, with their offsets, which may leave gaps.

        Batches of an epoch above ``leader_epoch``, the follower's own, are left out with all after
        them. Raises UnexpectedAppendOffset if the batches begin below the log's end,
        OffsetsOutOfOrder if their offsets do not rise, and CorruptMessage.

        With ``flushes_before_roll`` records are made durable before the next segment is begun, so
        that a crash leaves no gap; it begins at the log's end. With ``keeps_segment`` the caller
        says when that begins, by ``roll``: neither size nor age does.
        """
        request = AppendRequest(
            leader_epoch,
            AppendOrigin.REPLICATION,
            on_rejected=on_rejected,
            flushes_before_roll=flushes_before_roll,
            keeps_segment=keeps_segment,
        )
        return append(self._state, records, request)

    def adopt_segment(self, path: str, pieces: Iterable[tuple[Buffer, BatchColumns]]) -> None:
        """Make a file of the data directory the log's active segment, by one durable rename.

        Its batches are checked as a follower's are, but not their checksums. All is durable on
        return, also what lies before, but no index; the recovery point stays.

        Args:
            path: the file, on the log's file system; it is moved into the log's directory.
            pieces: all of its batches, in order, with their final offsets and epochs: some bytes,
                which the next piece may overwrite, and their headers. The file is durable once all
                pieces have been read.

        Raises:
            InvalidArgument: a batch is of magic 0 or 1, its offsets do not rise from the log's end
                on or do not fit one segment, its leader epoch is below one before it, or the file
                holds more than these batches.
            InvalidTxnState: a batch without transaction lies inside its producer's transaction.
            KafkaStorageError: the disk is full or failed, or the log is closed.

        After any of these the file is where it was, unless the log is offline.
        """
        with self._state.notices, self._state.lock, self._state.changing("adopting a segment"):
            self._state.check_appendable()
            adopt_locked(self._state, path, pieces)

    def append_records(
        self,
        records: Iterable[RecordFields],
        leader_epoch: int = 0,
        **fields: Any,  # noqa: ANN401 - the fields of BatchSpec, which checks their names
    ) -> AppendInfo:
        """Append records (timestamp in ms, key, value, headers) as one batch.

        ``fields`` are further fields of the batch: ``codec``, ``producer_id`` and so on, see
        ``BatchSpec``. Errors as ``append_as_leader``; InvalidArgument if no batch can be built.
        """
        if fields:
            fields["codec"] = Codec.named(fields.get("codec", Codec.NONE))
            return self.append_as_leader(build_batch(records, **fields), leader_epoch)
        return self.append_as_leader(OwnRecords(records), leader_epoch)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> int:
        """Begin to verify a transaction with its coordinator; return the guard to append with.

        Raises InvalidProducerEpoch for a stale epoch. Source: KIP-890.
        """
        with self._state.lock:
            self._state.check_not_closed()
            return self._state.producers.maybe_start_verification(
                producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )

    def remove_expired_producers(self) -> None:
        """Forget producers that wrote nothing for too long; a task also does this periodically."""
        with self._state.lock:
            self._state.check_not_closed()
            self._state.producers.remove_expired(self._state.context.clock.now_ms())

    def _remove_expired_producers(self) -> None:
        with self._state.lock:
            if not self._state.is_closed:
                self.remove_expired_producers()

    def maybe_assign_epoch(self, leader_epoch: int, start_offset: int) -> bool:
        """Note that an epoch begins at ``start_offset``, durably; return whether it was new."""
        with (
            self._state.notices,
            self._state.lock,
            self._state.changing("assigning a leader epoch"),
        ):
            return self._state.epochs.assign(leader_epoch, start_offset)

    def begin_epoch_after_loss(self) -> None:
        """Begin a leader epoch at the log end, durably: records beyond it that were read are lost.

        So positions beyond it can be distinguished from those of what is appended now.
        """
        state = self._state
        with state.notices, state.lock, state.changing("assigning a leader epoch"):
            latest = state.epochs.latest_epoch
            context = state.context
            epoch = epoch_after_loss(context.fs, context.parent, latest, context.rng)
            state.epochs.assign(epoch, state.offsets.log_end_offset)

    def begin_epoch_with_append(self, least: int) -> None:
        """Let the next append of the owner begin a leader epoch if the latest is below ``least``.

        Not in a new log, which has no epochs: those are durable before a record is read.
        """
        state = self._state
        with state.lock:
            state.check_not_closed()
            is_new = state.epochs.latest is None and not state.offsets.log_end_offset
            state.least_epoch = 0 if is_new else least

    def begin_epoch_of_copy(self) -> None:
        """Do as ``begin_epoch_after_loss``, unless the latest epoch begins at the log end already.

        Records of the original that are not copied were read, too.
        """
        latest = self._state.epochs.latest
        if latest is None or latest.start_offset != self.log_end_offset:
            self.begin_epoch_after_loss()

    def drop_epoch_of_copy(self) -> None:
        """Drop leader epochs that begin at the log end: more records of the original come there.

        Durably, since those are of lower epochs: after a crash one would begin in their midst.
        """
        state = self._state
        with state.notices, state.lock, state.changing("dropping a leader epoch"):
            state.epochs.truncate_from_end(state.offsets.log_end_offset, is_durable=True)

    # High watermark and log start

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, clamped into the log; return what it became.

        It may decrease. Raises InvalidArgument for a negative offset.
        """
        with self._state.notices, self._state.lock:
            self._state.check_not_closed()
            self._state.move(self._state.offsets.with_high_watermark(LogOffsetMetadata(offset)))
            return self._state.offsets.high_watermark

    def maybe_increment_high_watermark(self, place: LogOffsetMetadata) -> int | None:
        """Raise the high watermark to ``place``; return the old one, None if it was not lower.

        The same offset on a newer segment counts as higher. Raises InvalidArgument above the end.
        """
        with self._state.notices, self._state.lock:
            self._state.check_not_closed()
            offsets = self._state.offsets
            if place.offset > offsets.log_end_offset:
                name, end = self._state.context.log_name, offsets.log_end_offset
                raise InvalidArgument(f"{name}: offset {place.offset} is above the log end {end}")
            old = offsets.high_watermark_metadata
            is_newer = place.offset == old.offset and old.is_on_older_segment(place)
            if place.offset <= old.offset and not is_newer:
                return None
            self._state.move(offsets.with_high_watermark(place))
            return old.offset

    def maybe_update_high_watermark(self, offset: int) -> int | None:
        """Set the high watermark to the leader's; return it if it changed."""
        with self._state.notices, self._state.lock:
            old = self.high_watermark
            new = self.update_high_watermark(offset)
            return None if new == old else new

    def try_lock(self, patience_s: float = 0.0) -> bool:
        """Take the lock if it is free within ``patience_s``; return whether."""
        return self._state.lock.acquire(timeout=patience_s)

    def unlock(self) -> None:
        """Release what ``try_lock`` has taken, and call the listeners."""
        with self._state.notices:
            self._state.lock.release()

    def add_listener(self, listener: LogListener) -> None:
        """Call ``listener`` with each new offset from now on, after the log's lock is released."""
        self._state.listeners.add(listener)

    def remove_listener(self, listener: LogListener) -> None:
        """Stop calling ``listener``; an unknown one changes nothing."""
        self._state.listeners.remove(listener)

    def report_to(self, listeners: Listeners | None) -> None:
        """Let an owner's listeners hear of this log, too; None: no longer."""
        with self._state.lock:
            self._state.owners_listeners = listeners

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset; return whether it was lower.

        The data is deleted later, by ``delete_old_segments``. Raises OffsetOutOfRange above the
        high watermark.
        """
        with self._state.notices, self._state.lock, self._state.changing("raising the log start"):
            if offset > self._state.deletable_end:
                raise self._out_of_range(offset)
            is_lower = self.log_start_offset < offset
            if self._state.archived is not None:
                self._state.archived = self._state.archived.from_start(offset)
            retention_pass.increment_log_start_locked(self._state, offset)
            return is_lower

    def delete_records(self, before_offset: int, config: LogConfig | None = None) -> int:
        """Delete the records below ``before_offset`` (-1: the high watermark); return the start.

        ``config`` stands for the log's own. Raises PolicyViolation if the topic is compacted only,
        OffsetOutOfRange above the high watermark and for other negative offsets.
        """
        with self._state.notices, self._state.lock, self._state.changing("deleting records"):
            target = self.check_delete_records(before_offset, config)
            self.maybe_increment_log_start_offset(target)
            return self.log_start_offset

    def check_delete_records(self, before_offset: int, config: LogConfig | None = None) -> int:
        """Return the offset that ``delete_records`` would delete to; errors as there."""
        try:
            return deletion_target(
                before_offset,
                config or self.config,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                deletable_end=self._state.deletable_end,
            )
        except (OffsetOutOfRange, PolicyViolation) as error:
            raise error.of_log(self._state.context.log_name) from None

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        end = self.log_end_offset
        limit = self._state.deletable_end
        error = OffsetOutOfRange(offset, self.log_start_offset, end, limit=limit)
        return error.of_log(self._state.context.log_name)

    def note_archived(self, archived: ArchivedOffsets | None) -> None:
        """Take note of what an archive holds of the log; None: there is none.

        The log begins where that does, unless records were deleted since the archive was looked
        at. With ``remote.storage.enable`` retention deletes only what is archived; see
        ``ArchivedOffsets``.
        """
        with self._state.lock:
            known = self._state.archived
            if archived is not None and known is not None:
                archived = archived.from_start(known.start)
            self._state.archived = archived

    def delete_old_segments(self, now_ms: int | None = None) -> int:
        """Delete segments by start offset, size and age; return how many were deleted."""
        return len(self.retain(now_ms))

    def retain(
        self, now_ms: int | None = None, config: LogConfig | None = None
    ) -> list[DeletedSegment]:
        """Delete segments by start offset, size and age; return them with the reason.

        The limits are those of ``config``, None: of the log's own settings. Where these say that
        the log is archived, they are the local ones, and only archived segments are deleted.
        """
        now = self._state.context.clock.now_ms() if now_ms is None else now_ms
        with self._state.notices, self._state.lock, self._state.changing("deleting old segments"):
            limits = config or self.config
            return retention_pass.delete_old_segments_locked(self._state, now, limits)

    def delete_archived(self, end_offset: int) -> list[DeletedSegment]:
        """Delete from the disk the archived segments below an offset; return them.

        They stay in the log. A segment that is not known to be archived stays on the disk, too.
        """
        with self._state.notices, self._state.lock, self._state.changing("deleting old segments"):
            return retention_pass.delete_archived_locked(self._state, end_offset)

    def delete_segments_below_start(self) -> list[DeletedSegment]:
        """Delete the segments that ``delete_records`` has emptied; return them."""
        with self._state.notices, self._state.lock, self._state.changing("deleting old segments"):
            return retention_pass.delete_below_start_locked(self._state)

    # Files

    def roll(self, expected_next_offset: int | None = None) -> LogSegment:
        """Start a new active segment, and flush what came before in background."""
        with self._state.notices, self._state.lock, self._state.changing("rolling"):
            self._state.check_appendable()
            return flushing.roll_locked(self._state, expected_next_offset)

    def maybe_roll_stable(self) -> bool:
        """Roll if the active segment has records, and all are stable; return whether it did.

        Not where the log takes no appends: its damage may lie in there.
        """
        state = self._state
        with state.notices, state.lock, state.changing("rolling"):
            offsets, size_bytes = state.offsets, state.local.segments.active.size_bytes
            is_stable = offsets.last_stable_offset == offsets.log_end_offset
            if not size_bytes or not is_stable or state.contradiction is not None:
                return False
            flushing.roll_locked(state)
            return True

    def maybe_roll(self) -> tuple[LogSegment, LogSegment] | None:
        """Roll if the active segment has records; return it and the new one, else None."""
        with self._state.notices, self._state.lock, self._state.changing("rolling"):
            self._state.check_appendable()
            closed = self._state.local.segments.active
            if not closed.size_bytes:
                return None
            return closed, flushing.roll_locked(self._state)

    def flush(self, *, force: bool = False) -> None:
        """Make all records durable; ``force``: also the files of an empty active segment."""
        flushing.flush(self._state, force=force)

    def flush_records(self) -> None:
        """Make all records durable, but no index; the recovery point stays."""
        flushing.flush_records(self._state)

    def write_unflushed_again(self) -> None:
        """Write the bytes again that no sync may have written; nothing that is read changes.

        After a sync has failed a later one succeeds, and writes only what was written since.
        """
        with self._state.lock, self._state.changing("writing again what is not flushed"):
            flushing.write_unflushed_again(self._state)

    def pin(self, offset: int | None) -> None:
        """Keep records from ``offset`` on from retention, cleaning and truncation; None: none."""
        with self._state.lock:
            self._state.pinned_from = offset

    def flush_up_to(self, end_offset: int) -> None:
        """Make the records below ``end_offset`` durable."""
        flushing.flush_up_to(self._state, end_offset)

    def flush_closed(self, end_offset: int) -> None:
        """Make the segments below one that begins at ``end_offset`` durable, and its name."""
        flushing.flush_closed(self._state, end_offset)

    def make_snapshots(self, offsets: Iterable[int]) -> None:
        """Make the producer snapshots that are missing or damaged where segments end, durably.

        Raises CorruptMessage for a damaged batch before one of them.
        """
        flushing.make_snapshots(self._state, offsets)

    def truncate_to(self, offset: int) -> bool:
        """Drop all records from ``offset`` on; return whether there were any.

        Raises CorruptMessage if damage hides where they begin, and DamagedLog above the damage that
        a recovery has found; nothing was changed.
        """
        with self._state.notices, self._state.lock, self._state.changing("truncating"):
            return truncation.truncate_to_locked(self._state, offset)

    def truncate_fully_and_start_at(
        self, offset: int, producers: Sequence[ProducerSnapshotEntry] = ()
    ) -> None:
        """Drop all records and continue at ``offset``, which is the log start offset, too.

        ``producers`` are those of records before it, which an archive has.
        """
        with self._state.notices, self._state.lock, self._state.changing("truncating"):
            truncation.truncate_fully_locked(self._state, offset, producers)

    def archived_producers(self, offset: int) -> Sequence[ProducerSnapshotEntry]:
        """Return what is known of the producers of records that only an archive has.

        ``offset`` is where the disk begins. Transactions that are open there may end after it.
        """
        if self.log_start_offset >= offset:
            return ()
        with self.watch("reading a producer snapshot"):
            return self._state.producers.snapshots.read(offset)

    def check_appendable(self) -> None:
        """Raise the error that an append would raise whatever it brings.

        KafkaStorageError if the log is closed or offline, DamagedLog if it takes no appends.
        """
        with self._state.lock:
            self._state.check_open()
            self._state.check_appendable()

    def require_reopening(self, reason: str) -> None:
        """Take the log, not its directory, offline until it is opened again."""
        self._state.context.guard.take_offline(KafkaStorageError(reason))

    def watch(self, doing: str) -> AbstractContextManager[None]:
        """Turn an OSError of the body, which works on this log's files, to KafkaStorageError."""
        return self._state.context.guard.watch(doing)

    def update_config(self, config: LogConfig) -> LogConfig:
        """Replace the config and return the previous one; a log to be reopened may be closed."""
        with self._state.lock:
            if not self.needs_reopening:
                self._state.check_not_closed()
            return self._state.context.use(config)

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Give the log its topic id; raise InconsistentTopicId if it has another."""
        with self._state.lock:
            self._state.check_not_closed()
            self._state.topic_id.assign(topic_id)

    def rename_directory(self, name: str, *, goes_on: bool = True) -> None:
        """Rename the directory within its parent; not ``goes_on``: the log will be deleted."""
        with self._state.lock:
            self._state.check_not_closed()
            closing.rename_directory_locked(self._state, name, goes_on=goes_on)

    def close(self) -> None:
        """Write a producer snapshot, make everything durable, close all files.

        A second call does nothing. Slices in use stay readable.
        """
        if self.is_inherited:
            return
        self._expiration.cancel()
        with self._state.lock:
            if not self._state.is_closed:
                closing.close_locked(self._state)

    def close_handlers(self) -> None:
        """Close all files without writing, after the disk has failed."""
        if self.is_inherited:
            return
        self._expiration.cancel()
        with self._state.lock:
            closing.close_handlers_locked(self._state)

    def delete(self) -> None:
        """Delete the log, its files and its directory, now."""
        self._expiration.cancel()
        with self._state.lock:
            closing.delete_locked(self._state)


def _names_in(fs: FileSystem, directory: str) -> list[str]:
    """Return what is in a directory, which is made if it is missing."""
    try:
        return fs.list(directory)
    except FileNotFoundError:
        fs.make_directory(directory)
        return []
