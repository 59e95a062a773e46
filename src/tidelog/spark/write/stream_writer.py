"""The stream writer of the data source: each micro-batch is in the logs once.

The id of a batch's transaction is made of the query's id, which lives in the checkpoint, and the
batch's number: Spark repeats the last batch that it does not know to be committed, and the repeat
is skipped. Spark: ``KafkaStreamingWrite``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import datasource

from tidelog.arrow.writing.staged_commit import (
    StagedWrite,
    abort_write,
    commit_write,
    delete_attempts,
)
from tidelog.arrow.writing.write_plan import make_plan, marker_note
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.worker_task import worker_task
from tidelog.spark.write.frame_columns import frame_columns
from tidelog.spark.write.task_write import stage_task, staged_tasks
from tidelog.staging.marker import visited_markers
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from tidelog.arrow.writing.write_plan import WritePlan
    from tidelog.spark.options.source_options import SinkOptions
    from tidelog.spark.write.task_write import StagedTask

QUERY_ID: Final = "sql.streaming.queryId"
"""Property of a task that holds the query's id. Spark: ``StreamExecution.QUERY_ID_KEY``."""
BATCH_ID: Final = "streaming.sql.batchId"
"""The same for the batch's number. Spark: ``MicroBatchExecution.BATCH_ID_KEY``."""


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(
        datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter
    ):
        """What Spark 4.0 lacks; its workers pass record batches to writers of the second type."""


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of one micro-batch.

    Spark makes one on the driver for the tasks of a micro-batch, and another one, without a schema,
    to commit or abort it; what the latter needs to know comes with the tasks' messages.
    """

    def __init__(
        self, options: SinkOptions, given: Mapping[str, str], schema: StructType | None
    ) -> None:
        """Plan the write; without a schema, only commit or abort what tasks have staged.

        ``given`` are all options of the stream, such as its checkpoint, those that are not the
        sink's among them. Errors as ``frame_columns`` and ``make_plan``.
        """
        self._options = options
        self._marker_txn = _marker_txn(given)
        self._plan: WritePlan | None = None
        if schema is not None:
            columns = frame_columns(schema, has_topic=options.topic is not None)
            self._plan = make_plan(options, columns, self._marker_txn)

    @worker_task()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of one task attempt; runs in a worker."""
        import pyspark
        from pyspark import TaskContext

        context, plan = TaskContext.get(), self._plan
        if context is None or plan is None:
            raise InvalidArgument("this is not a task of a planned query")
        query_id = context.getLocalProperty(QUERY_ID)
        batch_id = context.getLocalProperty(BATCH_ID)
        if query_id is None or batch_id is None:
            raise InvalidArgument(
                f"PySpark {pyspark.__version__} does not pass a task the ids of its query and"
                " batch, without which a streaming write cannot be repeated safely; use another"
                " release"
            )
        stream = StreamBatch(query_id, int(batch_id))
        return stage_task(
            *(self._options, plan, iterator),
            txn=stream.txn,
            task_number=context.partitionId(),
            stream=stream,
        )

    @plain_errors()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the micro-batch, unless it was committed before.

        One without rows writes nothing, and is known as committed, too: Spark numbers batches
        without a gap, so one that is missing is found by the next.
        """
        tasks = staged_tasks(messages)
        stream = _batch_of(tasks, batchId)
        runs = [run for task in tasks for run in task.part.runs]
        topics = {name: topic for task in tasks for name, topic in task.part.topics.items()}
        at = _staged_at(tasks)
        commit_write(StagedWrite(self._options, stream.txn, stream, runs, topics, staged_at=at))
        delete_attempts(self._options.path, _markers(tasks), at)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete the files that the tasks staged; after the commit point, finish the commit."""
        tasks, path = staged_tasks(messages), self._options.path
        if tasks:
            txn = _batch_of(tasks, batchId).txn
            abort_write(self._options, txn, _markers(tasks), _staged_at(tasks))
        else:  # without a message of a task there was no commit
            delete_attempts(path, markers_of_batch(path, self._marker_txn, batchId))


def _markers(tasks: list[StagedTask]) -> list[str]:
    return sorted({task.marker for task in tasks})


def _staged_at(tasks: list[StagedTask]) -> str | None:
    return next((task.staged_at for task in tasks), None)


def _marker_txn(given: Mapping[str, str]) -> str:
    """Return an id for the markers of a stream; Spark does not name the query to who makes them.

    Streams with the same options share it, which only those without a checkpoint of their own have.
    """
    options = sorted((name.lower(), value) for name, value in given.items())
    return f"markers of a stream with {json.dumps(options)}"


def markers_of_batch(path: str, marker_txn: str, batch_id: int) -> list[str]:
    """Return the markers of a micro-batch none of whose tasks has succeeded to say its name.

    None of them if one of these may belong to another stream with the same options: no task has
    visited it, or tasks of another query. A sweep deletes it later.
    """
    visited = visited_markers(SYSTEM_FILES, path, marker_txn)
    number = marker_note(StreamBatch("", batch_id))
    found = {name: note for name, note in visited.items() if not note or note.startswith(number)}
    notes = set(found.values())
    is_sure = len(notes) == 1 and (notes != {b""} or len(found) == 1)
    return sorted(found) if is_sure else []


def _batch_of(tasks: list[StagedTask], batch_id: int) -> StreamBatch:
    """Return the batch that all tasks belong to."""
    found = {task.stream for task in tasks}
    (stream,) = found if len(found) == 1 else {None}
    if stream is None or stream.batch_id != batch_id:
        raise InvalidArgument(f"tasks of {found} are not those of batch {batch_id} of one query")
    return stream
