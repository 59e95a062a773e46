"""Records decoded out of pieces of a log's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidelog.codec.compression import Codec
from tidelog.errors import CorruptMessage
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.decoding import decoded as module
from tidelog.records.decoding.decoded import decoded
from tidelog.records.file_records import Piece
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tidelog.records.decoding.record_columns import RecordColumns

FILE_POSITION = 5_000
"""Where in its file the piece begins."""


def piece_of(*batches: bytes) -> Piece:
    data = np.frombuffer(b"".join(batches), np.uint8)
    return Piece(data, walk(data).batches.shifted(FILE_POSITION), FILE_POSITION, "a.log")


def batch(base_offset: int, *timestamps: int, codec: Codec = Codec.NONE) -> bytes:
    records = [(timestamp, None, b"v", ()) for timestamp in timestamps]
    return build_batch(records, base_offset=base_offset, codec=codec)


def offsets(piece: Piece, start: int = 0, end: int = 99, since_ms: int = -1) -> list[int]:
    found: list[int] = []
    for columns in decoded(piece, start, end, since_ms):
        found += columns.offset.tolist()
    return found


def test_offsets_and_times_are_chosen() -> None:
    """The end is exclusive; a record goes by its own time, not its batch's."""
    piece = piece_of(batch(0, 10, 30, 20), batch(3, 5, 6), batch(5, 40))

    assert offsets(piece) == [0, 1, 2, 3, 4, 5]
    assert offsets(piece, 1, 4) == [1, 2, 3]
    assert offsets(piece, since_ms=20) == [1, 2, 5]


def test_control_records_are_left_out() -> None:
    """They are not an application's."""
    marker = build_marker(
        producer_id=1, producer_epoch=0, coordinator_epoch=3, is_commit=True, timestamp=5
    )

    assert offsets(piece_of(batch(0, 1), marker)) == [0]


@pytest.mark.parametrize("group_bytes", [1, 100, 1 << 20])
def test_a_bad_batch_is_told_after_all_before_it(
    monkeypatch: pytest.MonkeyPatch, group_bytes: int
) -> None:
    """With the byte in the file, whether it is decoded alone or with others."""
    monkeypatch.setattr(module, "GROUP_BYTES", group_bytes)
    good = [batch(0, 1, 2), batch(2, 3)]
    bad = bytearray(batch(3, 4, codec=Codec.GZIP))
    bad[-9:] = bytes(9)
    groups = decoded(piece_of(*good, bytes(bad), batch(4, 5)), 0, 99, -1)
    found: list[RecordColumns] = []

    with pytest.raises(CorruptMessage, match="a batch does not decode") as raised:
        found.extend(groups)

    assert [offset for columns in found for offset in columns.offset] == [0, 1, 2]
    assert raised.value.position == FILE_POSITION + sum(map(len, good))
