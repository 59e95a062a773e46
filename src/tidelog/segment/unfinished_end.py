"""Whether invalid bytes are an unfinished end of the file or damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.env.sparse import next_data
from tidelog.records.batch import BATCH_PREFIX, INT64_MAX, LOG_OVERHEAD

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile

_BLOCK_BYTES: Final = 1 << 20


def ends_here(file: OpenFile, position: int) -> bool:
    """Return whether the invalid bytes at ``position`` are an unfinished end.

    They are if nothing, or only zeros, follows the declared end of the batch there: it is being
    written, was torn by a crash, or is the unused part of a preallocated file.
    """
    prefix = file.pread(BATCH_PREFIX.size, position)
    if len(prefix) < BATCH_PREFIX.size:
        return True
    length = BATCH_PREFIX.unpack(prefix).length
    return only_zeros(file, position + (LOG_OVERHEAD + length if length > 0 else 0))


def only_zeros(file: OpenFile, position: int, end: int = INT64_MAX) -> bool:
    """Return whether bytes ``[position, end)`` of a file, or those up to its end, are all zero."""
    end = min(end, file.size())
    block = bytearray(max(min(_BLOCK_BYTES, end - position), 0))
    zeros = bytes(len(block))
    while (position := next_data(file, position, end)) < end:
        if len(block) > end - position:
            return not file.pread(end - position, position).strip(b"\0")
        file.pread_into(block, position)
        if block != zeros:
            return False
        position += len(block)
    return True
