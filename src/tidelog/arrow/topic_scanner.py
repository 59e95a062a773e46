"""One scan of a topic, with the methods of PyArrow's scanners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Columns = Sequence[str] | Mapping[str, ds.Expression] | None


class TopicScanner:
    """Reads on the threads of its caller, batch by batch, and only as far as it is asked to.

    PyArrow's scanner reads ahead on threads of Arrow. If a query needs only the first rows, as
    DuckDB's do with a LIMIT, these still run Python when the interpreter ends: the process then
    aborts, or waits for ever.

    Args:
        rows: what matches, with the columns that ``columns`` needs.
        columns: names, or expressions by name; None: those of ``rows``.
        batch_size: the most rows of a batch; None: as they come.
    """

    def __init__(
        self, rows: pa.RecordBatchReader, columns: Columns, batch_size: int | None
    ) -> None:
        self._rows = rows
        self._computed = columns if isinstance(columns, Mapping) else None
        self._batch_size = batch_size

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the scan."""
        if self._computed is None:
            return self._rows.schema
        return self._projected(self._rows.schema.empty_table()).schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a stream of the rows."""
        if self._computed is None and self._batch_size is None:
            return self._rows
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        yield from self.to_reader()

    def to_table(self) -> pa.Table:
        """Return the rows as one table."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows; the others are not read."""
        found, left = [], num_rows
        with self.to_reader() as rows:
            while left > 0 and (batch := next(rows, None)) is not None:
                found.append(batch.slice(0, left))
                left -= len(found[-1])
            return pa.Table.from_batches(found, rows.schema)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(len(batch) for batch in self._rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rows:
            table = pa.Table.from_batches([batch])
            if self._computed is not None:
                table = self._projected(table)
            yield from table.to_batches(self._batch_size)

    def _projected(self, table: pa.Table) -> pa.Table:
        return ds.dataset(table).to_table(columns=self._computed, use_threads=False)
