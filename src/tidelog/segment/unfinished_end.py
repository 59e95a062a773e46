"""The verdict on bytes that are no batch: an unfinished end, or damage.

Owns what may follow the end of a log file. Must not know what is done about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.records.batch import BATCH_PREFIX, LOG_OVERHEAD

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile

_ZERO_BLOCK: Final = 1 << 20


def ends_here(file: OpenFile, position: int) -> bool:
    """Say whether the bad bytes at ``position`` are an unfinished end rather than damage.

    They are if nothing, or only zeros, follow the end that the batch there declares: a batch that
    is being written, was torn by a crash, or the unused part of a preallocated file.
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
