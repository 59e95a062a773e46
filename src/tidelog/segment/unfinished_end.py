"""Whether invalid bytes are an unfinished end of the file or damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.records.batch import BATCH_PREFIX, LOG_OVERHEAD

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile

_ZERO_BLOCK: Final = 1 << 20


def ends_here(file: OpenFile, position: int) -> bool:
    """Return whether the invalid bytes at ``position`` are an unfinished end.

    They are if nothing, or only zeros, follows the declared end of the batch there: it is being
    written, was torn by a crash, or is the unused part of a preallocated file.
    """
    prefix = file.pread(BATCH_PREFIX.size, position)
    if len(prefix) < BATCH_PREFIX.size:
        return True
    length = BATCH_PREFIX.unpack(prefix).length
    return _only_zeros(file, position + (LOG_OVERHEAD + length if length > 0 else 0))


def _only_zeros(file: OpenFile, position: int) -> bool:
    while block := file.pread(_ZERO_BLOCK, position):
        if block.strip(b"\0"):
            return False
        position += len(block)
    return True
