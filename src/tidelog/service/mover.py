"""Moving a partition to another data directory: copied beside, caught up, exchanged.

The exchange is committed by the catalogue, which then names the new directory. In Kafka a crash
between the two renames leaves two directories, and an operator decides; here the start does.
Kafka: ``ReplicaManager.alterReplicaLogDirs``, ``ReplicaAlterLogDirsThread`` and
``LogManager.replaceCurrentWithFutureLog``.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.archive.claim_file import carry_claim, claim_file
from tidelog.config.option import INT64_MAX
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.partition_directories import log_bytes
from tidelog.errors import (
    CommitPending,
    DirectoryFull,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
    text_or_kind,
)
from tidelog.log.directory_guard import is_passing, lacks_space, may_pass
from tidelog.manager.lifecycle.move_status import MoveState, MoveStatus
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import log_directory_name, log_future_directory_name
from tidelog.service import copied_log
from tidelog.service.move_pace import CopyThrottle, MoveRates
from tidelog.staging.finished import add_finished, finished_for, read_finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.creator import LogCreator
    from tidelog.manager.lifecycle.deleter import LogDeleter
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.partition import Partition
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)

NEAR_BYTES: Final = 4 << 20
"""With no more than this left to copy, appends wait for the rest."""
RETRY_MS: Final = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
"""After how long a step that met a full disk or a lack of descriptors is repeated; a minute in all.
Then the move is given up, and its copy takes no more of the space."""
_SAMPLE_ID: Final = "0" * 32


class PartitionMover(ManagerPart):
    """Moves partitions between data directories, a piece a task of the scheduler.

    Cleaning of a partition is paused while it moves. ``_lock`` guards which pauses are this
    object's, so that each is undone exactly once, however the move ends; ``_step_lock`` is held
    during a step, so that ``stop`` can wait for it.
    """

    def __init__(self, shared: Shared, *, creator: LogCreator, deleter: LogDeleter) -> None:
        super().__init__(shared)
        clock, config = shared.machine.clock, shared.config
        self.throttle = CopyThrottle(
            clock, lambda: config().replica_alter_log_dirs_io_max_bytes_per_second
        )
        """The limit of all moves."""
        self.ended: dict[TopicPartition, str] = {}
        """Why the last move of a partition ended, of those that did not reach their target."""
        self._creator = creator
        self._deleter = deleter
        self._lock = Lock()
        self._step_lock = Lock()
        self._paused: set[TopicPartition] = set()
        self._delays: dict[TopicPartition, tuple[int, str]] = {}
        """How often in a row the step of a move has met an error that may pass, and the error."""
        self._throttled: set[TopicPartition] = set()
        self._undeleted: set[TopicPartition] = set()
        """Moves that ``cut_copy`` gave up and whose copies could not be renamed."""
        self._rates = MoveRates(clock)
        self._is_stopped = False

    def move(self, key: TopicPartition, path: str) -> bool:
        """Begin to move a partition to the directory ``path``; False if it lies there already.

        A move to another directory is cancelled, also where the partition already lies in ``path``,
        as in Kafka.

        Raises:
            UnknownTopicOrPartition: it was deleted meanwhile.
            CommitPending: a committed transaction is yet to be written to it; retriable.
            DirectoryFull: there is no space for the copy; see ``check_room``.
            InvalidTopic: the name of the copy would be too long.
            InvalidReplicaAssignment: the directory gets no new logs.
            LogDirNotFound: it is not one of the data directories.
            KafkaStorageError: it, or another one, is offline; or the copy that an earlier move has
                left cannot be deleted.
        """
        log_future_directory_name(*key, _SAMPLE_ID)
        self._log_dirs.open_to_new(path)
        registry = self._registry
        with registry.change_lock:
            current, future = registry.current(key), registry.future(key)
            if current is None:
                raise UnknownTopicOrPartition(f"{key} was deleted")
            if current.data_dir == path:
                if future is not None:  # back to where it is
                    self.cancel(key, "the partition was to stay where it is")
                return False
            if future is not None:
                if future.data_dir == path:
                    return False
                self.cancel(key, f"it is moved to {path} instead")
            self._check_not_held(key)
            self.check_room([key], path)
            self.ended.pop(key, None)
            if self._log_dirs.failures:
                offline = ", ".join(self._log_dirs.failures)
                raise KafkaStorageError(
                    f"nothing is moved while directories are offline: {offline}"
                )
            try:
                self._make_copy(key, current, path)
                self._resume(key)
            except BaseException:  # no step would continue it
                self._give_up(key, "its copy could not be made")
                raise
        return True

    def check_room(self, keys: Iterable[TopicPartition], path: str) -> None:
        """Raise DirectoryFull unless the data directory ``path`` has space for these partitions.

        The reserve stays free, and what moves in flight have still to copy there is counted. What
        an earlier move of these has copied is not needed again. A disk that is full only meanwhile
        delays a move, which is given up after a minute. Raises KafkaStorageError if a disk fails.
        """
        if self._log_dirs.get(path) is None:
            return  # a move of one says what is wrong with it
        with self._registry.change_lock:
            logs, futures = self._registry.logs(), self._registry.futures()
            copies = {key: copy for key, copy in futures.items() if copy.data_dir == path}
            moving = [(logs[key], copy) for key, copy in copies.items() if key in logs]
            size = sum(max(log.size_bytes - copy.size_bytes, 0) for log, copy in moving)
            sources = set()
            for key in keys:
                log = logs.get(key)
                if log is not None and key not in copies and log.data_dir != path:
                    size += log.size_bytes - self._left_bytes(key, path)
                    sources.add(log.data_dir)
        if sources:
            reserve = self._config().tidelog_reserve_bytes
            self._check_free(path, size, "the logs to move", reserve)
        for source in sorted(sources):
            what = "the list of topics, which a move writes there"
            self._check_free(source, self._catalogue_bytes(source), what)

    def _left_bytes(self, key: TopicPartition, path: str) -> int:
        """Return the size of what an earlier move has left in ``path``: it is deleted before."""
        left = [copy for _, copy in self._creator.copies.of(key) if os.path.dirname(copy) == path]
        with self._log_dirs.failing(path, f"looking for copies of {key}"):
            return sum(log_bytes(self._machine.fs, copy) for copy in left)

    def _catalogue_bytes(self, path: str) -> int:
        with self._log_dirs.failing(path, "looking for the list of topics"):
            with suppress(FileNotFoundError):
                return self._machine.fs.stat(os.path.join(path, CATALOGUE_FILE)).size_bytes
            return 0

    def _check_free(self, path: str, size: int, what: str, reserve: int = 0) -> None:
        with self._log_dirs.failing(path, "asking for its free space"):
            free = self._machine.fs.free_bytes(path)
        missing = size + reserve - free
        if missing > 0:
            kept = f" beside the {reserve:,} of tidelog.reserve.bytes" if reserve else ""
            raise DirectoryFull(
                f"{path} has {free:,} bytes free; {size:,}{kept} are needed for {what}: {missing:,}"
                " are missing, and nothing was moved"
            )

    def _make_copy(self, key: TopicPartition, current: Log, path: str) -> None:
        """Create an empty copy; one that an earlier move has left is deleted before."""
        for log_dir, left in self._creator.copies.of(key):
            self._deleter.remove_unopened_copy(key, log_dir, left)
        copy = self._creator.create_copy(key, self._log_dirs.online(path), current.topic_id)
        copied_log.begin(current, copy)

    def _check_not_held(self, key: TopicPartition) -> None:
        """Raise CommitPending while a journal of the source directory names the partition."""
        hold = self._registry.holds.get(key)
        if hold is not None:
            raise CommitPending(
                f"transaction {hold.txn!r} is committed and not applied yet; it cannot be moved"
                " before that"
            ).of_log(str(key))

    def resume_all(self) -> None:
        """Continue the moves that the previous process began.

        After an unclean end a copy keeps only what was flushed: of what was not, any part may be
        missing, also in the middle. The log may have lost its end as well: the copy loses what lies
        after it before anything is appended there. A move whose copy's disk fails is given up.
        """
        for key, log in self._registry.futures().items():
            partition = self._registry.partition(key)
            if partition is None:
                self._keep(key, log)
                continue
            with self._resuming(key):
                if not self._log_dirs.of(log).was_clean:
                    log.truncate_to(max(log.recovery_point, log.local_log_start_offset))
                    self._registry.note_cut(key)
                copied_log.take_up(key, partition.log, log)

    def resume_late(self, key: TopicPartition) -> None:
        """Continue the move of a partition that came into service after ``resume_all``, if any.

        After an unclean end its copy begins again: what was flushed of it is not known. Copies
        that the start kept beside it are deleted, as it does where the partition is in service.
        """
        copy, current = self._registry.future(key), self._registry.current(key)
        if copy is None or current is None:
            return
        self._delete_others(key, copy)
        with self._resuming(key):
            if not self._log_dirs.of(copy).was_clean:
                copied_log.begin(current, copy)
                self._registry.note_cut(key)
            copied_log.take_up(key, current, copy)

    @contextmanager
    def _resuming(self, key: TopicPartition) -> Iterator[None]:
        """Continue a move after the body, which puts its copy in order; else end the move."""
        # A cleaning after the copy is compared with the log would drop from the log alone what a
        # tombstone deletes, and both would count as clean in the copy.
        self._pause(key)
        try:
            yield
        except KafkaStorageError as error:  # what the copy holds cannot be relied on
            _log.error("move-failed topic=%s partition=%d reason=%s", *key, error)
            self._abandon(key, str(error))
        else:
            self._resume(key)

    def _delete_others(self, key: TopicPartition, copy: Log) -> None:
        """Delete all copies of a log but one; what cannot be deleted stays."""
        try:
            for log_dir, path in self._creator.copies.of(key):
                if path != copy.directory:
                    self._deleter.remove_unopened_copy(key, log_dir, path)
        except KafkaStorageError as error:
            _log.error("move-copy-not-deleted topic=%s partition=%d reason=%s", *key, error)

    def cut_copy(self, key: TopicPartition, end: int) -> None:
        """Let the copy of a log that is opened again end no later than the log does, durably.

        Where the copy's disk is too full for that the move is given up: the log does not wait for
        another disk. To be called with ``change_lock`` and ``copying`` held. After an error, which
        is a KafkaStorageError, the log must not be used, since a start could continue the move.
        """
        copy = self._registry.future(key)
        if copy is not None:
            try:
                copy.truncate_to(end)
                self._checkpointing.write_if_ahead(key, copy)
            except KafkaStorageError as error:
                if not lacks_space(error):
                    raise
                _log.error("move-failed topic=%s partition=%d reason=%s", *key, error)
                self._undeleted.add(key)
                self._give_up(key, str(error))
        if key in self._undeleted:
            for log_dir, path in self._creator.copies.of(key):
                self._deleter.remove_unopened_copy(key, log_dir, path)
            self._undeleted.discard(key)

    def cancel_on_request(self, key: TopicPartition) -> None:
        """Give a move up and delete the copy; the log stays as it is.

        On return the copy is renamed, durably: no start continues the move.

        Raises:
            InvalidArgument: the partition is not being moved; perhaps it has been.
            KafkaStorageError: the copy could not be renamed. Repeat it: the next start would
                continue the move. Or the catalogues may name either place, after a failure.
        """
        with self._step_lock, self._registry.change_lock:
            self._registry.current(key)  # raises where the catalogues may name either place
            if self._registry.future(key) is None:
                self._creator.cancel_move(key)  # a copy that an earlier attempt could not rename
            else:
                self.cancel(key)
        _log.info("move-cancelled topic=%s partition=%d", *key)

    def cancel(self, key: TopicPartition, reason: str = "the move was cancelled") -> None:
        """Give a move up and delete the copy, if there is one."""
        if self._registry.future(key) is not None:
            self.ended[key] = reason
        try:
            self._deleter.remove_copy(key)
        finally:
            self._release(key)

    def forget(self, key: TopicPartition) -> None:
        """End a move of a partition that was deleted, and all that is known of earlier ones."""
        try:
            self.cancel(key)
        finally:
            self.ended.pop(key, None)

    def moves(self) -> list[MoveStatus]:
        """Return the moves in flight, sorted."""
        limit = self.throttle.bytes_per_second
        found = []
        for key, copy in self._registry.futures().items():
            try:
                current = self._registry.current(key)
            except KafkaError as error:
                current, reason = None, str(error)
            else:
                _, reason = self._delays.get(key, (0, ""))
            state = MoveState.COPYING
            if key in self._delays or current is None:
                state = MoveState.WAITING
            elif key in self._throttled:
                state = MoveState.THROTTLED
            found.append(
                MoveStatus(
                    *key,
                    source=None if current is None else current.data_dir,
                    target=copy.data_dir,
                    done_bytes=copy.size_bytes,
                    total_bytes=None if current is None else current.size_bytes,
                    bytes_per_second=self._rates.bytes_per_second(key),
                    limit=None if limit == INT64_MAX else limit,
                    state=state,
                    reason=reason,
                )
            )
        return sorted(found)

    def stop(self) -> None:
        """Begin no further step, and wait for the one that runs; the next start continues."""
        self._is_stopped = True
        with self._step_lock:
            pass

    def _resume(self, key: TopicPartition) -> None:
        """Copy, a piece a task, until the partition has moved."""
        self._rates.begin(key)
        self._pause(key)
        self._schedule(key)

    def _pause(self, key: TopicPartition) -> None:
        """Keep a partition from being cleaned until ``_release``."""
        with self._lock:
            is_paused = key in self._paused
        if not is_paused:
            self._cleaning.manager.abort_and_pause(key)
            self._paused.add(key)

    def _release(self, key: TopicPartition) -> None:
        """Allow cleaning again, if this object has paused it."""
        with self._lock:
            is_paused = key in self._paused
            self._paused.discard(key)
            self._delays.pop(key, None)
            self._throttled.discard(key)
        self._rates.end(key)
        if is_paused:
            self._cleaning.manager.resume([key])

    def _schedule(self, key: TopicPartition, delay_ms: int = 0) -> None:
        self._machine.scheduler.schedule(
            f"move-{key.topic}-{key.partition}", lambda: self._run_step(key), delay_ms=delay_ms
        )

    def _run_step(self, key: TopicPartition) -> None:
        with self._step_lock:
            if not self._is_stopped:
                self.step(key)

    def step(self, key: TopicPartition) -> None:
        """Copy one piece, or exchange the logs when little is left; then schedule the next step.

        A step above the limit of the rate is put off. One that meets an error of ``PASSING`` is
        repeated, each time after a longer delay, and so is one that waits for a committed
        transaction, however long that takes. Any other error
        ends the move: the copy is deleted, unless the disk of the log has failed.
        """
        with self._registry.change_lock:
            partition, copy = self._registry.partition(key), self._registry.future(key)
            if copy is None:  # cancelled since the step was scheduled
                self._release(key)
                return
        if partition is None:
            self._abandon(key, "its log is gone")
            return
        wait_ms = self.throttle.wait_ms()
        if wait_ms:
            self._throttled.add(key)
            self._schedule(key, wait_ms)
            return
        self._throttled.discard(key)
        try:
            copied = self._copy_unless_near(key, partition, copy)
            if copied:
                self._rates.count(key, copied)
                self.throttle.count(copied)
                self._delays.pop(key, None)
                self._schedule(key)
                return
            if not self._exchange_once(key):
                self._abandon(key, "its log is gone")
        except Exception as error:  # noqa: BLE001 - no error may leave the partition paused
            self._failed(key, error)

    def _copy_unless_near(self, key: TopicPartition, partition: Partition, copy: Log) -> int:
        """Copy one piece and return its size in bytes; nothing, and 0, when little is left."""
        with self._registry.copying:
            current = partition.log
            while True:
                copied_log.align(current, copy)
                self._checkpointing.write_if_ahead(key, copy)
                if copied_log.left_bytes(current, copy) <= NEAR_BYTES:
                    return 0
                try:
                    return copied_log.copy_piece(current, copy)
                except OffsetOutOfRange:  # unless records were deleted since it was aligned
                    if copy.log_end_offset >= current.local_log_start_offset:
                        raise

    def _failed(self, key: TopicPartition, error: Exception) -> None:
        """Schedule the step again after an error that may pass; else end the move."""
        attempts, _ = self._delays.pop(key, (0, ""))
        is_held = isinstance(error, CommitPending)
        if is_held or (may_pass(error) and attempts < len(RETRY_MS)):
            self._delays[key] = attempts + 1, str(error)
            delay_ms = RETRY_MS[min(attempts, len(RETRY_MS) - 1)]
            _log.warning(
                "move-delayed topic=%s partition=%d retry_in_ms=%d reason=%s",
                *(*key, delay_ms, error),
            )
            self._schedule(key, delay_ms)
            return
        is_known = isinstance(error, KafkaError)
        trace, reason = None if is_known else error, text_or_kind(error)
        _log.error("move-failed topic=%s partition=%d reason=%s", *key, reason, exc_info=trace)
        self._abandon(key, reason)

    def _abandon(self, key: TopicPartition, reason: str) -> None:
        """End a move. The copy stays if the log's disk failed: it may be all that is left.

        The copy also stays if the catalogues may name either place, as ``_stay`` leaves them.
        """
        copy = self._registry.future(key)
        try:
            current = self._registry.current(key)
        except KafkaError:
            self.ended[key] = reason
            self._release(key)
            return
        source = None if current is None else self._log_dirs.get(current.data_dir)
        if copy is None or source is not None or not self._log_dirs.failures:
            self._give_up(key, reason)
            return
        self._keep(key, copy)
        self.ended[key] = reason
        self._release(key)

    def _keep(self, key: TopicPartition, copy: Log) -> None:
        """Leave a copy as it is; while it is not cut its directory is recovered by each start."""
        _log.warning("future-log-abandoned topic=%s partition=%d", *key)
        log_dir = self._log_dirs.get(copy.data_dir)
        if log_dir is not None and self._registry.life(key).is_uncut:
            log_dir.doubted.add(copy.directory)

    def _exchange_once(self, key: TopicPartition) -> bool:
        """Copy the rest and exchange the logs; False if one of them is missing.

        Both under one hold of the locks: no append comes in between.
        """
        with self._registry.change_lock:
            partition, copy = self._registry.partition(key), self._registry.future(key)
            if partition is None or copy is None:
                return False
            with partition.listeners, partition.lock:
                self._check_not_held(key)
                current = partition.log
                source_path = current.data_dir
                copied_log.copy_rest(current, copy)
                self._exchange(key, partition, copy)
        self._after_exchange(key, source_path, copy)
        return True

    def _exchange(self, key: TopicPartition, partition: Partition, copy: Log) -> None:
        """Make the copy durable, commit, rename; with both locks held."""
        current = partition.log
        source, target = self._log_dirs.of(current), self._log_dirs.of(copy)
        # Before the catalogue names the copy: from then on the source is deleted at the next start.
        copy.flush(force=True)
        # One that has no record yet: nothing in the copy, nor in its directory, names it.
        if current.leader_epoch > (copy.latest_epoch or 0):
            copy.maybe_assign_epoch(current.leader_epoch, copy.log_end_offset)
        topic_id = current.topic_id
        if topic_id is None:
            raise UnknownTopicOrPartition(f"{current.directory} belongs to no topic")
        copy.assign_topic_id(topic_id)  # a disk that failed may have lost its file
        with self._log_dirs.failing(target.path, f"moving the archive's claim of {key}"):
            # Before the catalogue names the copy: without its claim that is another log to the
            # archive, and begins on the disk.
            carry_claim(
                self._machine.fs,
                *(claim_file(one.path, topic_id, key.partition) for one in (source, target)),
            )
        # Without it, offsets that a cleaning has left out would count as lost.
        self._cleaning.carry_line(key, source, target, self._log_dirs)
        self._carry_transactions(key, topic_id, source, target)
        if current.archived is not None:
            copy.note_archived(current.archived._replace(equal_end=0))
        try:
            self._topics.place(*key, target.directory_id)
            copy.rename_directory(log_directory_name(*key))
        except KafkaStorageError as error:
            self._stay(key, partition, source, error)
            raise
        # From here on the copy is the log, whatever becomes of the old one.
        partition.use(copy)
        self._registry.remove_future(key)
        try:
            self._deleter.put_away(key, current)
        except KafkaStorageError as error:
            _log.error("moved-log-not-deleted directory=%s reason=%s", current.directory, error)
            current.close_handlers()
            if is_passing(error):
                self._put_away_later(key, source, 0)

    def _carry_transactions(
        self, key: TopicPartition, topic_id: UUID, source: LogDir, target: LogDir
    ) -> None:
        """Let the target know what was committed to the topic: a repeat would be written again."""
        fs = self._machine.fs
        with self._log_dirs.failing(source.path, f"reading the transactions of {key.topic}"):
            found = finished_for(read_finished(fs, source.path), key.topic, topic_id)
        with self._log_dirs.failing(target.path, f"adding the transactions of {key.topic}"):
            add_finished(fs, target.path, found)

    def _put_away_later(self, key: TopicPartition, source: LogDir, attempts: int) -> None:
        """Rename the directory that a log has left once that works, or at the next start."""

        def put_away() -> None:
            with self._step_lock, self._registry.change_lock:
                current = self._registry.current(key)
                is_back = current is not None and current.data_dir == source.path
                if self._is_stopped or is_back:
                    return
                try:
                    self._deleter.rename_unopened(key, source)
                except KafkaStorageError as error:
                    text = "moved-log-not-deleted directory=%s reason=%s"
                    _log.error(text, f"{source.path}/{log_directory_name(*key)}", error)
                    if is_passing(error):
                        self._put_away_later(key, source, attempts + 1)

        if attempts < len(RETRY_MS):
            name = f"put-away-{key.topic}-{key.partition}"
            self._machine.scheduler.schedule(name, put_away, delay_ms=RETRY_MS[attempts])

    def _stay(
        self, key: TopicPartition, partition: Partition, source: LogDir, error: KafkaStorageError
    ) -> None:
        """Let the catalogue name the source again: some directory's may name the target already.

        If that fails the partition takes no more appends, which the next start could lose. Where
        every catalogue is as it was before there is nothing to do, and the disk may be too full.
        """
        home = source.directory_id
        if is_passing(error) and self._topics.is_placed(key.topic, key.partition, home):
            return
        try:
            self._topics.restore_place(key.topic, key.partition, home)
        except KafkaStorageError:
            partition.end(error)
            raise

    def _after_exchange(self, key: TopicPartition, source_path: str, copy: Log) -> None:
        """Bring the checkpoints up to date; whatever fails here, the partition has moved."""
        target_path = copy.data_dir
        source, target = self._log_dirs.get(source_path), self._log_dirs.get(target_path)
        try:
            if source is not None:
                self._cleaning.leave_line(key, source, self._log_dirs)
        except KafkaStorageError as error:  # nobody reads it there
            _log.error("checkpoint-failed directory=%s reason=%s", copy.directory, error)
        finally:
            self._release(key)
        if source is not None and copy.topic_id is not None:
            with suppress(OSError):  # one that is left is of a log that is not there
                self._machine.fs.delete(claim_file(source.path, copy.topic_id, key.partition))
        for log_dir in (source, target):
            if log_dir is None:
                continue
            try:
                self._checkpointing.write(log_dir)
            except KafkaStorageError as error:
                _log.error("checkpoint-failed directory=%s reason=%s", log_dir.path, error)
        _log.info("partition-moved topic=%s partition=%d to=%s", *key, target_path)

    def _give_up(self, key: TopicPartition, reason: str) -> None:
        try:
            self.cancel(key, reason)
        except KafkaStorageError as error:
            _log.error("move-copy-not-deleted topic=%s partition=%d reason=%s", *key, error)
        finally:
            self._release(key)
