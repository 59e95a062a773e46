"""The tasks of a repartition: each reads ranges of offsets and stages their records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from tidelog.arrow.writing.stage_rows import stage_rows
from tidelog.spark.read.batch_reader import OffsetRanges, read_columns, read_task
from tidelog.spark.source_columns import RECORD_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.arrow.writing.stage_rows import StagedPart
    from tidelog.arrow.writing.write_plan import WritePlan
    from tidelog.spark.options.source_options import ReadOptions, SinkOptions
    from tidelog.spark.read.read_plan import Task

COLUMNS: Final = StructType(
    [RECORD_COLUMNS[name] for name in ("key", "value", "timestamp", "headers", "partition")]
)
"""The columns that a task reads, and stages after it has changed ``partition``."""


@dataclass(frozen=True)
class RepartitionJob:
    """What the tasks need to know.

    ``keeps_source``: records without a key go to the number of their source partition, modulo
    ``partitions``; else they are spread.
    """

    read: ReadOptions
    write: SinkOptions
    plan: WritePlan
    tasks: tuple[Task, ...]
    txn_id: str
    partitions: int
    keeps_source: bool

    def run(self, number: int) -> StagedPart:
        """Read and stage the records of a task; errors as ``read_task`` and ``stage_rows``."""
        columns = read_columns(COLUMNS)
        records = read_task(self.read, OffsetRanges(self.tasks[number]), columns)
        rows = map(self._with_partition, records)
        return stage_rows(self.write, self.plan, rows, txn=self.txn_id, task_number=number)

    def _with_partition(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Replace the source's partition by the new one, null where the sink chooses it."""
        import numpy as np
        import pyarrow as pa

        at = records.schema.get_field_index("partition")
        if self.keeps_source:
            numbers = records.column(at).to_numpy() % self.partitions
            has_key = records.column("key").is_valid().to_numpy(zero_copy_only=False)
            chosen = pa.array(numbers.astype(np.int32), mask=has_key)
        else:
            chosen = pa.nulls(records.num_rows, pa.int32())
        return records.set_column(at, "partition", chosen)
