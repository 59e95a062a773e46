"""The batches of a log as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.readonly.read_only_log import ReadOnlyLog


def batches_of(log: ReadOnlyLog, end_offset: int | None = None) -> list[bytes]:
    """Return the batches from the log start on, byte for byte.

    ``end_offset`` is exclusive; None: the high watermark.
    """
    end = log.high_watermark if end_offset is None else end_offset
    if log.log_start_offset == end:
        return []
    found = []
    for piece in log.pieces(end_offset=end):
        held = piece.batches_in_data
        found += [
            bytes(piece.data[start:stop])
            for start, stop in zip(held.position.tolist(), held.end.tolist(), strict=True)
        ]
    return found
