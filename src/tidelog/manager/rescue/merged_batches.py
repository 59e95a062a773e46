"""The batches of a broken partition, once each and in order of offsets.

Each layer of files has rising offsets; where two layers have batches at the same offsets, those of
the first count. Only one piece of each layer is in memory.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.errors import KafkaStorageError
from tidelog.kernels import rows
from tidelog.log.loading.lost_records import ReadableContent
from tidelog.manager.rescue.rescued_partition import LeftOut
from tidelog.manager.rescue.source_files import whole_file
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage
from tidelog.segment.unfinished_end import only_zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.manager.rescue.failing_files import FailingFiles
    from tidelog.manager.rescue.source_files import SourceFile
    from tidelog.readonly.read_files import ReadFiles
    from tidelog.records.array_rows import Bools
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece

_ZEROS: Final = "only zeros: space that was never written"
_IDENTITY: Final = [rows.BASE_OFFSET, rows.LAST_OFFSET, rows.CRC]


class Reader(NamedTuple):
    """How files are read: ``disk`` knows what failed below ``fs``; ``leave_out`` is called."""

    fs: ReadFiles
    disk: FailingFiles
    leave_out: Callable[[LeftOut], None]


Pieces = Generator["Piece", None, None]


def merged(layers: Sequence[Sequence[SourceFile]], reader: Reader) -> Pieces:
    """Yield all batches with sound offsets; report what is left out.

    A piece's bytes are valid until the next one is asked for. The caller closes the generator.
    """
    found = rising((), reader)
    for layer in layers:
        found = _filled(found, rising(layer, reader), reader)
    return found


def rising(layer: Sequence[SourceFile], reader: Reader) -> Pieces:
    """Yield the batches of files, each after those before it; report damage and overlaps."""
    reached = 0
    for source in layer:
        damage = _Damage(source, reader)
        try:
            with closing(source.batches(reader.fs)) as pieces:
                for found in pieces:
                    if isinstance(found, BadBytes):
                        damage.add(found, max(reached, source.bounds.lowest))
                        continue
                    damage.report(found.batches.first_offset)
                    piece = _after(found, reached, source, reader)
                    if len(piece.batches):
                        reached = piece.batches.next_offset
                        yield piece
            damage.report(None)
        except (KafkaStorageError, FileNotFoundError) as error:
            reader.leave_out(whole_file(reader.fs, source.path, error))


def _after(piece: Piece, reached: int, source: SourceFile, reader: Reader) -> Piece:
    """Return the batches from an offset on; report those before it."""
    is_new = piece.batches.base_offset >= reached
    if is_new.all():
        return piece
    reason = "batches of the file before it have these offsets"
    is_loss = not source.is_replacement
    _leave_out(piece, piece.batches.select(~is_new), reason, reader, is_loss=is_loss)
    return piece._replace(batches=piece.batches.select(is_new))


class _Damage:
    """The bad bytes of one file, joined with those that follow at once."""

    def __init__(self, source: SourceFile, reader: Reader) -> None:
        self._source = source
        self._reader = reader
        self._bad: BadBytes | None = None
        self._start_offset = 0

    def add(self, bad: BadBytes, start_offset: int) -> None:
        """Take note of bad bytes, before which the offsets end at ``start_offset``."""
        if self._bad is not None and self._bad.end == bad.position:
            self._bad = self._bad._replace(end=bad.end)
            return
        self.report(start_offset)
        self._bad, self._start_offset = bad, start_offset

    def report(self, next_offset: int | None) -> None:
        """Report them; None: nothing follows in the file."""
        bad, self._bad = self._bad, None
        if bad is None:
            return
        limit = self._source.bounds.end
        end = limit if next_offset is None and limit != INT64_MAX else next_offset
        fs, path = self._reader.fs, self._source.path
        why = self._reader.disk.why_unreadable(path, bad.position, bad.end)
        with closing(fs.open(path)) as file:
            content = ReadableContent.of(walk_past_damage(file, bad.position, bad.end))
            is_empty = why is None and only_zeros(file, bad.position, bad.end)
        start, reason = self._start_offset, bad.reason if why is None else why
        end = None if end is None else max(end, start)
        is_loss = not is_empty or (end is not None and end > start)
        what = (path, bad.position, bad.end - bad.position, content.batches, start, end)
        self._reader.leave_out(LeftOut(*what, _ZEROS if is_empty else reason, is_loss))


def _filled(high: Pieces, low: Pieces, reader: Reader) -> Pieces:
    """Yield the batches of ``high``, and those of ``low`` that lie between them; close both."""
    with closing(high), closing(low):
        yield from _with_gaps_filled(high, low, reader)


def _with_gaps_filled(high: Pieces, low: Pieces, reader: Reader) -> Pieces:
    rest = next(low, None)
    for piece in high:
        batches = piece.batches
        last = int(batches.last_offset[-1])
        while rest is not None and rest.batches.first_offset <= last:
            count = int(np.searchsorted(rest.batches.base_offset, last, "right"))
            part = rest.batches.slice(0, count)
            at = np.searchsorted(batches.last_offset, part.base_offset)
            is_free = batches.base_offset[at] > part.last_offset
            if not is_free.all():
                _report_covered(rest, part, batches.select(at), ~is_free, reader)
            done = 0
            for before in np.unique(at[is_free]).tolist():
                if before > done:
                    yield piece._replace(batches=batches.slice(done, before))
                yield rest._replace(batches=part.select(is_free & (at == before)))
                done = before
            batches = batches.slice(done)
            left = rest.batches.slice(count)
            rest = rest._replace(batches=left) if len(left) else next(low, None)
        yield piece._replace(batches=batches)
    while rest is not None:
        yield rest
        rest = next(low, None)


def _report_covered(
    low: Piece, part: BatchColumns, high: BatchColumns, is_covered: Bools, reader: Reader
) -> None:
    """Report batches that are not needed: others have their offsets, if not they themselves."""
    is_same = (part.array[_IDENTITY] == high.array[_IDENTITY]).all(axis=0)
    is_kept = low.path.endswith(".swap")
    for chosen, reason, is_loss in (
        (is_covered & is_same, "the same batches are in another file", False),
        (is_covered & ~is_same, "other batches have these offsets", not is_kept),
    ):
        _leave_out(low, part.select(chosen), reason, reader, is_loss=is_loss)


def _leave_out(
    piece: Piece, batches: BatchColumns, reason: str, reader: Reader, *, is_loss: bool
) -> None:
    if len(batches):
        size_bytes, offsets = int(batches.size.sum()), (batches.first_offset, batches.next_offset)
        what = piece.path, int(batches.position[0]), size_bytes, len(batches), *offsets
        reader.leave_out(LeftOut(*what, reason, is_loss))
