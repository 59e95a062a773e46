"""The commit of a transaction: all its records are in the logs once, or none is.

A journal decides: without it nothing has happened, with it everything will. ``finish`` applies a
journal and can be repeated after a crash at any moment, its own included.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.datadir.versioned_file import whole
from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import (
    CommitUnfinished,
    InvalidRecord,
    KafkaError,
    TidelogError,
    UnexpectedAppendOffset,
)
from tidelog.log.directory_guard import is_interrupt
from tidelog.log.offsets import check_offsets_left
from tidelog.log.producers.producer_updates import ProducerUpdates
from tidelog.staging.adopting import is_adoptable
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import (
    check_table,
    find_repeated,
    finished_of,
    is_finished,
    read_finished,
    write_finished,
)
from tidelog.staging.group_step import GroupStep
from tidelog.staging.journal import Journal, Move, NewTopic, has_journal, write_journal
from tidelog.staging.journal_names import is_journal_name
from tidelog.staging.manifest_names import HASH, waiting_hashes
from tidelog.staging.placing import place_moves
from tidelog.staging.staged_file import attempt_of, files_of_attempts, transaction_hash
from tidelog.staging.staged_run import RunLimits, StagedRun, check_run
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.staging.directory import Key, StagingDirectory
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.staged_run import EpochRange

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is to be committed: runs in the order in which each partition gets them.

    ``is_named``: the user chose ``txn`` and may repeat it. ``topic_ids`` are those of the existing
    topics that the runs name; ``new_topics`` are created by the commit. ``stream``: it is a batch
    of a stream, whose ``txn`` it has; with ``skips_old`` it is skipped if a later one is committed,
    and with ``accepts_gap`` it is committed if those before it are not.
    ``partitions`` are the numbers of partitions of existing topics by which records were given to
    partitions; a commit refuses another number, since keys would lie in the wrong ones. ``steps``
    are those of consumer groups, whose positions are among the records.
    """

    txn: str
    is_named: bool
    runs: Sequence[StagedRun]
    new_topics: Sequence[NewTopic]
    topic_ids: dict[str, UUID]
    stream: StreamBatch | None = None
    skips_old: bool = False
    partitions: Mapping[str, int] = field(default_factory=dict)
    steps: Sequence[GroupStep] = ()
    accepts_gap: bool = False

    @property
    def topics(self) -> list[str]:
        """The topics that it is for, sorted; an existing one may get no records."""
        new = {topic.name for topic in self.new_topics}
        return sorted({run.topic for run in self.runs} | new | set(self.topic_ids))

    @property
    def keys(self) -> list[Key]:
        """The partitions that it writes, sorted."""
        return sorted({(run.topic, run.partition) for run in self.runs})

    @property
    def records(self) -> dict[str, int]:
        """The number of records by topic, sorted, of new topics without any, too."""
        records = Counter(dict.fromkeys(self.topics, 0))
        for run in self.runs:
            records[run.topic] += run.records
        return dict(records)

    def find_in(self, known: Mapping[str, CommittedTransaction]) -> CommittedTransaction | None:
        """Return what was committed as this before, None: nothing; errors as ``find_repeated``."""
        how = {"skips_old": self.skips_old, "accepts_gap": self.accepts_gap}
        return find_repeated(known, self.txn, self.stream, **how)

    def ids(self) -> dict[str, UUID]:
        """Return the ids of the topics that it is for, existing and new."""
        return {**self.topic_ids, **{one.name: one.topic_id for one in self.new_topics}}

    def as_json(self) -> dict[str, Any]:
        """Return the transaction as it is written into a manifest."""
        entry: dict[str, Any] = {
            "txn": self.txn,
            "named": self.is_named,
            "runs": [run.as_json() for run in self.runs],
            "topics": [topic.as_json() for topic in self.new_topics],
            "topicIds": {name: format_uuid(one) for name, one in sorted(self.topic_ids.items())},
        }
        if self.stream is not None:
            how = {"skipsOld": self.skips_old, "acceptsGap": self.accepts_gap}
            entry["stream"] = {**self.stream.as_json(), **how}
        if self.partitions:
            entry["partitions"] = dict(sorted(self.partitions.items()))
        if self.steps:
            entry["steps"] = [step.as_json() for step in self.steps]
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Transaction:
        """Read a transaction; its runs lie in staged files of its own.

        Raises KeyError, TypeError, ValueError, InvalidTopic or InvalidArgument for another form.
        """
        txn, stream = entry["txn"], entry.get("stream")
        if not isinstance(txn, str) or not txn:
            raise ValueError(f"{txn!r} is not a transaction id")
        runs = tuple(StagedRun.from_json(run) for run in entry["runs"])
        prefix = f"tidelog.{transaction_hash(txn)}."
        if any(not run.name.startswith(prefix) for run in runs):
            raise ValueError(f"a run of {txn!r} lies in a staged file of another transaction")
        in_files = pairwise(sorted(runs, key=lambda run: (run.name, run.position)))
        if any(one.name == other.name and one.end > other.position for one, other in in_files):
            raise ValueError(f"runs of {txn!r} overlap in a staged file")
        new_topics = tuple(NewTopic.from_json(topic) for topic in entry["topics"])
        if len({one.name for one in new_topics}) < len(new_topics):
            raise ValueError(f"{txn!r} creates a topic twice")
        topic_ids = {str(name): parse_uuid(text) for name, text in entry["topicIds"].items()}
        unknown = {run.topic for run in runs} - {one.name for one in new_topics} - set(topic_ids)
        if unknown:
            raise ValueError(f"the ids of {', '.join(sorted(unknown))} are missing")
        return cls(
            txn,
            bool(entry["named"]),
            runs,
            new_topics,
            topic_ids,
            None if stream is None else StreamBatch.from_json(stream),
            stream is not None and bool(stream["skipsOld"]),
            {
                str(name): whole(one, "a number of partitions", 1)
                for name, one in entry.get("partitions", {}).items()
            },
            tuple(GroupStep.from_json(step) for step in entry.get("steps", ())),
            stream is not None and bool(stream.get("acceptsGap", False)),
        )


def commit(target: StagingDirectory, transaction: Transaction) -> CommittedTransaction:
    """Commit a transaction, unless it was committed before; return what was.

    A batch of a stream that was committed before, perhaps with other records, is skipped.

    The caller has finished the journals that it found, and keeps others from committing.

    Raises:
        CommitUnfinished: it is committed, or may be, but is not applied yet.
        TransactionMismatch: it was committed before, for other topics.
        OldStreamBatch: its stream has committed a later batch.
        MissingStreamBatches: batches of its stream before it are not committed.
        IllegalGeneration: a group is no longer where the reader began whose positions it commits.
        KafkaStorageError: the table of finished transactions has no room for it.
        KafkaError, InvalidArgument: refused; nothing was changed.
        OSError: the disk failed, or is full; nothing is committed.
    """
    known = read_finished(target.fs, target.path)
    done = transaction.find_in(known)
    if done is not None:
        return skip_repeat(target.fs, target.path, transaction, done, target.topic_ids())
    checked = _check(target, transaction)
    new = {topic.name for topic in transaction.new_topics}
    with target.locked([key for key in transaction.keys if key[0] not in new]):
        # Within the locks, and after the repeat was found: the group then is where that has put it.
        target.check_steps(transaction.steps)
        journal = _journal(target, transaction, checked)
        check_table(
            *(target.fs, target.path, known, finished_of(journal)),
            awaited=partial(_awaited, target, known, is_found=False),
            retention_ms=target.retention_ms,
        )
        target.reached(CommitPoint.CHECKED)
        _write_first(target, journal)
        try:
            target.reached(CommitPoint.COMMITTED)
            return finish(target, journal, known)
        except (TidelogError, OSError) as error:
            raise CommitUnfinished(
                f"transaction {journal.txn!r} is committed, do not repeat it under another id; its"
                f" records are not all in place yet: {error}"
            ) from error


def skip_repeat(
    fs: FileSystem,
    data_dir: str,
    transaction: Transaction,
    done: CommittedTransaction,
    topic_ids: Mapping[str, UUID | None],
) -> CommittedTransaction:
    """Delete the staged files of a repeat; return what was committed before.

    ``topic_ids`` are those of all topics now, never those that the repeat has drawn for new ones.
    Raises TransactionMismatch if that was for other topics, or one was deleted since.
    """
    done.check_topics(transaction.topics, topic_ids)
    delete_staged(fs, data_dir, transaction)
    text = "transaction-skipped directory=%s txn=%s committed_txn=%s committed_ms=%d records=%d"
    _log.info(text, data_dir, transaction.txn, done.txn, done.time_ms, done.total)
    return replace(done, is_repeat=True)


def delete_staged(fs: FileSystem, data_dir: str, transaction: Transaction) -> None:
    """Delete the staged files that a transaction names; a later sweep deletes what is left."""
    for name in sorted({run.name for run in transaction.runs}):
        with suppress(OSError):
            fs.delete(os.path.join(data_dir, name))


class _Checked(NamedTuple):
    """What the checks of a run have found."""

    is_stamped: bool
    is_adopted: bool
    epochs: EpochRange


def _check(target: StagingDirectory, transaction: Transaction) -> list[_Checked]:
    """Check files, settings and space; return what was found of each run."""
    new = {topic.name: topic for topic in transaction.new_topics}
    target.check_new(transaction.new_topics)
    for name in sorted({run.topic for run in transaction.runs} - set(new)):
        target.check_topic(name, transaction.topic_ids[name], transaction.partitions.get(name))
    producers: dict[Key, ProducerUpdates] = {}
    checked, needed_bytes = [], 0
    partition_bytes: Counter[Key] = Counter()
    for run in transaction.runs:
        partition_bytes[run.topic, run.partition] += run.size_bytes
    for run in transaction.runs:
        config = target.plan(run, new)
        if run.keeps_offsets:
            key = run.topic, run.partition
            known = None if run.topic in new else target.log(key).producers
            updates = producers.setdefault(key, ProducerUpdates(known))
            limits = RunLimits(config.segment_size_bytes, False, False, updates)
        else:
            limits = RunLimits(
                config.max_batch_bytes,
                config.needs_keys,
                config.is_stamped,
                is_policy_known=config.is_policy_known,
            )
        epochs = check_run(target.fs, target.path, run, limits)
        total = partition_bytes[run.topic, run.partition]
        is_adopted = is_adoptable(target.fs, target.path, run, config, total)
        checked.append(_Checked(limits.is_stamped, is_adopted, epochs))
        needed_bytes += 0 if is_adopted else run.size_bytes
    target.check_room(needed_bytes)
    return checked


def _journal(
    target: StagingDirectory, transaction: Transaction, checked: Sequence[_Checked]
) -> Journal:
    """Return the journal; what its base offsets stand on is durable from here on."""
    new, ids = {topic.name for topic in transaction.new_topics}, transaction.ids()
    copied = {(run.topic, run.partition) for run in transaction.runs if run.keeps_offsets}
    ends: dict[Key, tuple[int, int]] = dict.fromkeys(transaction.keys, (0, 0))
    for key in transaction.keys:
        if key[0] not in new:
            log = target.log(key)
            log.check_appendable()  # a log that takes no appends would keep the journal for ever
            log.flush_records()
            epoch = (log.latest_epoch or 0) if key in copied else log.leader_epoch
            ends[key] = log.log_end_offset, epoch
    moves = []
    for run, found in zip(transaction.runs, checked, strict=True):
        base, epoch = ends[run.topic, run.partition]
        if run.keeps_offsets:
            _check_end(run, found.epochs, base, epoch)
            base, epoch = run.first_offset, found.epochs.last
        else:
            # A journal whose offsets do not fit can never be applied, and blocks its partitions.
            check_offsets_left(base, run.records)
        move = Move(
            ids[run.topic],
            run,
            base,
            epoch,
            run.records,
            found.is_stamped,
            is_adopted=found.is_adopted,
        )
        moves.append(move)
        ends[move.key] = move.end_offset, epoch
    return Journal(
        transaction.txn,
        transaction.is_named,
        target.now_ms(),
        transaction.records,
        tuple(transaction.new_topics),
        tuple(moves),
        transaction.stream,
        {name: ids[name] for name in transaction.topics},
        frozenset(attempt_of(run.name) for run in transaction.runs),
        tuple(step.key for step in transaction.steps),
    )


def _check_end(run: StagedRun, epochs: EpochRange, log_end_offset: int, epoch: int) -> None:
    """Refuse a run whose offsets or epochs begin below those that its log has."""
    name = f"{run.topic}-{run.partition}"
    if run.first_offset < log_end_offset:
        first, last = run.first_offset, run.next_offset - 1
        raise UnexpectedAppendOffset(first, last, log_end_offset, 0, (first,)).of_log(name)
    if epochs.first < epoch:
        raise InvalidRecord(
            f"leader epoch {epochs.first} of a staged batch is below the log's, {epoch}"
        ).of_log(name)


def _write_first(target: StagingDirectory, journal: Journal) -> None:
    """Make the journal durable, and the names of the staged files before it.

    An OSError before the rename is raised as it is: nothing is committed. After it, it is open
    whether the journal is durable; so the directory must be opened again, and the staged files must
    stay.
    """
    fs = target.fs
    try:
        # The names of the staged files first: a journal must not name files that a power cut took.
        fs.sync_directory(target.path)
        target.written = journal
        write_journal(fs, target.path, journal)
    except OSError as error:
        if has_journal(fs, target.path, journal.txn):
            target.hold(journal)
            raise CommitUnfinished(
                f"transaction {journal.txn!r} may be committed: {error}; repeat it with the same id"
            ) from error
        raise


def finish(
    target: StagingDirectory,
    journal: Journal,
    known: Mapping[str, CommittedTransaction] | None = None,
) -> CommittedTransaction:
    """Apply a journal, or the rest of it; return what the transaction wrote.

    ``known``: the finished transactions, as the commit that has just written the journal read them.
    None: an earlier try or process has left the journal, perhaps before it could sync the names of
    the journal and of the table of finished transactions.

    Raises KafkaError or OSError if it cannot be applied, now or at all; the journal stays, and its
    partitions are held.
    """
    fs, path, done = target.fs, target.path, finished_of(journal)
    is_found = known is None
    if known is None:
        fs.sync_directory(path)
        known = read_finished(fs, path)
    if is_finished(known, journal):
        target.release(journal)
    else:
        target.hold(journal)
        target.create_topics(journal.topics)
        target.reached(CommitPoint.CREATED)
        keys = [key for key in journal.keys if not target.is_deleted(journal, key)]
        with target.locked(keys):
            target.hold(journal)
            _place(target, journal, keys)
            target.reached(CommitPoint.PLACED)
            target.hold(journal, is_shown=True)
            target.write_high_watermarks(journal)
            target.reached(CommitPoint.VISIBLE)
            done = replace(done, positions=target.position_records(journal.positions))
            awaited = _awaited(target, known, is_found=is_found)
            write_finished(fs, path, known, done, awaited=awaited, retention_ms=target.retention_ms)
            target.release(journal)  # before the locks: the next append need not be refused
        text = "transaction-committed directory=%s txn=%s records=%d"
        # Commits come by the hundred a second, and are counted; one that was left is an event.
        _log.log(logging.INFO if is_found else logging.DEBUG, text, path, journal.txn, done.total)
    target.reached(CommitPoint.FINISHED)
    clean_up(target, journal)
    target.reached(CommitPoint.CLEANED)
    return done


def _awaited(
    target: StagingDirectory, known: Mapping[str, CommittedTransaction], *, is_found: bool
) -> set[str]:
    """Return the hashes of the finished transactions that must stay known.

    Their manifests wait, or their journals are there, or may come back after a power cut: those
    that were deleted before the directory was last synced do not.
    """
    if is_found:
        return {transaction_hash(txn) for txn in known}
    names = target.fs.list(target.path)
    return waiting_hashes(names) | {name[HASH] for name in names if is_journal_name(name)}


def _place(target: StagingDirectory, journal: Journal, keys: Sequence[Key]) -> None:
    """Put all moves into their logs, durably; try every partition, then raise the first error."""
    target.write_high_watermarks(journal)
    errors: list[KafkaError | OSError] = []
    for key in keys:
        try:
            log = target.log(key)
            while True:
                moves = journal.moves_of(key)
                left = place_moves(
                    *(target.fs, target.path, log, journal, moves),
                    on_placed=partial(target.placed, journal),
                )
                if left is None:
                    break
                log.flush_records()
                journal = journal.replacing(key, left.moves)
                write_journal(target.fs, target.path, journal)
                _log.warning(
                    "transaction-placed-anew txn=%s directory=%s base_offset=%d",
                    *(journal.txn, log.directory, left.moves[0].base_offset),
                )
            log.flush_records()
        except (KafkaError, OSError) as error:
            errors.append(error)
    if errors:
        raise errors[0]


def clean_up(target: StagingDirectory, journal: Journal) -> None:
    """Delete the staged files of a finished transaction, then its journal.

    What cannot be deleted now is left for the next opening of the directory. Files of other
    attempts with the same id stay: their tasks may be at work, and each cleans up after itself.
    """
    fs, path = target.fs, target.path
    try:
        for name in (*files_of_attempts(fs, path, journal.attempts), journal.name):
            delete_if_there(fs, os.path.join(path, name))
    except OSError as error:
        if is_interrupt(error):  # not of the disk: the next act finishes this
            raise
        text = "transaction-not-cleaned-up directory=%s txn=%s reason=%s"
        _log.warning(text, path, journal.txn, error)


def give_up(target: StagingDirectory, journal: Journal) -> None:
    """Delete a journal that was not applied, durably, then the staged files of its transaction.

    Durably, since a power cut might bring it back, and it would be applied. An OSError of the first
    step leaves both.
    """
    delete_if_there(target.fs, os.path.join(target.path, journal.name))
    target.fs.sync_directory(target.path)
    clean_up(target, journal)


def drop_topic(target: StagingDirectory, journal: Journal, topic_id: UUID) -> Journal:
    """Take a deleted topic out of a journal, durably; return the journal that is left."""
    left = journal.without_topic(topic_id)
    write_journal(target.fs, target.path, left)
    return left
