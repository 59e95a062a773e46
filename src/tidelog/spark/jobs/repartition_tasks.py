"""The tasks of a repartition: each reads ranges of offsets and stages their records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.types import StructType

from tidelog.arrow.writing.stage_rows import StagedPart, stage_rows
from tidelog.spark.jobs.key_places import KeyPlaces, OutOfPlace, all_of
from tidelog.spark.read.batch_reader import OffsetRanges, read_columns, read_task
from tidelog.spark.source_columns import RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidelog.arrow.writing.write_plan import WritePlan
    from tidelog.spark.options.source_options import ReadOptions, SinkOptions
    from tidelog.spark.read.read_plan import Task

COLUMNS: Final = StructType(
    [RECORD_COLUMNS[name] for name in ("key", "value", "timestamp", "headers", "partition")]
)
"""The columns that a task reads, and stages after it has changed ``partition``."""
KEY_COLUMNS: Final = StructType([RECORD_COLUMNS[name] for name in ("key", "partition")])
"""The columns that a task reads that only counts."""


class RepartitionedPart(NamedTuple):
    """What a task staged: ``older`` are the records that are out of place in the source."""

    older: StagedPart
    newer: StagedPart
    out_of_place: OutOfPlace


class Counted(NamedTuple):
    """How many records there are, how many of them without a key, and those out of place."""

    records: int
    keyless: int
    out_of_place: OutOfPlace


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
    from_partitions: int
    partitions: int
    keeps_source: bool

    def run(self, number: int) -> RepartitionedPart:
        """Read and stage the records of a task; errors as ``read_task`` and ``stage_rows``.

        They are read again for those out of place, if there are any: to stage both kinds at a time
        would take twice the memory.
        """
        found: list[OutOfPlace] = []
        newer = self._stage(number, self._in_place(number, found))
        out_of_place = all_of(found)
        is_empty = not out_of_place.records
        older = StagedPart((), {}) if is_empty else self._stage(number, self._out_of_place(number))
        return RepartitionedPart(older, newer, out_of_place)

    def _stage(self, number: int, rows: Iterator[pa.RecordBatch]) -> StagedPart:
        return stage_rows(self.write, self.plan, rows, txn=self.txn_id, task_number=number)

    def _in_place(self, number: int, found: list[OutOfPlace]) -> Iterator[pa.RecordBatch]:
        """Yield the records in place, with their new partitions; append what the others are."""
        for records, places in self._read(number):
            found.append(OutOfPlace.of(places))
            rows = self._with_partition(records, places)
            yield rows.filter(~places.is_out) if found[-1].records else rows

    def _out_of_place(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the other records, with their new partitions."""
        for records, places in self._read(number):
            if places.is_out.any():
                yield self._with_partition(records, places).filter(places.is_out)

    def _read(self, number: int) -> Iterator[tuple[pa.RecordBatch, KeyPlaces]]:
        return _read_places(self.read, self.tasks[number], COLUMNS, self.from_partitions)

    def _with_partition(self, records: pa.RecordBatch, places: KeyPlaces) -> pa.RecordBatch:
        """Replace the source's partition by the new one, null where the sink chooses it."""
        import numpy as np
        import pyarrow as pa

        has_key = places.hashes >= 0
        chosen = np.where(has_key, places.hashes, places.partitions) % self.partitions
        mask = None if self.keeps_source else ~has_key
        at = records.schema.get_field_index("partition")
        return records.set_column(at, "partition", pa.array(chosen, pa.int32(), mask=mask))


@dataclass(frozen=True)
class CountJob:
    """Counts the records that a ``RepartitionJob`` would write."""

    read: ReadOptions
    tasks: tuple[Task, ...]
    from_partitions: int

    def run(self, number: int) -> Counted:
        """Count the records of a task; errors as ``read_task``."""
        records, keyless, found = 0, 0, []
        task = self.tasks[number]
        for rows, places in _read_places(self.read, task, KEY_COLUMNS, self.from_partitions):
            records += rows.num_rows
            keyless += int((places.hashes < 0).sum())
            found.append(OutOfPlace.of(places))
        return Counted(records, keyless, all_of(found))


def _read_places(
    options: ReadOptions, task: Task, columns: StructType, from_partitions: int
) -> Iterator[tuple[pa.RecordBatch, KeyPlaces]]:
    """Yield the records of a task, and where they are in the source."""
    for records in read_task(options, OffsetRanges(task), read_columns(columns)):
        yield records, KeyPlaces.of(records, from_partitions)
