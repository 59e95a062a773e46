"""Record batches as the bytes of an Arrow stream or a Parquet file, a piece at a time.

Neither form looks whole before ``end``. A Parquet file is unreadable without the footer that
``end`` writes. A reader takes an Arrow stream that stops between two messages for a whole one, so
each message is written together with the first word of the next: a stream that is cut off, wherever
that is, gives its record batches and then an error.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import pyarrow as pa

_CONTINUATION: Final = b"\xff\xff\xff\xff"
"""The first word of each message of an Arrow stream, of its end too."""
_END: Final = b"\0\0\0\0"
"""What makes the end of a stream of a continuation."""

GROUP_ROWS: Final = 1 << 20
"""Rows of a Parquet row group, about; each costs memory until the end of the file."""
GROUP_BYTES: Final = 64 << 20
"""Bytes of rows that are kept for a row group, about."""


class FileBytes(Protocol):
    """The bytes of one file, written in order: what each method returns follows the last piece."""

    def head(self) -> bytes:
        """Return what stands before all rows."""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the bytes that ``batch`` makes ready, maybe none yet."""

    def end(self) -> bytes:
        """Return what makes the file whole."""


class StreamBytes:
    """An Arrow IPC stream, byte for byte as pyarrow writes it."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def head(self) -> bytes:
        """Return the schema."""
        message: bytes = self._schema.serialize().to_pybytes()
        return message + _CONTINUATION

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return a message with the rows."""
        message = memoryview(batch.serialize())
        return b"".join((message[len(_CONTINUATION) :], _CONTINUATION))

    def end(self) -> bytes:
        """Return the rest of the mark that ends the stream."""
        return _END


class ParquetBytes:
    """A Parquet file; row groups are written when they are full, and the footer at the end."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._written = _Pieces()
        self._kept: list[pa.RecordBatch] = []
        self._kept_rows = self._kept_bytes = 0
        self._writer: Any = None

    def head(self) -> bytes:
        """Return the mark of a Parquet file."""
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - takes 0.1 s

        self._writer = ParquetWriter(self._written, self._schema)
        return self._written.take()

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Keep the rows, or return those of a row group."""
        self._kept.append(batch)
        self._kept_rows += batch.num_rows
        self._kept_bytes += batch.nbytes
        if self._kept_rows >= GROUP_ROWS or self._kept_bytes >= GROUP_BYTES:
            self._write_group()
        return self._written.take()

    def end(self) -> bytes:
        """Return the last rows and the footer."""
        self._write_group()
        self._writer.close()
        return self._written.take()

    def _write_group(self) -> None:
        if self._kept_rows:
            table = pa.Table.from_batches(self._kept, self._schema)
            self._writer.write_table(table, row_group_size=max(self._kept_rows, 1))
        self._kept.clear()
        self._kept_rows = self._kept_bytes = 0


class _Pieces:
    """What pyarrow takes for a file, to be emptied of what was written to it."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        """Keep a copy of ``data``, which may be a view of memory that is used again."""
        self._pieces.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size

    def flush(self) -> None:
        """Do nothing: all is here."""

    def close(self) -> None:
        """Do nothing: what was written is still to be taken."""

    def take(self) -> bytes:
        """Return what was written since it was last taken."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


FORMS: Final[dict[str, type[StreamBytes | ParquetBytes]]] = {
    "arrow": StreamBytes,
    "parquet": ParquetBytes,
}
"""The forms by the names that commands give them."""
