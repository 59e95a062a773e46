"""The keys that the kernel and plain code find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.long_varints import with_long_key_lengths
from tests.machinery.strategies import batches

from tidelog.cleaner.keys.key_table import KeyTable
from tidelog.errors import InvalidRecord
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.decoding.record_areas import areas_of
from tidelog.records.memory import walk
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.records.array_rows import Bytes


def walked(data: Bytes, *, with_kernels: bool, keyed_only: bool = False) -> Any:
    """Return the table of all uncompressed batches in ``data``, None if one is damaged."""
    found = walk(data).batches
    plain = found.select((found.codec == 0) & (found.magic >= 2))
    table = KeyTable(with_kernels=with_kernels)
    actions = np.full(len(plain), keys.FILTER, np.int64)
    try:
        table.walk(data, areas_of(plain), actions, keyed_only=keyed_only)
    except InvalidRecord:
        return None
    return table.rows[: keys.LATEST, : table.count].tolist()


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(batches(), max_size=3), keyed_only=st.booleans())
def test_plain_code_finds_what_the_kernel_finds(parts: list[bytes], keyed_only: bool) -> None:
    """Every row of every record is the same."""
    data = np.frombuffer(b"".join(parts), np.uint8)

    plain = walked(data, with_kernels=False, keyed_only=keyed_only)

    assert plain is not None
    assert plain == walked(data, with_kernels=True, keyed_only=keyed_only)


@settings(max_examples=100, deadline=None)
@given(part=batches(), at=st.integers(rows.HEADER_BYTES, 400), value=st.integers(0, 255))
def test_what_plain_code_reads_the_kernel_reads(part: bytes, at: int, value: int) -> None:
    """That holds for damaged bytes too; the kernel, which skips headers, may accept more."""
    data = np.frombuffer(part, np.uint8).copy()
    data[min(at, len(data) - 1)] = value

    plain = walked(data, with_kernels=False)

    assert plain is None or plain == walked(data, with_kernels=True)


@pytest.mark.parametrize("with_kernels", [True, False])
def test_varints_may_be_longer_than_necessary(with_kernels: bool) -> None:
    """REST_AT is the byte after the offset delta, however many bytes the key's length takes."""
    batch = with_long_key_lengths(build_batch([(1, b"key", b"value", ())]))
    data = np.frombuffer(batch, np.uint8)

    table = walked(data, with_kernels=with_kernels)

    assert (table[keys.KEY_AT][0], table[keys.KEY_SIZE][0]) == (batch.index(b"key"), 3)
    assert table[keys.KEY_AT][0] - table[keys.REST_AT][0] == 3
