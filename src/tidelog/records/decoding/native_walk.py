"""Batches of a file found by compiled code that reads the file itself.

Since it does not hold the interpreter lock, threads that walk different ranges of a file run in
parallel. Where it stops, the caller continues with ``FileRecords``, which reports the reason.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import LOADING_PAYS_BYTES, use_kernels
from tidelog.lazy import np
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.memory import plain_work

if TYPE_CHECKING:
    from tidelog.env.files import NativeReads, OpenFile
    from tidelog.records.array_rows import Bytes

_USUAL_BATCH: Final = 1 << 13
_MOST_BATCHES: Final = 1 << 15
_CONTROLS_BYTES: Final = 1 << 16


class NativeWalk(NamedTuple):
    """Valid contiguous batches, with positions in the file.

    ``controls`` has the bytes of each control batch among them. The last batch ends at
    ``next_position``, where another valid batch may follow.
    """

    batches: BatchColumns
    controls: list[Bytes]
    next_position: int


def walk_natively(
    file: OpenFile,
    start: int,
    stop: int,
    end: int,
    buffer: Bytes,
    *,
    most: int,
) -> NativeWalk:
    """Find the batches of magic 2 that begin in bytes ``[start, stop)``, checking each CRC.

    Args:
        file: the file; held during the walk, so that its descriptor is not reused.
        start: first byte of a batch.
        stop: the last batch begins before it, and may end after it.
        end: byte after the last one that may be read.
        buffer: the buffer to read into; a batch that does not fit ends the walk.
        most: greatest number of batches to find, to limit the memory for their headers.

    Finds nothing if compiled code cannot read the file or is not worth loading for this range.
    """
    batches: list[BatchColumns] = []
    controls: list[Bytes] = []
    position, usual = start, _USUAL_BATCH
    with closing(file.hold()) as held:
        reads = _reads_if_it_pays(held, stop - start)
        while reads is not None and position < stop and most > 0:
            from tidelog.kernels.scan_kernel import walk_file  # noqa: PLC0415 - compiles when imported

            capacity = min((stop - position) // usual + 2, _MOST_BATCHES, most)
            out = np.empty((rows.BATCH_COLUMNS, capacity), np.int64)
            data = np.empty(_CONTROLS_BYTES, np.uint8)
            count, position, used = walk_file(
                *reads, position, stop, end, rows.ANY_OFFSET, 0, buffer, data, out
            )
            if count:
                batches.append(BatchColumns(out[:, :count].copy()))
            if used:
                controls.append(data[:used])
            if count < capacity and not used:
                break
            most -= count
            # A full table means small batches, and each further call reads the file again.
            usual = rows.HEADER_BYTES
    return NativeWalk(BatchColumns.joined(batches), controls, position)


def _reads_if_it_pays(file: OpenFile, size_bytes: int) -> NativeReads | None:
    reads = file.native_reads()
    work = plain_work(size_bytes, _USUAL_BATCH, check_crc=True)
    work = work if work >= LOADING_PAYS_BYTES else 0  # else the plain walk counts it
    return reads if reads is not None and use_kernels(work) else None
