"""The batch reader of the data source: plans on the driver, decodes to Arrow in the workers.

There is no filter pushdown: Spark 4.3 reuses the partitions planned for one filtered query for
later queries of the same DataFrame. Source: ``docs/decisions/0009-no-filter-pushdown.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.read.read_plan import OffsetRange, plan
from tidelog.spark.sessions.parallelism import default_parallelism
from tidelog.spark.source_columns import COLUMN_TYPES
from tidelog.spark.worker_task import worker_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

    from tidelog.spark.options.source_options import ReadOptions

_NULLABLE: Final = ("key", "value", "headers")
_SPELLING: Final = {name.lower(): name for name in COLUMN_TYPES}


class Column(NamedTuple):
    """A column to read: its name, the name that the user gave it, and whether it is nullable."""

    name: str
    alias: str
    is_nullable: bool


Columns = list[Column]


@dataclass(frozen=True)
class OffsetRanges(InputPartition):
    """The offset ranges of one task: plain values, so that Spark can pickle them."""

    ranges: tuple[OffsetRange, ...]


class LogReader(DataSourceReader):
    """Reads the columns of ``schema``, in its order, from the topics that ``options`` select."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = read_columns(schema)

    @plain_errors()
    def partitions(self) -> list[InputPartition]:
        """Return one input partition for each task; runs on the driver."""
        tasks = plan(SYSTEM_FILES, self._options, default_parallelism())
        return [OffsetRanges(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task; runs in a worker.

        If ``partitions`` returned none, Spark passes an empty partition of its own.
        """
        return read_task(self._options, partition, self._columns)


def read_columns(schema: StructType) -> Columns:
    """Return the columns to read, ignoring the case of their names.

    Raises:
        InvalidArgument: a column is unknown, mistyped, wrongly NOT NULL, or named twice.
    """
    columns = [_column(field) for field in schema.fields]
    seen: dict[str, str] = {}
    for column in columns:
        if column.name in seen:
            names = f"{seen[column.name]} and {column.alias}"
            raise InvalidArgument(f"columns {names} are the same, {column.name}; name it once")
        seen[column.name] = column.alias
    return columns


def read_task(
    options: ReadOptions, partition: InputPartition, columns: Columns
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one task."""
    ranges = partition.ranges if isinstance(partition, OffsetRanges) else ()
    with worker_task():
        yield from _record_batches(options, ranges, columns)


def _column(field: StructField) -> Column:
    name = _SPELLING.get(field.name.lower())
    if name is None:
        columns = ", ".join(f"{name} {type_name}" for name, type_name in COLUMN_TYPES.items())
        raise InvalidArgument(f"unknown column {field.name!r}; the columns are {columns}")
    expected, found = COLUMN_TYPES[name], field.dataType.simpleString()
    if found != expected:
        raise InvalidArgument(
            f"column {field.name} has type {expected}, not {found}; cast it after load()"
        )
    if not field.nullable and name in _NULLABLE:
        raise InvalidArgument(f"column {field.name} may be null; remove NOT NULL from the schema")
    return Column(name, field.name, field.nullable)


def _record_batches(
    options: ReadOptions, ranges: tuple[OffsetRange, ...], columns: Columns
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from tidelog.arrow.decode import ArrowDecoder
    from tidelog.arrow.schema import select
    from tidelog.spark.read.live_batches import RangeReader

    if not ranges:
        return
    fields = select(column.name for column in columns)
    schema = pa.schema([fields.field(c.name).with_nullable(c.is_nullable) for c in columns])
    aliases = [column.alias for column in columns]
    reader = RangeReader(SYSTEM_FILES, options, {part.topic for part in ranges})
    for part in ranges:
        decoder = ArrowDecoder(schema, part.topic, part.partition)
        for piece in reader.read(part):
            rows = decoder.tables_of_piece(piece, part.start_offset, part.end_offset)
            yield from (each.rename_columns(aliases) for each in rows)
