"""The end of a write: what its tasks staged is committed once, or deleted.

See ``docs/exactly-once.md``. Spark calls ``abort`` with all messages after a commit that failed,
wherever it failed.
"""

from __future__ import annotations

import logging
import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tidelog.arrow.writing.write_plan import delete_staged, objects_at
from tidelog.config.log_config import LogConfig
from tidelog.datadir.birth import birth_values
from tidelog.datadir.deletion_marks import read_catalogue_in_force
from tidelog.datadir.partition_directories import random_id
from tidelog.embedded.commits import DEFAULT_TIMEOUT_MS, commit_when_possible
from tidelog.embedded.doors import open_briefly
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, TidelogError, UnknownTopicOrPartition
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.staging.commit import Transaction
from tidelog.staging.journal import NewTopic, is_committed
from tidelog.staging.ready import is_waiting
from tidelog.staging.staged_file import attempt_of, files_of_attempts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from tidelog.arrow.writing.stage_rows import StagedPart
    from tidelog.arrow.writing.staged_rows import PlannedTopic
    from tidelog.arrow.writing.write_options import WriteOptions
    from tidelog.arrow.writing.write_plan import WritePlan
    from tidelog.datadir.catalogue import Topic
    from tidelog.readonly.read_only_topic import ReadOnlyTopic
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.staged_run import StagedRun
    from tidelog.staging.stream_batch import StreamBatch

_log = logging.getLogger(__name__)


class ExistingTopic(NamedTuple):
    """A topic as a commit finds it; ``topic_id`` is None where the directory names none."""

    topic_id: UUID | None
    partitions: int


@dataclass(frozen=True)
class StagedWrite:
    """All that the tasks of a write staged, in order of tasks.

    ``topics`` are those of the runs, as planned, and those that are to exist even without rows.
    ``birth`` are the birth values of new ones. ``staged_at`` is the plan's.
    """

    options: WriteOptions
    txn: str
    stream: StreamBatch | None
    runs: Sequence[StagedRun]
    topics: Mapping[str, PlannedTopic]
    birth: Mapping[str, str] = field(default_factory=lambda: birth_values(LogConfig()))
    staged_at: str | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether there are no rows, no topics to create, and no id to remember."""
        is_new = any(topic.is_new for topic in self.topics.values())
        return not self.runs and not is_new and not self.is_named

    @property
    def is_named(self) -> bool:
        """Whether the transaction has an id by which a repeat is recognized."""
        return self.stream is not None or self.options.txn_id is not None

    def transaction(self, existing: Mapping[str, ExistingTopic]) -> Transaction:
        """Return what to commit, with the topics that exist now.

        Raises:
            UnknownTopicOrPartition: a topic was deleted since the write was planned.
            InvalidArgument: a topic has another number of partitions than was planned.
        """
        names = sorted(self.topics)
        ids = {name: self._topic_id(name, existing.get(name)) for name in names}
        rng = random.SystemRandom()
        return Transaction(
            self.txn,
            is_named=self.is_named,
            runs=self.runs,
            new_topics=tuple(
                NewTopic(
                    *(name, random_id(rng), self.topics[name].partitions),
                    dict(self.options.topic_config),
                    self.birth,
                )
                for name in names
                if ids[name] is None
            ),
            topic_ids={name: one for name, one in ids.items() if one is not None},
            stream=self.stream,
            skips_old=self.options.skip_old_batches,
            accepts_gap=self.options.accept_missing_batches,
            partitions={
                name: self.topics[name].partitions for name in names if ids[name] is not None
            },
        )

    def _topic_id(self, name: str, topic: ExistingTopic | None) -> UUID | None:
        """Return a topic's id, None if the commit is to create it."""
        planned = self.topics[name]
        if topic is None:
            if not planned.is_new:
                raise UnknownTopicOrPartition(f"topic {name} was deleted during the write")
            return None
        if topic.partitions != planned.partitions:
            raise InvalidArgument(
                f"topic {name} has {topic.partitions} partitions now; the write was planned for"
                f" {planned.partitions}: run it again"
            )
        # A topic that was deleted and made again has another id; the commit then refuses.
        return planned.topic_id or topic.topic_id


def staged_write(
    options: WriteOptions,
    plan: WritePlan,
    txn: str,
    parts: Iterable[StagedPart],
) -> StagedWrite:
    """Return what a batch write is to commit: the parts of its tasks, in order of tasks.

    The topic that the options name is to exist even without rows.
    """
    topics = {} if options.topic is None else {options.topic: plan.planned(options.topic)}
    runs: list[StagedRun] = []
    for part in parts:
        runs += part.runs
        topics |= part.topics
    return StagedWrite(options, txn, None, runs, topics, staged_at=plan.staged_at)


@contextmanager
def ended(options: WriteOptions, plan: WritePlan, txn: str) -> Iterator[None]:
    """End a write with its body, which stages and commits; abort it if that fails."""
    try:
        yield
    except BaseException:
        abort_write(options, txn, [plan.marker], plan.staged_at)
        raise
    delete_attempts(options.path, [plan.marker], plan.staged_at)


def reached(_point: object) -> None:
    """Take note of how far a commit is; tests stop here."""


def commit_write(write: StagedWrite) -> CommittedTransaction:
    """Commit what was staged, unless it was committed before; errors as ``commit_when_possible``.

    The process that holds the directory commits it, or this one once the directory is free.
    """
    path, start_ns = write.options.path, SYSTEM_CLOCK.monotonic_ns()
    if write.staged_at is not None:
        objects_at(write.staged_at).download(SYSTEM_FILES, path, write.runs)
    done = _commit(write, existing_topics(path, write.topics))
    commit_ms = (SYSTEM_CLOCK.monotonic_ns() - start_ns) // 1_000_000
    if done.is_repeat:
        note_skipped(path, write.txn, done)
        _note_other_rows(write, done)
        return done
    files = {run.name for run in write.runs}
    text = "table-write-committed directory=%s txn=%s records=%d bytes=%d files=%d commit_ms=%d"
    size = sum(run.size_bytes for run in write.runs)
    _log.info(text, path, write.txn, done.total, size, len(files), commit_ms)
    return done


def note_skipped(path: str, txn: str, done: CommittedTransaction) -> None:
    """Log that a write was skipped, since its transaction was committed before."""
    # A warning, since Spark shows nothing below that level of what Python logs on the driver.
    text = "table-write-skipped directory=%s txn=%s committed_txn=%s committed_ms=%d records=%d"
    _log.warning(text, path, txn, done.txn, done.time_ms, done.total)


def _note_other_rows(write: StagedWrite, done: CommittedTransaction) -> None:
    """Warn of a repeat that has another number of records than what was committed.

    A sink does not know which offsets a batch of a stream has read. So one that Spark has planned
    again, up to newer offsets, since its checkpoint was put back, looks like a repeat, and this is
    all that shows that rows are lost. How many records an older batch had is not known any more.
    """
    repeated = sum(run.records for run in write.runs)
    if done.stream != write.stream:
        if repeated:
            text = "old-batch-skipped directory=%s txn=%s skipped_records=%d"
            _log.warning(text, write.options.path, write.txn, repeated)
    elif done.txn == write.txn and repeated != done.total:
        text = "repeat-differs directory=%s txn=%s committed_records=%d repeated_records=%d"
        _log.warning(text, write.options.path, write.txn, done.total, repeated)


def _commit(write: StagedWrite, topics: Mapping[str, ExistingTopic]) -> CommittedTransaction:
    path, timeout_ms = write.options.path, write.options.commit_timeout_ms
    if any(name in topics and topics[name].topic_id is None for name in write.topics):
        # Kafka left them without ids, so no service of ours has held the directory yet.
        with open_briefly(path) as logs:
            adopted = {
                name: ExistingTopic(topic.topic_id, max(topic.partitions) + 1)
                for name, topic in logs.topics().items()
            }
            return logs.commit_transaction(write.transaction(adopted), path)
    return commit_when_possible(
        [path],
        path,
        write.transaction(topics),
        timeout_ms=DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        on_point=reached,
    )


def existing_topics(path: str, names: Iterable[str]) -> dict[str, ExistingTopic]:
    """Return those of the topics that exist, from files: another process may hold the directory."""
    topics: Mapping[str, Topic | ReadOnlyTopic] = read_catalogue_in_force(SYSTEM_FILES, path).topics
    wanted = set(names)
    if not wanted <= topics.keys():  # those of a broker are not listed before we hold its directory
        topics = {**open_directory_read_only(path, fs=SYSTEM_FILES).topics, **topics}
    return {
        name: ExistingTopic(topics[name].topic_id, max(topics[name].partitions) + 1)
        for name in wanted & topics.keys()
    }


def abort_write(
    options: WriteOptions, txn: str, markers: Collection[str], staged_at: str | None = None
) -> None:
    """Delete what the attempts of ``markers`` have staged, or apply it if it is committed.

    It stays, too, if the process that holds the directory has yet to report whether it committed
    it. Another attempt of the same id is left alone.
    """
    path, attempts = options.path, set(map(attempt_of, markers))
    if staged_at is not None:  # a commit that waits, or is not finished, has downloaded them
        objects_at(staged_at).delete(markers)
    if is_waiting(SYSTEM_FILES, path, txn, attempts):
        return
    if not is_committed(SYSTEM_FILES, path, txn, attempts):
        delete_attempts(path, markers)
        return
    try:
        with open_briefly(path):  # which finishes the journals that it finds
            pass
    except (TidelogError, OSError) as error:
        # A service tries again by itself, others when the directory is opened next.
        text = "transaction-pending directory=%s txn=%s reason=%s"
        _log.warning(text, path, txn, error)


def delete_attempts(path: str, markers: Collection[str], staged_at: str | None = None) -> None:
    """Delete all that the attempts of ``markers`` have staged: nothing needs it, or will."""
    if staged_at is not None:
        objects_at(staged_at).delete(markers)
    # Markers first: a task that is still at work deletes its files if it finds its marker gone at
    # its end. In the other order, files that it makes after the list would stay.
    delete_staged(path, markers)
    attempts = set(map(attempt_of, markers))
    try:
        found = files_of_attempts(SYSTEM_FILES, path, attempts)
    except OSError as error:
        # Raised, it would stand for a failed write, or hide that one is committed; a sweep deletes.
        _log.warning("staged-file-not-deleted path=%s reason=%s", path, error)
        return
    delete_staged(path, found)
