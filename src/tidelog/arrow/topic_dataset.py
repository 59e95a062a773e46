"""A topic as a dataset of PyArrow: queries push columns and filters down to the log.

DuckDB and Polars query such an object as they query Parquet files.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NoReturn, cast

import pyarrow as pa
import pyarrow.dataset as ds

from tidelog.arrow.filter_bounds import bounds_in, columns_in, partitions_in
from tidelog.arrow.schema import SCHEMA_WITH_HEADERS, select
from tidelog.arrow.topic_read import Times, narrowed
from tidelog.arrow.topic_scanner import TopicScanner
from tidelog.codec.one_line import one_line
from tidelog.errors import InvalidArgument, TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import polars as pl

    from tidelog.arrow.table_stream import TableStream
    from tidelog.arrow.topic_read import PlannedRange, TopicRead
    from tidelog.arrow.topic_scanner import Columns

_MICROS: Final = 1000
_ONE_FRAGMENT: Final = ("fragment_readahead", "fragment_scan_options")
"""Options of scanners that are about several fragments."""
_OPTIONS: Final = (
    "batch_size",
    "batch_readahead",
    "cache_metadata",
    "memory_pool",
    "use_threads",
    *_ONE_FRAGMENT,
)
"""Options of PyArrow's scanners; all but the first are about threads and caches it has not."""


@contextmanager
def noting(note: Callable[[TidelogError], object] | None) -> Iterator[None]:
    """Pass an error of the body to ``note`` before it is raised.

    A program that takes Arrow's streams, as DuckDB, keeps only the text of the error.
    """
    try:
        yield
    except TidelogError as error:
        if note is not None:
            note(error)
        raise


def _refusing(method: str, instead: str) -> Callable[..., NoReturn]:
    """Return the method of a dataset that topics do not have."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise InvalidArgument(f"a topic's dataset has no {method}: {instead}")

    return refuse


class TopicDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The records of one topic, with the columns of ``SCHEMA_WITH_HEADERS``.

    Each scan reads the records that are there then, partition by partition in order of offsets.
    Of a ``filter``, the ranges of offset and partition choose what is read, and batches whose
    largest timestamp is too early are not decoded; all of it is then applied to what was read.

    Any thread may use it. Scans raise what ``tidelog.arrow.read`` raises, and its reader; a program
    that takes Arrow's streams, as DuckDB, raises an error of its own with the same text.

    Args:
        read: which records.
        stream: how they are read.
        only: a filter that all rows match; None: there is none.
        note: is called with each error of a scan before it is raised; None: nothing is.
    """

    def __init__(
        self,
        read: TopicRead,
        stream: TableStream,
        only: ds.Expression | None = None,
        note: Callable[[TidelogError], object] | None = None,
    ) -> None:
        self._read = read
        self._stream = stream
        self._only = only
        self._note = note

    def __repr__(self) -> str:
        return one_line(
            self, lambda: f"{self._read.topic!r} in {', '.join(map(repr, self._read.paths))}"
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of records, headers included."""
        return SCHEMA_WITH_HEADERS

    @property
    def partition_expression(self) -> ds.Expression:
        """What holds for every row, as far as it is known: nothing."""
        return ds.scalar(True)

    # What PyArrow's datasets offer; the arguments are named as there.

    def scanner(
        self,
        columns: Columns = None,
        filter: ds.Expression | None = None,  # noqa: A002 - PyArrow's name
        **options: object,
    ) -> TopicScanner | ds.Scanner:
        """Return a scanner, for one scan, of the rows that match.

        ``columns`` are names, or expressions by name; ``options`` are those of PyArrow's scanners.
        With ``use_threads`` among them it is a scanner of PyArrow, with threads of Arrow that read
        ahead: PyArrow's functions that take datasets, as ``write_dataset``, give it and need that.
        """
        if "use_threads" not in options:
            return self._scan(columns, filter, **options)
        given = {name: value for name, value in options.items() if name not in _ONE_FRAGMENT}
        names = self._names(columns)
        rows = self._reader(names, filter)
        return ds.Scanner.from_batches(rows, columns=names if columns is None else columns, **given)

    def to_reader(
        self,
        columns: Columns = None,
        filter: ds.Expression | None = None,  # noqa: A002 - as above
        **options: object,
    ) -> pa.RecordBatchReader:
        """Return a stream of the rows that match; arguments as for ``scanner``."""
        return self._scan(columns, filter, **options).to_reader()

    def to_batches(
        self,
        columns: Columns = None,
        filter: ds.Expression | None = None,  # noqa: A002 - as above
        **options: object,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that match; arguments as for ``scanner``."""
        yield from self.to_reader(columns, filter, **options)

    def to_table(
        self,
        columns: Columns = None,
        filter: ds.Expression | None = None,  # noqa: A002 - as above
        **options: object,
    ) -> pa.Table:
        """Return the rows that match as one table; arguments as for ``scanner``."""
        return self.to_reader(columns, filter, **options).read_all()

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: ds.Expression | None = None,  # noqa: A002 - as above
        **options: object,
    ) -> pa.Table:
        """Return the first rows that match; the others are not read."""
        return self._scan(columns, filter, **options).head(num_rows)

    def count_rows(self, filter: ds.Expression | None = None, **options: object) -> int:  # noqa: A002 - as above
        """Return the number of rows that match."""
        return sum(len(batch) for batch in self.to_batches(["offset"], filter, **options))

    def filter(self, expression: ds.Expression) -> TopicDataset:
        """Return a dataset of the rows that match."""
        both = expression if self._only is None else self._only & expression
        return TopicDataset(self._read, self._stream, both, self._note)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def scan(self) -> pl.LazyFrame:
        """Return a lazy frame of Polars, which has to be installed.

        What it selects and filters is pushed down, and rows come in bounded memory.
        """
        import polars as pl  # noqa: PLC0415 - no dependency of ours

        return pl.scan_pyarrow_dataset(self)

    # Rows have no numbers, and a topic no files that a scan could read one by one.
    take = _refusing("take", "filter by offset and partition")
    sort_by = _refusing("sort_by", "use to_table().sort_by")
    join = _refusing("join", "use to_table().join")
    join_asof = _refusing("join_asof", "use to_table().join_asof")
    replace_schema = _refusing("replace_schema", "cast the columns of a table")
    get_fragments = _refusing("get_fragments", "use scanner or to_batches")

    # How it reads

    def _scan(
        self, columns: Columns, wanted: ds.Expression | None, **options: object
    ) -> TopicScanner:
        if unknown := options.keys() - _OPTIONS:
            options_there = ", ".join(_OPTIONS)
            raise InvalidArgument(f"a scan has the options {options_there}, not {min(unknown)}")
        rows = self._reader(self._names(columns), wanted)
        return TopicScanner(rows, columns, cast("int | None", options.get("batch_size")))

    def _reader(self, names: Sequence[str], wanted: ds.Expression | None) -> pa.RecordBatchReader:
        with noting(self._note):
            return self._opened(names, wanted)

    def _noted(self, tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with noting(self._note):
            yield from tables

    def _opened(self, names: Sequence[str], wanted: ds.Expression | None) -> pa.RecordBatchReader:
        if self._only is not None:
            wanted = self._only if wanted is None else self._only & wanted
        stream, ranges = replace(self._stream, names=tuple(names)), self._read.plan()
        schema = stream.schema
        if wanted is None:
            return pa.RecordBatchReader.from_batches(schema, self._noted(stream.tables(ranges)))
        stream, ranges = self._pushed_down(stream, ranges, wanted)
        tables = _matching(self._noted(stream.tables(ranges)), wanted, names)
        return pa.RecordBatchReader.from_batches(schema, tables)

    def _pushed_down(
        self, stream: TableStream, ranges: list[PlannedRange], wanted: ds.Expression
    ) -> tuple[TableStream, list[PlannedRange]]:
        """Return what to read of the ranges so that the filter can be applied to it."""
        named = columns_in(wanted, self.schema)
        read = replace(stream, names=tuple(dict.fromkeys([*stream.names, *named])))
        bounds = bounds_in(wanted, self.schema, named)
        if bounds is None:
            return read, []
        if "partition" in named:
            numbers = partitions_in(wanted, self.schema, [one.log.partition for one in ranges])
            ranges = [one for one in ranges if one.log.partition in numbers]
        ranges = list(narrowed(ranges, bounds.start_offset, bounds.end_offset))
        if bounds.since is not None:
            since_ms = max(read.times.since_ms, -(-bounds.since // _MICROS))
            read = replace(read, times=Times(since_ms, read.times.until_ms))
        return read, ranges

    def _names(self, columns: Columns) -> list[str]:
        """Return the columns of records that a projection needs."""
        if columns is None:
            return list(self.schema.names)
        if isinstance(columns, Mapping):
            needed = (columns_in(one, self.schema) for one in columns.values())
            return list(dict.fromkeys(chain.from_iterable(needed)))
        return list(select(columns).names)


def _matching(
    batches: Iterator[pa.RecordBatch], wanted: ds.Expression, names: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that match, with the columns ``names``."""
    columns = list(names)
    for batch in batches:
        # As a table: in pyarrow 19 the filter of a batch fails if no row matches.
        yield from pa.Table.from_batches([batch]).filter(wanted).select(columns).to_batches()
