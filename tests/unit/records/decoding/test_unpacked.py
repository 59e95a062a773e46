"""Uncompressed bytes of compressed batches and old formats."""

from __future__ import annotations

import pytest

from tidelog.codec.compression import Codec
from tidelog.errors import CorruptMessage
from tidelog.records.array_rows import SLACK_BYTES, as_bytes
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.decoding.unpacked import Unpacked
from tidelog.records.memory import walk

RECORDS = [(10, b"k", b"v" * 50, ())]
PLAIN = build_batch(RECORDS)
PACKED = build_batch(RECORDS, codec=Codec.ZSTD)


def test_areas_are_contiguous_with_slack_behind() -> None:
    """Areas share one buffer, with slack after it that kernels may read."""
    data = as_bytes(PLAIN + PACKED)

    plain, areas = Unpacked(data, walk(data).batches).areas()

    size = len(PLAIN) - BATCH_HEADER.size
    assert areas[:2].tolist() == [[0, size], [size, 2 * size]]
    assert plain.tobytes() == PLAIN[BATCH_HEADER.size :] * 2 + bytes(SLACK_BYTES)


def test_a_batch_of_which_nothing_is_read_is_not_decompressed() -> None:
    """With a count of zero even damaged bytes are ignored."""
    header = BATCH_HEADER.unpack(PACKED)
    empty = as_bytes(pack_batch(header._replace(records_count=0), b"damaged"))
    full = as_bytes(pack_batch(header, b"damaged"))

    assert Unpacked(empty, walk(empty).batches).areas()[1].tolist()[:2] == [[0], [0]]
    with pytest.raises(CorruptMessage):
        Unpacked(full, walk(full).batches)
