"""One task's part of a write: its rows become a staged file. Spark: ``KafkaDataWriter``."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

from tidelog.arrow.writing.input_columns import select_columns, split_by_topic
from tidelog.arrow.writing.staged_rows import BATCHES_PART, TaskStaging
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_file import attempt_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from tidelog.arrow.writing.staged_rows import PlannedTopic
    from tidelog.arrow.writing.write_options import WriteOptions
    from tidelog.arrow.writing.write_plan import WritePlan
    from tidelog.staging.staged_run import StagedRun
    from tidelog.staging.stream_batch import StreamBatch


class StagedPart(NamedTuple):
    """What one task staged, to be committed; ``topics``: the plan of each topic in its runs."""

    runs: tuple[StagedRun, ...]
    topics: dict[str, PlannedTopic]


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
    batches: Iterable[pa.RecordBatch],
    *,
    txn: str,
    task_number: int = 0,
    stream: StreamBatch | None = None,
) -> StagedPart:
    """Stage the rows of one task attempt; nothing is written without rows.

    Rows without a key start at ``first_partition``.

    Raises:
        DirectoryNotShared: this process does not see the data directory of the one that planned the
            write, or that one has ended the write meanwhile.
        TidelogError: a row is not a valid record, or not valid for its topic.
    """
    visits = plan.visits(options.path, stream)
    bundle = BundleWriter(
        *(plan.folder(options.path), txn),
        rng=random.SystemRandom(),
        buffer_bytes=options.write_buffer_bytes // BATCHES_PART,
        attempt=attempt_of(plan.marker),
    )
    staging = TaskStaging(
        bundle,
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
    return StagedPart(runs, {run.topic: plan.planned(run.topic) for run in runs})
