"""One task's part of a write: its rows become a staged file. Spark: ``KafkaDataWriter``."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.spark.write.input_columns import select_columns, split_by_topic
from tidelog.spark.write.staged_rows import StagingTarget, TaskStaging
from tidelog.staging.staged_file import attempt_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidelog.spark.options.source_options import WriteOptions
    from tidelog.spark.write.staged_rows import PlannedTopic
    from tidelog.spark.write.write_plan import WritePlan
    from tidelog.staging.staged_run import StagedRun
    from tidelog.staging.stream_batch import StreamBatch


@dataclass
class StagedTask(WriterCommitMessage):
    """What one task staged, for the driver to commit or to delete.

    ``topics`` are those of the runs, as planned; ``marker`` is the plan's. ``stream`` is the batch
    that the task belongs to, None for a batch write.
    """

    runs: tuple[StagedRun, ...]
    topics: dict[str, PlannedTopic]
    marker: str
    stream: StreamBatch | None = None


def staged_tasks(messages: list[WriterCommitMessage | None]) -> list[StagedTask]:
    """Return the messages of the tasks that succeeded, in order of tasks."""
    return [one for one in messages if isinstance(one, StagedTask)]


def first_partition(txn: str, task_number: int, stream: StreamBatch | None) -> int:
    """Return where the rows of a task that have no key start, modulo a topic's partitions.

    Tasks start at partitions next to each other, so that they spread the rows of one write. The
    first task moves on by one partition with each batch of a stream, and starts at one by the hash
    of ``txn`` in a batch write, so that writes of a few rows do not all go to partition 0.
    """
    first = zlib.crc32(txn.encode()) if stream is None else stream.batch_id
    return first + task_number


def stage_rows(
    options: WriteOptions,
    plan: WritePlan,
    batches: Iterator[pa.RecordBatch],
    *,
    txn: str,
    task_number: int,
    stream: StreamBatch | None = None,
) -> StagedTask:
    """Stage the rows of one task attempt; nothing is written without rows.

    Rows without a key start at ``first_partition``.

    Raises:
        DirectoryNotShared: this executor does not see the driver's data directory, or the driver
            has ended the write meanwhile.
        TidelogError: a row is not a valid record, or not valid for its topic.
    """
    visits = plan.visits(options.path, stream)
    rng, attempt = random.SystemRandom(), attempt_of(plan.marker)
    target = StagingTarget(SYSTEM_FILES, options.path, txn, rng, attempt)
    staging = TaskStaging(
        target,
        plan.topics,
        plan.new_topic,
        first_partition=first_partition(txn, task_number, stream),
        buffer_bytes=options.write_buffer_bytes,
    )
    try:
        for batch in batches:
            visits.visit_if_due()
            rows = select_columns(batch, plan.columns)
            split = {options.topic: rows} if options.topic else split_by_topic(rows)
            for topic, part in split.items():
                staging.append(topic, part, SYSTEM_CLOCK)
        runs = tuple(staging.finish(SYSTEM_CLOCK))
        visits.visit()  # after the last file: an abort that has not seen it has deleted the marker
    except BaseException:
        staging.abandon()
        raise
    topics = {run.topic: plan.planned(run.topic) for run in runs}
    return StagedTask(runs, topics, plan.marker, stream)
