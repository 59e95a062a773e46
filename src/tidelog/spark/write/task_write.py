"""What the driver gets from a task of a write. Spark: ``KafkaDataWriter``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.arrow.writing.stage_rows import stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from tidelog.arrow.writing.stage_rows import StagedPart
    from tidelog.arrow.writing.write_plan import WritePlan
    from tidelog.spark.options.source_options import SinkOptions
    from tidelog.staging.stream_batch import StreamBatch


@dataclass
class StagedTask(WriterCommitMessage):
    """What one task staged, for the driver to commit or to delete.

    ``marker`` and ``staged_at`` are the plan's. ``stream`` is the batch that the task belongs to,
    None for a batch write.
    """

    part: StagedPart
    marker: str
    staged_at: str | None
    stream: StreamBatch | None = None


def stage_task(
    options: SinkOptions,
    plan: WritePlan,
    batches: Iterable[pa.RecordBatch],
    *,
    txn: str,
    task_number: int,
    stream: StreamBatch | None = None,
) -> StagedTask:
    """Stage the rows of one task attempt; errors as ``stage_rows``."""
    part = stage_rows(options, plan, batches, txn=txn, task_number=task_number, stream=stream)
    return StagedTask(part, plan.marker, plan.staged_at, stream)


def staged_tasks(messages: list[WriterCommitMessage | None]) -> list[StagedTask]:
    """Return the messages of the tasks that succeeded, in order of tasks."""
    return [one for one in messages if isinstance(one, StagedTask)]
