"""Commits of transactions to the logs of a manager, and the journals that a crash left behind.

Journals are read before any log is opened, so that no reader sees half of a transaction, and
finished once the logs have recovered.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.config.option import INT64_MAX
from tidelog.datadir.birth import settings_of_birth
from tidelog.datadir.effective_config import effective_config
from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
from tidelog.env.clock import NS_PER_MS
from tidelog.env.forks import OfOneProcess
from tidelog.env.paths import absolute_path
from tidelog.errors import (
    CommitPending,
    DirectoryFull,
    InconsistentTopicId,
    InvalidArgument,
    KafkaError,
    KafkaStorageError,
    UnknownTopicOrPartition,
    text_or_kind,
)
from tidelog.log.directory_guard import is_interrupt, lacks_resources
from tidelog.log.loading.load_watch import SILENT
from tidelog.manager.consumer_groups import Groups
from tidelog.manager.manager_part import ManagerPart
from tidelog.manager.partition import Hold
from tidelog.manager.topics.topic_checks import check_topic
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.abandoned import abandoned_files
from tidelog.staging.commit import commit, drop_topic, finish, give_up
from tidelog.staging.finished import forget_finished, is_finished, read_finished
from tidelog.staging.journal import has_journal, journal_name, journals, read_journal
from tidelog.staging.manifest_names import waiting_hashes
from tidelog.staging.ready_expiry import drop_waiting, sweep_all
from tidelog.staging.staged_file import attempt_of, is_staged_name, transaction_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.creator import LogCreator
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.partition import Partition
    from tidelog.staging.commit import Transaction
    from tidelog.staging.directory import CommitPoint, Key
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.group_step import GroupPartition, GroupStep
    from tidelog.staging.journal import Journal, NewTopic
    from tidelog.staging.staged_run import StagedRun

_log = logging.getLogger(__name__)
RETRY_MS: Final = 10_000
"""Time in ms after which a service tries for the first time again to apply a journal."""
MAX_RETRY_MS: Final = 600_000
MAX_DOUBLINGS: Final = 10


class StagedCommits(OfOneProcess, ManagerPart):
    """Commits transactions, one at a time, and finishes those that were interrupted.

    The registry's ``change_lock`` is held meanwhile: no topic is created, deleted or moved.
    ``pending`` are the journals, by data directory and transaction, that are not applied yet, each
    with the reason. ``partition_of`` loads a log if needed, ``create_logs`` makes those of
    new partitions, and ``complete_logs`` those of a topic that an interrupted commit left out.
    ``watcher`` is notified of the bytes that were put into logs, and ``on_point`` is called with
    each moment that a commit reaches.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        creator: LogCreator,
        partition_of: Callable[[str, int], Partition],
        create_logs: Callable[[Topic, Collection[int]], None],
        complete_logs: Callable[[Topic], None],
        watcher: LoadWatcher = SILENT,
    ) -> None:
        super().__init__(shared)
        self.creator: Final = creator
        self.partition_of: Final = partition_of
        self.create_logs: Final = create_logs
        self.complete_logs: Final = complete_logs
        self.watcher: Final = watcher
        self.groups: Final = Groups(shared.topics.all, partition_of, self._unapplied_positions)
        self._committing: tuple[GroupPartition, ...] = ()
        """Whose positions the commit sets that is under way."""
        self.pending: dict[tuple[str, str], tuple[Journal, str]] = {}
        self.on_point: Callable[[CommitPoint], None] = _ignore
        self._interrupted: set[tuple[str, str]] = set()
        """Pending journals that an interrupt left, and that nothing keeps from being applied."""
        self._is_applying = False
        self._failures: dict[tuple[str, str], int] = {}
        """How often in a row each pending journal could not be applied."""
        self._due_ns: dict[tuple[str, str], int] = {}
        self._left_out: dict[tuple[str, str], set[UUID]] = {}
        """Deleted topics that the file of each pending journal may still name."""

    def read_journals(self) -> None:
        """Hold the partitions that journals name; before any log is opened.

        A directory with a journal that cannot be read, as of a newer release, is taken offline.
        Raises KafkaStorageError if file descriptors or memory ran out.
        """
        for log_dir in list(self._log_dirs):
            try:
                found = list(journals(self._machine.fs, log_dir.path))
            except (OSError, KafkaStorageError) as error:
                self._log_dirs.not_read("journals", log_dir.path, error)
                continue
            for journal in map(partial(self._without_deleted, log_dir.path), found):
                self._note(log_dir.path, journal, "the process that committed it has ended")
                _Directory(self, log_dir).hold(journal)

    def finish_all(self) -> None:
        """Apply the journals that are pending; those that cannot be applied yet stay so."""
        for path, txn in sorted(self.pending):
            self._finish_one(path, txn)

    def finish_due(self) -> None:
        """Apply the pending journals whose turn it is: after each failure the delay doubles.

        It grows from ``RETRY_MS`` to ``MAX_RETRY_MS``, since each try compares the logs with all
        that was staged.
        """
        now_ns = self._machine.clock.monotonic_ns()
        for path, txn in sorted(self.pending):
            if now_ns >= self._due_ns.get((path, txn), 0):
                self._finish_one(path, txn)

    def finish_interrupted(self) -> None:
        """Apply the journals of commits that were interrupted; any later act calls this first.

        Such a commit is past its commit point, and the program may never repeat it.
        """
        if not self._interrupted:
            return
        with self._registry.change_lock:
            if self._is_applying:
                return  # this is one of its steps: a journal applied within it would be gone after
            for key in sorted(self._interrupted):
                self._finish_one(*key)
                self._interrupted.discard(key)

    def _finish_one(self, path: str, txn: str) -> None:
        with self._registry.change_lock:
            log_dir, found = self._log_dirs.get(path), self.pending.get((path, txn))
            if found and log_dir is not None and not self._registry.is_closed:
                self._finish(log_dir, found[0])

    def _finish(self, log_dir: LogDir, journal: Journal) -> None:
        target = _Directory(self, log_dir)
        try:
            self._is_applying = True
            log_dir.begin_change()
            # An earlier try may have written other places into the file before it failed.
            found = self._reread(log_dir, journal)
            if found is None:
                self._end(target, journal)
            else:
                finish(target, found)
        except (KafkaError, OSError) as error:
            self._failed(log_dir, journal, error)
        else:
            self._forget(log_dir.path, journal.txn)
        finally:
            self._is_applying = False

    def _unapplied_positions(self) -> list[GroupPartition]:
        """Return whose positions a commit sets that is under way or pending; on any thread."""
        # First, since one that fails is pending before it is not under way any more.
        found = [*self._committing]
        for journal, _ in tuple(self.pending.values()):
            found += journal.positions
        return found

    def home(self, path: str | None) -> str:
        """Return the directory that a transaction writes to: the given one, or the only one.

        Raises:
            InvalidArgument: there are several directories, and none is given.
            LogDirNotFound: the path is none of them.
            KafkaStorageError: the directory is offline.
        """
        known = self._log_dirs.configured
        chosen = known if path is None else (absolute_path(path),)
        if len(chosen) != 1:
            raise InvalidArgument(
                f"a transaction writes to one of the {len(known)} data directories: give its path"
            )
        return self._log_dirs.online(chosen[0]).path

    def commit(self, path: str, transaction: Transaction) -> CommittedTransaction:
        """Commit a transaction whose staged files lie in a directory, unless it was before.

        See ``staging``.

        Raises CommitPending, too, while another one is pending that shares a partition, a new
        topic, the id or the stream with it.
        """
        with self._registry.change_lock:
            self._registry.check_open()
            self.finish_all()
            log_dir = self._log_dirs.online(path)
            transaction = self.groups.with_known_home(transaction)
            self._check_free(path, transaction)
            target = _Directory(self, log_dir)
            try:
                self._committing = tuple(step.key for step in transaction.steps)
                log_dir.begin_change()
                self._topics.write_where_needed()  # the ids of adopted topics
                return self._counted(target, transaction)
            except BaseException as error:  # also an interrupt, at any moment of the commit
                self._note_written(log_dir, target, error)
                if isinstance(error, OSError):
                    self._log_dirs.note_error(log_dir.path, error)
                    raise KafkaStorageError(f"committing in {path} failed: {error}") from error
                raise
            finally:
                self._committing = ()

    def _counted(self, target: _Directory, transaction: Transaction) -> CommittedTransaction:
        clock, counters = self._machine.clock, self._registry.counters
        start_ns, is_stream = clock.monotonic_ns(), transaction.stream is not None
        done = commit(target, transaction)
        if done.is_repeat:
            counters.skipped(is_stream=is_stream)
        else:
            size_bytes = sum(run.size_bytes for run in transaction.runs)
            time_ms = (clock.monotonic_ns() - start_ns) // NS_PER_MS
            counters.committed(done.total, size_bytes, time_ms, is_stream=is_stream)
        return done

    def finish_transaction(self, path: str, txn: str) -> None:
        """Apply the pending transaction of an id; nothing if there is none.

        Raises CommitPending if it cannot be applied yet.
        """
        self._registry.check_open()
        if (path, txn) not in self.pending:
            return
        self._finish_one(path, txn)
        left = self.pending.get((path, txn))
        if left is not None:
            raise CommitPending(f"transaction {txn!r} is committed and not applied yet: {left[1]}")

    def forget(self, path: str, txn: str) -> None:
        """Take a transaction out of the finished ones: its id may be used again.

        Raises:
            InvalidArgument: it is not among them, or is committed and not applied yet.
            CommitPending: a process waits for its outcome.
            LogDirNotFound, KafkaStorageError: the directory cannot be used.
        """
        fs = self._machine.fs
        with self._registry.change_lock:
            self._registry.check_open()
            self.finish_all()
            self._log_dirs.online(path)
            if (path, txn) in self.pending:
                raise InvalidArgument(f"transaction {txn!r} is committed and not applied yet")
            known = read_finished(fs, path)
            # Before its files are looked for: text that is not a valid id names no file either.
            if txn not in known:
                raise InvalidArgument(f"transaction {txn!r} is not known as committed in {path}")
            with self._log_dirs.failing(path, f"forgetting {txn!r}"):
                names = fs.list(path)
            if journal_name(txn) in names:
                raise InvalidArgument(f"transaction {txn!r} is committed and not applied yet")
            if transaction_hash(txn) in waiting_hashes(names):
                raise CommitPending(f"a process waits for the outcome of transaction {txn!r}")
            with self._log_dirs.failing(path, f"forgetting {txn!r}"):
                # A journal whose deletion is not durable may come back, and would be applied again.
                fs.sync_directory(path)
                forget_finished(fs, path, known, txn)
            _log.warning("transaction-forgotten directory=%s txn=%s", path, txn)

    def drop(self, path: str, txn: str) -> None:
        """Give up what is left of a pending transaction; what is in the logs becomes visible.

        Its id may be used again. One that waits to be committed never is. In place of the id, the
        name of a staged file that no transaction names drops all files of its attempt. Raises
        InvalidArgument if no such transaction is pending, and CommitPending if it is only to be
        seen by its waiter.
        """
        with self._registry.change_lock:
            self._registry.check_open()
            log_dir, found = self._log_dirs.online(path), self.pending.get((path, txn))
            if found is None:
                self._drop_waiting(path, txn)
                return
            target = _Directory(self, log_dir)
            with self._log_dirs.failing(path, f"dropping {txn!r}"):
                give_up(target, found[0])
            target.release(found[0])
            self._forget(path, txn)
            _log.warning("transaction-dropped directory=%s txn=%s", path, txn)

    def _drop_waiting(self, path: str, txn: str) -> None:
        self.settle_manifests()
        with self._log_dirs.failing(path, f"dropping {txn!r}"):
            if not drop_waiting(self._machine.fs, path, txn) and not self._drop_files(path, txn):
                raise InvalidArgument(f"transaction {txn!r} is not pending in {path}")
        _log.warning("transaction-dropped directory=%s txn=%s", path, txn)

    def _drop_files(self, path: str, name: str) -> bool:
        """Delete the staged files of an attempt durably; return whether there were some."""
        fs = self._machine.fs
        unnamed = abandoned_files(fs, path, INT64_MAX) if is_staged_name(name) else ()
        found = [one for one in unnamed if attempt_of(one) == attempt_of(name)]
        for one in found:
            with suppress(FileNotFoundError):  # its writer deletes them, too
                fs.delete(f"{path}/{one}")
        # Who has them dropped wants what they hold gone, also after a power cut.
        fs.sync_directory(path)
        return bool(found)

    def settle_manifests(self) -> None:
        """Bring the manifests to their end that were decided on, or are past their deadline.

        Raises KafkaStorageError if a disk failed, or a file of transactions cannot be read.
        """
        with self._registry.change_lock:
            self._registry.check_open()
            for log_dir in list(self._log_dirs):
                with self._log_dirs.failing(log_dir.path, "settling manifests"):
                    sweep_all(self._machine.fs, log_dir.path, self._machine.clock.now_ms())

    def drop_topic(self, topic_id: UUID) -> None:
        """Take a topic that was deleted out of all journals; the caller holds ``change_lock``."""
        for (path, txn), (journal, reason) in list(self.pending.items()):
            log_dir = self._log_dirs.get(path)
            if log_dir is None or topic_id not in journal.topic_ids:
                continue
            target = _Directory(self, log_dir)
            try:
                found = self._reread(log_dir, journal)
                if found is None:
                    self._end(target, journal)
                    self._forget(path, txn)
                    continue
                left = drop_topic(target, found, topic_id)
            except (OSError, KafkaStorageError) as error:
                # Its id stays among those of deleted topics, so that a replay leaves it out.
                if isinstance(error, OSError):
                    self._log_dirs.note_error(log_dir.path, error)
                left = self._without_deleted(path, journal)
                text = "transaction-not-rewritten directory=%s txn=%s reason=%s"
                _log.warning(text, path, txn, error)
            target.hold(left)
            # The others stay held throughout: no reader sees them before all of it is there.
            target.release(journal.without(left.keys))
            self._note(path, left, reason)

    def check_not_deleted(self, name: str, topic_id: UUID) -> None:
        """Raise KafkaStorageError while the topic of this id is being deleted."""
        if self._topics.is_deleted(topic_id):
            raise KafkaStorageError(
                f"the deletion of topic {name} is not complete: a directory is offline, or a"
                " committed transaction writes to it"
            )

    def _reread(self, log_dir: LogDir, journal: Journal) -> Journal | None:
        """Return a journal as it is on the disk now, without the topics that were deleted.

        None if it is gone: an interrupt came after ``finish`` or ``give_up`` had deleted it, and
        before it was taken out of ``pending``.
        """
        try:
            found = read_journal(self._machine.fs, log_dir.path, journal.name)
        except FileNotFoundError:
            return None
        return self._without_deleted(log_dir.path, found)

    def _end(self, target: _Directory, journal: Journal) -> None:
        """Release the partitions of a journal that is gone."""
        if not is_finished(read_finished(target.fs, target.path), journal):
            text = "transaction-dropped directory=%s txn=%s"
            _log.warning(text, target.path, journal.txn)
        target.release(journal)

    def _without_deleted(self, path: str, journal: Journal) -> Journal:
        """Return a journal without deleted topics: new ones may have their names.

        They stay known as deleted while the journal is pending, since its file may name them.
        """
        for topic_id in filter(self._topics.is_deleted, journal.topic_ids):
            self._left_out.setdefault((path, journal.txn), set()).add(topic_id)
            journal = journal.without_topic(topic_id)
        return journal

    def _check_free(self, path: str, transaction: Transaction) -> None:
        names = {topic.name for topic in transaction.new_topics}
        for (other_path, txn), (journal, reason) in self.pending.items():
            shares_id = other_path == path and (
                txn == transaction.txn or _share_stream(journal, transaction)
            )
            shares_topic = names & {topic.name for topic in journal.topics}
            if shares_id or shares_topic or set(journal.keys) & set(transaction.keys):
                raise CommitPending(
                    f"transaction {txn!r} is committed and not applied yet: {reason}"
                )

    def _note_written(self, log_dir: LogDir, target: _Directory, error: BaseException) -> None:
        """Take note of the journal that a commit left behind, if it did."""
        journal = target.written
        if journal is None or not has_journal(self._machine.fs, log_dir.path, journal.txn):
            return
        try:
            journal = self._reread(log_dir, journal) or journal
        except (OSError, KafkaStorageError) as unread:  # else it is held as it was at first
            if not lacks_resources(unread):
                self._log_dirs.take_offline(log_dir.path, unread)
        if is_interrupt(_root_of(error)):
            self._interrupted.add((log_dir.path, journal.txn))
        target.hold(journal)
        self._failed(log_dir, journal, error)

    def _failed(self, log_dir: LogDir, journal: Journal, error: BaseException) -> None:
        cause = _root_of(error)
        if isinstance(cause, OSError):
            self._log_dirs.note_error(log_dir.path, cause)
        key = log_dir.path, journal.txn
        now_ns = self._machine.clock.monotonic_ns()
        if now_ns >= self._due_ns.get(key, 0):  # tries for other commits in between do not count
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay_ms = min(RETRY_MS << min(failures - 1, MAX_DOUBLINGS), MAX_RETRY_MS)
            self._due_ns[key] = now_ns + delay_ms * NS_PER_MS
        reason = text_or_kind(error)
        self._note(log_dir.path, journal, reason)
        text = "transaction-pending directory=%s txn=%s reason=%s"
        _log.warning(text, log_dir.path, journal.txn, reason)

    def _note(self, path: str, journal: Journal, reason: str) -> None:
        self.pending[path, journal.txn] = journal, reason
        self._reserve_topics()

    def _forget(self, path: str, txn: str) -> None:
        for by_key in (self.pending, self._failures, self._due_ns, self._left_out):
            by_key.pop((path, txn), None)
        self._interrupted.discard((path, txn))
        self._reserve_topics()

    def _reserve_topics(self) -> None:
        waiting = [journal for journal, _ in self.pending.values()]
        self._topics.reserved = {
            topic.name: topic.topic_id for journal in waiting for topic in journal.topics
        }
        named = (journal.topic_ids for journal in waiting)
        self._topics.pinned = set().union(*named, *self._left_out.values())


def _root_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


class _Directory(ManagerPart):
    """One data directory, as ``staging`` sees it."""

    def __init__(self, commits: StagedCommits, log_dir: LogDir) -> None:
        super().__init__(commits.shared)
        self._commits = commits
        self._log_dir = log_dir
        self._placed_bytes = 0
        self._placing_bytes: int | None = None
        self.fs = self._machine.fs
        self.path = log_dir.path
        self.retention_ms = self._config().tidelog_staged_retention_ms
        self.now_ms = self._machine.clock.now_ms
        self.reached = commits.on_point
        self.position_records = commits.groups.records_of
        self.written: Journal | None = None

    def check_steps(self, steps: Sequence[GroupStep]) -> None:
        groups = self._commits.groups
        groups.check(steps)
        # Before the commit point: what a power cut leaves of this alone does no harm.
        groups.end_members((step.group for step in steps), self.now_ms())

    def placed(self, journal: Journal, size_bytes: int) -> None:
        if self._placing_bytes is None:
            self._placing_bytes = sum(move.run.size_bytes for move in journal.moves)
        self._placed_bytes += size_bytes
        self._commits.watcher.applied(journal.txn, self._placed_bytes, self._placing_bytes)

    def check_room(self, size_bytes: int) -> None:
        self._registry.reserve.check_directory(self.path)
        free = self.fs.free_bytes(self.path)
        if free < size_bytes:
            raise DirectoryFull(f"{self.path} has {free:,} bytes free; {size_bytes:,} are needed")

    def plan(self, run: StagedRun, new: Mapping[str, NewTopic]) -> LogConfig:
        topics = self._topics
        if run.topic in new:
            if run.partition >= new[run.topic].partitions:
                raise UnknownTopicOrPartition(f"topic {run.topic} has no partition {run.partition}")
            topic = new[run.topic]
            return effective_config(
                topic.name,
                topics.defaults,
                own=topic.config,
                inherited=settings_of_birth(topic.birth),
                overrides=topics.overrides,
                is_adopted=False,
            )
        if topics.get(run.topic).home_of(run.partition) != self._log_dir.directory_id:
            raise InvalidArgument(
                f"{run.topic}-{run.partition} lies in another data directory than {self.path}: a"
                " transaction writes to one directory only"
            )
        return topics.config_of(run.topic)

    def check_new(self, topics: Sequence[NewTopic]) -> None:
        known = self._topics
        known.check_new({topic.name: topic.topic_id for topic in topics})
        if topics:
            self._commits.creator.home_at(self.path)
        for topic in topics:
            self._commits.check_not_deleted(topic.name, topic.topic_id)  # it would be left out
            settings = topic.config, topic.birth
            check_topic(topic.name, topic.partitions, *settings, defaults=known.defaults)
            self._commits.creator.check_free(topic.name, range(topic.partitions))

    def topic_ids(self) -> Mapping[str, UUID]:
        return {name: topic.topic_id for name, topic in self._topics.all().items()}

    def check_topic(self, topic: str, topic_id: UUID, partitions: int | None) -> None:
        known = self._topics.get(topic)
        if known.topic_id != topic_id:
            raise InconsistentTopicId(
                f"topic {topic} has id {known.topic_id}; the transaction is for {topic_id}"
            )
        count = max(known.partitions, default=-1) + 1
        if partitions not in {None, count}:
            raise InvalidArgument(
                f"topic {topic} has {count} partitions now; the transaction was planned for"
                f" {partitions}: run it again"
            )

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        home = self._log_dir.directory_id
        wanted = [one for one in topics if not self._topics.is_deleted(one.topic_id)]
        known = self._topics.all()
        new = [one for one in wanted if one.name not in known]
        for one in new:
            self._commits.creator.check_free(one.name, range(one.partitions))
        planned = [
            self._topics.planned(
                *(one.name, one.topic_id, [home] * one.partitions), one.config, one.birth
            )
            for one in new
        ]
        # Before the catalogue names them: whatever looks for their logs then makes them, and does
        # not take them for logs that were lost.
        keys = [TopicPartition(one.name, number) for one in planned for number in one.partitions]
        with self._registry.creating_new(keys):
            if planned:
                self._topics.add(planned)  # all at once: each write of the catalogue is a whole one
            made = {one.name: one for one in planned}
            for one in wanted:
                topic = made.get(one.name) or known[one.name]
                self._check_id(topic, one.topic_id)
                self._create_logs(topic, is_new=one.name in made)

    def _create_logs(self, topic: Topic, *, is_new: bool) -> None:
        commits = self._commits
        if is_new:
            commits.create_logs(topic, topic.partitions)
            return
        # Those that are not there were not made yet: the journal keeps the others where they are.
        keys = [TopicPartition(topic.name, number) for number in topic.partitions]
        self._registry.expect_new(keys)
        commits.complete_logs(topic)

    def is_deleted(self, journal: Journal, key: Key) -> bool:
        topic_id = journal.moves_of(key)[0].topic_id
        topics = self._topics
        if topics.is_deleted(topic_id):
            return True
        self._check_id(topics.get(key[0]), topic_id)
        return False

    @staticmethod
    def _check_id(topic: Topic, topic_id: UUID) -> None:
        if topic.topic_id != topic_id:
            raise KafkaStorageError(
                f"topic {topic.name} has id {topic.topic_id}; the transaction is for {topic_id}"
            )

    @contextmanager
    def locked(self, keys: Sequence[Key]) -> Iterator[None]:
        with ExitStack() as locks:
            for key in keys:
                partition = self._commits.partition_of(*key)
                locks.enter_context(partition.listeners)
                locks.enter_context(partition.lock)
            yield

    def log(self, key: Key) -> Log:
        return self._commits.partition_of(*key).log

    def hold(self, journal: Journal, *, is_shown: bool = False) -> None:
        for key in journal.keys:
            seen_offset = self._log_dir.checkpoints.high_watermark(key)
            partition = self._registry.partition(TopicPartition(*key))
            if partition is not None:  # its log may have lost its end: what comes there is new
                seen_offset = min(seen_offset, partition.held_log.high_watermark)
            hold = Hold(journal.txn, journal.base_offset(key), is_shown, seen_offset)
            self._registry.hold(TopicPartition(*key), hold)

    def release(self, journal: Journal) -> None:
        for key in journal.keys:
            self._registry.hold(TopicPartition(*key), None)

    def write_high_watermarks(self, journal: Journal) -> None:
        logs = [self._registry.current(TopicPartition(*key)) for key in journal.keys]
        # A partition may have moved after the commit.
        paths = {self.path} | {log.data_dir for log in logs if log is not None}
        for log_dir in self._log_dirs:
            if log_dir.path in paths:
                self._checkpointing.write(log_dir, DirectoryCheckpoints.write_high_watermarks)


def _share_stream(journal: Journal, transaction: Transaction) -> bool:
    """Return whether both are batches of one stream."""
    one, other = journal.stream, transaction.stream
    return one is not None and other is not None and one.query_id == other.query_id


def _ignore(_: CommitPoint) -> None:
    """Do nothing at any moment of a commit."""
