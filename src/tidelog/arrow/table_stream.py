"""The records of log ranges as a stream of Arrow record batches, decoded on threads ahead of it.

Memory is bounded by the pieces and tables that are ahead, whatever the size of the logs.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.arrow.decode import ArrowDecoder
from tidelog.arrow.schema import select
from tidelog.errors import CorruptMessage, TidelogError
from tidelog.readonly.batch_walk import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from tidelog.arrow.topic_read import PlannedRange, Times
    from tidelog.env.scheduler import Scheduler
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece

DEFAULT_THREADS: Final = 2

READ_BYTES: Final = 2 << 20
"""Bytes of a log that are read at once for other threads: they stay in memory until decoded."""

PORTION_BYTES: Final = 2 << 20
"""About the bytes of tables that are made of batches which a thread decodes at once."""

AHEAD_BYTES: Final = 2 * PORTION_BYTES
"""Bytes of their tables that are decoded ahead: batches may hold far more than others do."""

_FIRST_BYTES: Final = 64 << 10
"""Bytes of compressed batches that are decoded at once until it is known what becomes of them."""

_KEY: Final = "key"
_TIMESTAMP: Final = "timestamp"
_MICROS: Final = 1000


class _Growth:
    """How many bytes of tables came of a stored byte, as far as threads have found out."""

    def __init__(self) -> None:
        self.ratio: float | None = None

    def found(self, made_bytes: int, batches: BatchColumns) -> None:
        """Take note of the tables that were made of batches."""
        self.ratio = max(made_bytes, 1) / max(int(batches.size.sum()), 1)

    def portions(self, piece: Piece) -> Iterator[Piece]:
        """Yield parts of a piece whose tables have about ``PORTION_BYTES``."""
        batches, first = piece.batches, 0
        if not batches.codec.any():
            yield piece
            return
        ends = np.cumsum(batches.size)
        while first < len(batches):
            wanted = _FIRST_BYTES if self.ratio is None else int(PORTION_BYTES / self.ratio)
            before = int(ends[first - 1]) if first else 0
            after = max(int(np.searchsorted(ends, before + wanted, "right")), first + 1)
            yield piece._replace(batches=batches.slice(first, after))
            first = after


class Decoded(NamedTuple):
    """Tables of a portion, and the ones that are decoded once these are taken."""

    tables: Sequence[pa.RecordBatch]
    rest: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class TableStream:
    """Reads the columns ``names`` of records with certain ``times`` and ``key``, None: any.

    ``scheduler`` runs the decoding ahead on ``threads`` threads; with one, the thread that reads
    decodes as well, when a table is asked for. ``remedy`` is what users can do about damage.
    ``report_lost`` is called with each range that was read, for what it lacks.
    """

    names: Sequence[str]
    times: Times
    committed: bool
    scheduler: Scheduler
    threads: int = DEFAULT_THREADS
    key: bytes | None = None
    remedy: str = ""
    report_lost: Callable[[PlannedRange], object] = lambda _: None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the tables."""
        return select(self.names)

    def tables(self, ranges: Iterable[PlannedRange]) -> Generator[pa.RecordBatch, None, None]:
        """Yield the records of ranges, one after the other, in order of offsets.

        Raises:
            CorruptMessage: damage, after all records before it.
            DataLoss: a segment is lost, after all records of its partition.
            OffsetOutOfRange: retention was faster than the reader.
            KafkaStorageError: the disk failed, or a log was deleted or truncated meanwhile.
            InvalidTimestamp: a timestamp does not fit in microseconds, where times are looked at.
        """
        if self.threads <= 1:
            yield from self._on_this_thread(ranges)
            return
        ahead = self.scheduler.run_ahead("tidelog-arrow", self._tasks(ranges), self.threads)
        with closing(ahead):
            for decoded in ahead:
                yield from chain(decoded.tables, decoded.rest)

    def _on_this_thread(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        for part in ranges:
            decoder = self._decoder(part)
            for piece in self._pieces(part):
                yield from self._tables(decoder, piece, part)

    def _tasks(self, ranges: Iterable[PlannedRange]) -> Iterator[Callable[[], Decoded]]:
        """Yield what decodes each piece; the last one raises the error that ends the stream."""
        try:
            for part in ranges:
                decoders: list[ArrowDecoder] = []
                growth = _Growth()
                for piece in self._pieces(part):
                    # The next piece overwrites its buffer.
                    kept = piece._replace(buffer=piece.data.copy())
                    for portion in growth.portions(kept):
                        yield partial(self._ahead, decoders, growth, portion, part)
        except Exception as error:  # noqa: BLE001 - raised in its turn, after what was read before it
            yield partial(Decoded, (), _failing(error))

    def _pieces(self, part: PlannedRange) -> Iterator[Piece]:
        """Yield the pieces of a range, without the batches in which nothing is late enough."""
        log, start, end = part[:3]
        since_ms = self.times.since_ms
        size = READ_BYTES if self.threads > 1 else PIECE_BYTES
        pieces = log.decodable_pieces(start, end, committed=self.committed, piece_bytes=size)
        with log:
            for piece in self._with_remedy(pieces, part.damage):
                part.check_same()
                if self.times.is_all:
                    yield piece
                    continue
                # Only the largest timestamp of a batch says something of all of its records.
                late = piece.batches.max_timestamp >= since_ms
                if late.any():
                    yield piece._replace(batches=piece.batches.select(late))
        self.report_lost(part)

    def _with_remedy(
        self, pieces: Iterator[Piece], damage: CorruptMessage | None
    ) -> Iterator[Piece]:
        """Yield the pieces, then raise ``damage`` if there is any, as what they raise."""
        try:
            yield from pieces
            if damage is not None:
                raise damage
        except CorruptMessage as error:
            error.remedy = self.remedy
            raise

    def _ahead(
        self, decoders: list[ArrowDecoder], growth: _Growth, piece: Piece, part: PlannedRange
    ) -> Decoded:
        """Decode a portion, of one with very many records only the first ones."""
        decoder = decoders.pop() if decoders else self._decoder(part)
        rest = self._tables(decoder, piece, part)
        made: list[pa.RecordBatch] = []
        size = 0
        try:
            for table in rest:
                made.append(table)
                size += table.nbytes
                if size >= AHEAD_BYTES:
                    growth.found(size, piece.batches)
                    return Decoded(made, rest)
        except TidelogError as error:
            return Decoded(made, _failing(error))
        decoders.append(decoder)
        growth.found(size, piece.batches)
        return Decoded(made, iter(()))

    def _decoder(self, part: PlannedRange) -> ArrowDecoder:
        looked_at = {_TIMESTAMP: not self.times.is_all, _KEY: self.key is not None}
        names = [*self.names]
        names += [name for name, is_needed in looked_at.items() if is_needed and name not in names]
        return ArrowDecoder(select(names), part.log.topic, part.log.partition)

    def _tables(
        self, decoder: ArrowDecoder, piece: Piece, part: PlannedRange
    ) -> Iterator[pa.RecordBatch]:
        tables = decoder.tables_of_piece(piece, part.start_offset, part.end_offset)
        if self.times.is_all and self.key is None:
            return tables
        return self._wanted(tables)

    def _wanted(self, tables: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in tables:
            found = table
            if self.key is not None:
                found = found.filter(pc.equal(found[_KEY], pa.scalar(self.key, pa.binary())))
            if not self.times.is_all and len(found):
                found = self._timely(found)
            if len(found):
                yield found.select(self.names)

    def _timely(self, table: pa.RecordBatch) -> pa.RecordBatch:
        since_ms, until_ms = self.times
        times = table[_TIMESTAMP]
        micros = np.frombuffer(times.buffers()[1], np.int64, len(table), times.offset * 8)
        millis = micros // _MICROS
        wanted = (millis >= since_ms) & (millis < until_ms)
        return table if wanted.all() else table.filter(pa.array(wanted))


def _failing(error: Exception) -> Iterator[pa.RecordBatch]:
    raise error
    yield  # a generator: the error is raised once the tables before it are taken
