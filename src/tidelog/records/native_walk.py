"""Batches of a file found by compiled code that reads the file by itself.

Owns the calls of that kernel. Must not know segments, nor what is wrong where it stops: the caller
goes on with ``FileRecords``, which tells. So threads that read different parts of a file do not
wait for each other's Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.kernels import columns as rows
from tidelog.kernels.gate import LOADING_PAYS_BYTES, use_kernels
from tidelog.records.memory import BatchColumns

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile
    from tidelog.records.table import Bytes

_USUAL_BATCH: Final = 1 << 13
_MOST_BATCHES: Final = 1 << 15
_CONTROLS_BYTES: Final = 1 << 16


class NativeWalk(NamedTuple):
    """Good batches, one behind the other, with positions in the file.

    ``controls`` has the bytes of each control batch among them. The last ends at
    ``next_position``, where a good batch may follow or not.
    """

    batches: BatchColumns
    controls: list[Bytes]
    next_position: int


def walk_natively(file: OpenFile, start: int, stop: int, end: int, buffer: Bytes) -> NativeWalk:
    """Find the batches of magic 2 that begin in bytes ``[start, stop)``, each CRC checked.

    Args:
        file: held by the caller.
        start: first byte of a batch.
        stop: the last batch begins before it, and may end behind it.
        end: byte after the last that may be read.
        buffer: to read into; a batch that does not fit it ends the walk.

    Finds nothing where compiled code cannot read the file, or need not be loaded for this.
    """
    reads = file.native_reads()
    work = stop - start
    batches: list[BatchColumns] = []
    controls: list[Bytes] = []
    position = start
    if reads is not None and use_kernels(work if work >= LOADING_PAYS_BYTES else 0):
        from tidelog.kernels.scan import walk_file  # noqa: PLC0415 - compiles when imported

        while position < stop:
            capacity = min((stop - position) // _USUAL_BATCH + 2, _MOST_BATCHES)
            out = np.empty((rows.BATCH_COLUMNS, capacity), np.int64)
            data = np.empty(_CONTROLS_BYTES, np.uint8)
            count, position, used = walk_file(*reads, position, stop, end, buffer, data, out)
            if count:
                batches.append(BatchColumns(out[:, :count].copy()))
            if used:
                controls.append(data[:used])
            if count < capacity and not used:
                break
    return NativeWalk(BatchColumns.joined(batches), controls, position)
