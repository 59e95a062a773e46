"""The batch reader of the data source: plans on the driver, decodes in the workers.

Owns what crosses from Spark's driver to its workers. Must not know how offsets are chosen
(``plan``) or tables built (``tidelog.arrow``). There is no filter pushdown: on Spark 4.3 the
partitions planned for one filtered query serve later queries of the same DataFrame too.
"""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.spark.read.read_plan import OffsetRange, plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

    from tidelog.spark.options.source_options import ReadOptions

COLUMN_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Spark's names for the types of the columns."""

_MAY_BE_NULL: Final = ("key", "value", "headers")
_FREEZES: Final = 2

Columns = list[tuple[str, bool]]
"""Name of each column to read, and whether it may be null."""


@dataclass(frozen=True)
class OffsetRanges(InputPartition):
    """What one task reads: plain values, so Spark can pickle them."""

    ranges: tuple[OffsetRange, ...]


class LogReader(DataSourceReader):
    """Reads the columns of ``schema``, in its order, from the topics that the options choose."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = read_columns(schema)

    def partitions(self) -> list[InputPartition]:
        """Return one input partition a task; runs on the driver."""
        planned = plan(SYSTEM_FILES, self._options, os.cpu_count() or 1)
        return [OffsetRanges(ranges) for ranges in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the tables of one task; runs in a worker.

        Where ``partitions`` found nothing to read, Spark makes a partition of its own, with None.
        """
        return read_task(self._options, partition, self._columns)


def read_columns(schema: StructType) -> Columns:
    """Return name and nullability of the columns to read; InvalidArgument for what is none."""
    for field in schema.fields:
        _check_column(field)
    return [(field.name, field.nullable) for field in schema.fields]


def read_task(
    options: ReadOptions, partition: InputPartition, columns: Columns
) -> Iterator[pa.RecordBatch]:
    """Yield the tables of one task and leave the worker fit for the next one."""
    ranges = partition.ranges if isinstance(partition, OffsetRanges) else ()
    try:
        yield from _tables(options, ranges, columns)
    finally:
        _settle_worker()


def _check_column(field: StructField) -> None:
    """Raise InvalidArgument for a column that no record has, or has with another type."""
    kind = COLUMN_TYPES.get(field.name)
    if kind is None:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMN_TYPES.items())
        raise InvalidArgument(f"no column {field.name!r}; there are {columns}")
    if field.dataType.simpleString() != kind:
        given = field.dataType.simpleString()
        raise InvalidArgument(f"column {field.name} is {kind}, not {given}; cast it after load()")
    if not field.nullable and field.name in _MAY_BE_NULL:
        raise InvalidArgument(f"column {field.name} may be null; leave NOT NULL away")


def _tables(
    options: ReadOptions, ranges: tuple[OffsetRange, ...], columns: Columns
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from tidelog.arrow.decode import ArrowDecoder
    from tidelog.arrow.schema import select
    from tidelog.spark.read.live_batches import RangeReader

    if not ranges:
        return
    fields = select(name for name, _ in columns)
    schema = pa.schema([fields.field(name).with_nullable(null) for name, null in columns])
    reader = RangeReader(SYSTEM_FILES, options)
    for part in ranges:
        decoder = ArrowDecoder(schema, part.topic, part.partition)
        for piece in reader.pieces(part):
            batches = piece.batches_in_data
            yield from decoder.tables_of(piece.data, batches, part.start_offset, part.end_offset)


class _Worker:
    """How often this process has finished a task."""

    tasks = 0


def _settle_worker() -> None:
    """Take what is loaded by now out of garbage collection, after the first and second task.

    Spark's worker collects garbage after every task; walking numba's and Arrow's objects each time
    would make a task of one row take 33 ms instead of 4.
    """
    if _Worker.tasks < _FREEZES:
        _Worker.tasks += 1
        gc.freeze()
