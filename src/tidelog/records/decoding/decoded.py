"""Records decoded from pieces of a log's file, a few batches at a time.

Small groups bound the memory, and let a reader who wants one record have it soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT
from tidelog.errors import CorruptMessage, InvalidRecord, TidelogError
from tidelog.records.decoding.bounded_decode import BoundedDecoding, decode_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.file_records import Piece

GROUP_BYTES: Final = 256 << 10
"""Plain bytes decoded at a time: few enough that who wants one record gets it soon."""


def decoded(piece: Piece, start: int, end: int, since_ms: int) -> Iterator[RecordColumns]:
    """Yield the records of a piece with offsets in ``[start, end)`` and no earlier timestamp.

    Control records are left out, and batches in which nothing is late enough are not decoded.

    Raises:
        CorruptMessage: a batch does not decode; with file and byte, after all records before it.
    """
    wanted = ~piece.batches.is_control & (piece.batches.max_timestamp >= since_ms)
    for group in _groups(piece, piece.batches_in_data.select(wanted)):
        chosen = (group.offset >= start) & (group.offset < end) & (group.timestamp >= since_ms)
        if chosen.all():
            yield group
        elif chosen.any():
            yield group.select(chosen)


def undecodable(piece: Piece) -> dict[int, str]:
    """Return why batches of a piece do not decode, by index; the memory that it takes is bounded.

    Control batches count as well, as for readers of Arrow.
    """
    batches = piece.batches_in_data
    found = _reason(piece, batches) and {
        at: _reason(piece, batches.slice(at, at + 1)) for at in range(len(batches))
    }
    return {at: reason for at, reason in (found or {}).items() if reason}


def located(piece: Piece, error: Exception) -> CorruptMessage:
    """Return an error of decoding with file and byte of the first batch that does not decode."""
    at, reason = next(iter(undecodable(piece).items()), (0, str(error)))
    return CorruptMessage(reason, int(piece.batches.position[at]), piece.path)


def _reason(piece: Piece, batches: BatchColumns) -> str:
    """Return what keeps batches from being decoded; empty if they can be."""
    try:
        for _ in decode_bounded(piece.data, batches):
            pass
    except TidelogError as error:
        return _text(error)
    return ""


def _text(error: TidelogError) -> str:
    reason = error.reason if isinstance(error, InvalidRecord | CorruptMessage) else str(error)
    return f"a batch does not decode: {reason}"


def _groups(piece: Piece, batches: BatchColumns) -> Iterator[RecordColumns]:
    decoding = BoundedDecoding(
        piece.data, batches, limit=DEFAULT_DECOMPRESSED_LIMIT, group_bytes=GROUP_BYTES
    )
    try:
        yield from decoding.groups()
    except TidelogError as error:
        position = int(batches.position[decoding.at]) + piece.data_position
        raise CorruptMessage(_text(error), position, piece.path) from error
