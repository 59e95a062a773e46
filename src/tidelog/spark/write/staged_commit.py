"""The driver's part of a write: what the tasks staged is committed once, or deleted.

See ``docs/exactly-once.md``. Spark calls ``abort`` with all messages after a commit that failed,
wherever it failed.
"""

from __future__ import annotations

import logging
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.datadir.partition_directories import random_id
from tidelog.embedded.doors import open_briefly
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.waiting import sleep_ms
from tidelog.errors import (
    DirectoryLocked,
    InvalidArgument,
    TidelogError,
    UnknownTopicOrPartition,
)
from tidelog.spark.options.source_options import DEFAULT_COMMIT_TIMEOUT_MS
from tidelog.spark.write.write_plan import delete_staged
from tidelog.staging.journal import NewTopic, journal_name
from tidelog.staging.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.embedded.logs import Logs
    from tidelog.spark.options.source_options import WriteOptions
    from tidelog.spark.write.staged_rows import PlannedTopic
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.staged_run import StagedRun
    from tidelog.staging.stream_batch import StreamBatch

_log = logging.getLogger(__name__)

LOCK_POLL_MS: Final = 200


@dataclass(frozen=True)
class StagedWrite:
    """All that the tasks of a write staged, in order of tasks.

    ``topics`` are those of the runs, as planned, and those that are to exist even without rows.
    """

    options: WriteOptions
    txn: str
    stream: StreamBatch | None
    runs: Sequence[StagedRun]
    topics: Mapping[str, PlannedTopic]

    def transaction(self, existing: Mapping[str, Topic]) -> Transaction:
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
            is_named=self.stream is not None or self.options.txn_id is not None,
            runs=self.runs,
            new_topics=tuple(
                NewTopic(
                    *(name, random_id(rng), self.topics[name].partitions),
                    dict(self.options.topic_config),
                )
                for name in names
                if ids[name] is None
            ),
            topic_ids={name: one for name, one in ids.items() if one is not None},
            stream=self.stream,
            skips_old=self.options.skip_old_batches,
        )

    def _topic_id(self, name: str, topic: Topic | None) -> UUID | None:
        """Return a topic's id, None if the commit is to create it."""
        planned = self.topics[name]
        if topic is None:
            if not planned.is_new:
                raise UnknownTopicOrPartition(f"topic {name} was deleted during the write")
            return None
        if len(topic.partitions) != planned.partitions:
            raise InvalidArgument(
                f"topic {name} has {len(topic.partitions)} partitions now; the write was planned"
                f" for {planned.partitions}: run it again"
            )
        # A topic that was deleted and made anew has another id; the commit then refuses.
        return planned.topic_id or topic.topic_id


def reached(_point: object) -> None:
    """Take note of how far a commit is; tests stop here."""


def commit_write(write: StagedWrite) -> CommittedTransaction:
    """Commit what was staged, unless it was committed before; errors as ``Logs.commit``."""
    path = write.options.path
    start_ns = SYSTEM_CLOCK.monotonic_ns()
    with open_when_free(write.options) as logs:
        logs.manager.staged_commits.on_point = reached
        done = logs.commit_transaction(write.transaction(logs.topics()), path)
    commit_ms = (SYSTEM_CLOCK.monotonic_ns() - start_ns) // 1_000_000
    if done.is_repeat:
        # A warning, since Spark shows nothing below that level of what Python logs on the driver.
        text = "spark-write-skipped directory=%s txn=%s committed_txn=%s committed_ms=%d records=%d"
        _log.warning(text, path, write.txn, done.txn, done.time_ms, done.total)
        return done
    files = {run.name for run in write.runs}
    text = "spark-write-committed directory=%s txn=%s records=%d bytes=%d files=%d commit_ms=%d"
    size = sum(run.size_bytes for run in write.runs)
    _log.info(text, path, write.txn, done.total, size, len(files), commit_ms)
    return done


def abort_write(options: WriteOptions, txn: str, names: Sequence[str]) -> None:
    """Delete the staged files ``names``; if the transaction is committed, apply it instead.

    A failed task has deleted its own file.
    """
    journal = os.path.join(options.path, journal_name(txn))
    if not SYSTEM_FILES.exists(journal):
        delete_staged(options.path, names)
        return
    try:
        with open_when_free(options):  # which finishes the journals that it finds
            pass
    except (TidelogError, OSError) as error:
        text = "transaction-pending directory=%s txn=%s reason=%s"
        _log.warning(text, options.path, txn, error)


def open_when_free(options: WriteOptions, wait_ms: Callable[[int], None] = sleep_ms) -> Logs:
    """Open the directory to write; wait, by ``wait_ms``, while another process writes to it.

    Raises:
        DirectoryLocked: it is still in use after ``commitTimeoutMs``.
    """
    timeout_ms = options.commit_timeout_ms
    if timeout_ms is None:
        timeout_ms = DEFAULT_COMMIT_TIMEOUT_MS
    until_ns = SYSTEM_CLOCK.monotonic_ns() + timeout_ms * 1_000_000
    while True:
        try:
            return open_briefly(options.path)
        except DirectoryLocked:
            if SYSTEM_CLOCK.monotonic_ns() >= until_ns:
                raise
        wait_ms(LOCK_POLL_MS)
