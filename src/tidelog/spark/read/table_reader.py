"""Reads a system table, such as ``segments`` or ``batches``: one task for some partitions each.

The rows are those of ``tidelog table``. Tasks are planned again by each query of a DataFrame, but
the partitions that they are about stay those of its first query, as Spark keeps its plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.arrow.rows_table import ChosenColumn, rows_batches
from tidelog.env.clock import ClockAt
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.explain.tables.findings_table import FINDINGS
from tidelog.explain.tables.system_table import ColumnType, TableSource, open_tables
from tidelog.explain.tables.system_tables import system_table
from tidelog.readonly.checkpoints import ask_for_watermarks
from tidelog.segment.filenames import TopicPartition
from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.read.topic_partitions import PartitionDirectories
from tidelog.spark.sessions.parallelism import default_parallelism
from tidelog.spark.worker_task import worker_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidelog.explain.tables.system_table import Row, SystemTable
    from tidelog.spark.options.table_options import TableOptions

_TASKS_PER_CORE: Final = 4

_TYPES: Final[dict[ColumnType, DataType]] = {
    ColumnType.TEXT: StringType(),
    ColumnType.INT: IntegerType(),
    ColumnType.LONG: LongType(),
    ColumnType.DOUBLE: DoubleType(),
    ColumnType.BOOLEAN: BooleanType(),
    ColumnType.TIME: TimestampType(),
    ColumnType.COUNTS: MapType(StringType(), LongType()),
    ColumnType.TEXTS: MapType(StringType(), StringType()),
}


@dataclass(frozen=True)
class TablePart(InputPartition):
    """The rows of one task: those of ``keys`` and, if ``with_directory``, of the directory."""

    keys: tuple[tuple[str, int], ...]
    with_directory: bool


def table_columns(name: str) -> StructType:
    """Return the columns of a system table; InvalidArgument if there is no such table."""
    return StructType(
        [
            StructField(column.name, _TYPES[column.type], column.is_nullable)
            for column in system_table(name).columns
        ]
    )


class TableReader(DataSourceReader):
    """Reads the columns of ``schema``, in its order, from the table that ``options`` name.

    Raises InvalidArgument for an unknown table or column.
    """

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        self._options = options
        known = {column.name: column for column in system_table(options.table).columns}
        for field in schema.fields:
            column = known.get(field.name)
            if column is None or column.type.value != field.dataType.simpleString():
                columns = ", ".join(f"{one.name} {one.type}" for one in known.values())
                found = f"{field.name} {field.dataType.simpleString()}"
                raise InvalidArgument(
                    f"table {options.table} has no column {found}; its columns are {columns}"
                )
        numbers = {column.name: number for number, column in enumerate(known.values())}
        self._columns = [
            ChosenColumn(name, known[name].type, numbers[name], field.nullable)
            for field in schema.fields
            for name in [field.name]
        ]

    @plain_errors()
    def partitions(self) -> list[InputPartition]:
        """Return one input partition for each task; runs on the driver."""
        ask_for_watermarks(SYSTEM_FILES, self._options.paths)  # the tasks read what they are then
        table, choice = system_table(self._options.table), self._options.choice
        accept = self._options.accept
        directories = PartitionDirectories(SYSTEM_FILES, self._options.paths, accept=accept)
        takes_copies = table is FINDINGS  # each is one of them
        if choice is None:
            keys = directories.all(takes_copies=takes_copies)
        else:
            keys = directories.chosen(choice, takes_copies=takes_copies)
        tasks: list[InputPartition] = []
        if table.of_directory is not None:
            tasks.append(TablePart(tuple(keys), with_directory=True))
        if table.of_partition is not None:
            size = max(-(-len(keys) // (_TASKS_PER_CORE * default_parallelism())), 1)
            tasks += [
                TablePart(tuple(keys[start : start + size]), with_directory=False)
                for start in range(0, len(keys), size)
            ]
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task; runs in a worker."""
        if not isinstance(partition, TablePart):
            return
        options = self._options
        with worker_task():
            table = system_table(options.table)
            source = open_tables(
                SYSTEM_FILES,
                *options.paths,
                clock=ClockAt(options.now_ms),
                overrides=options.overrides,
                accept=options.accept,
            )
            yield from rows_batches(self._columns, _rows(table, source, partition, options))


def _rows(
    table: SystemTable, source: TableSource, part: TablePart, options: TableOptions
) -> Iterator[Row]:
    keys = [TopicPartition(*key) for key in part.keys]
    if part.with_directory and table.of_directory is not None:
        yield from table.of_directory(source, None if options.choice is None else keys)
    elif not part.with_directory:
        for key in keys:
            yield from table.partition_rows(source, key)
