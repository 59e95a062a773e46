"""The batch writer of the data source: tasks stage batches, the driver commits them once.

With the option ``txnId`` a repetition of the job is skipped. Spark: ``KafkaBatchWrite``.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter

from tidelog.arrow.writing.staged_commit import (
    abort_write,
    commit_write,
    delete_attempts,
    note_skipped,
    staged_write,
)
from tidelog.arrow.writing.write_plan import make_plan, warn_of_ignored_config
from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.worker_task import worker_task
from tidelog.spark.write.frame_columns import frame_columns
from tidelog.spark.write.task_write import stage_task, staged_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from tidelog.spark.options.source_options import SinkOptions
    from tidelog.spark.write.task_write import StagedTask


class LogWriter(DataSourceArrowWriter):
    """Appends rows to the topic that the options name, or to the topic that each row names.

    Made on the driver; Spark pickles it for the tasks and for ``commit`` or ``abort``. It never
    takes the ids of a stream, not even inside ``foreachBatch``, where two writes would share them.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._txn = options.txn_id or uuid.uuid4().hex
        columns = frame_columns(schema, has_topic=options.topic is not None)
        self._plan = make_plan(options, columns, self._txn)
        warn_of_ignored_config(options, self._plan)

    @worker_task()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of one task attempt; runs in a worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        # Rows that nobody takes are not computed, except earlier stages and the first batches.
        rows = iterator if self._plan.committed is None else ()
        return stage_task(self._options, self._plan, rows, txn=self._txn, task_number=number)

    @plain_errors()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the batches that the tasks staged, in order of tasks; runs on the driver."""
        if self._plan.committed is not None:
            # Not by a commit: the tasks have staged nothing, and the id may be forgotten by now.
            note_skipped(self._options.path, self._txn, self._plan.committed)
        else:
            parts = [task.part for task in staged_tasks(messages)]
            write = staged_write(self._options, self._plan, self._txn, parts)
            if not write.changes_nothing:
                commit_write(write)
        delete_attempts(self._options.path, [self._plan.marker], self._plan.staged_at)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Delete the files that the tasks staged; after the commit point, finish the commit."""
        abort_write(self._options, self._txn, [self._plan.marker], self._plan.staged_at)
