"""Record areas."""

from __future__ import annotations

import numpy as np
import pytest

from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidRecord
from tidelog.records.array_rows import as_bytes
from tidelog.records.builder import build_batch
from tidelog.records.decoding.record_areas import area_of, areas_of, decode_areas
from tidelog.records.memory import walk

BATCH = build_batch([(10, b"k", b"v", ()), (20, None, None, (("h", None),))], base_offset=5)
PAIR = BATCH + BATCH


def test_an_area_of_one_batch_is_that_of_many() -> None:
    """``area_of`` and ``areas_of`` agree."""
    batches = walk(PAIR).batches

    singles = [area_of(batches.array[:, index].tolist()) for index in range(2)]

    assert np.array_equal(np.hstack(singles), areas_of(batches))


@pytest.mark.usefixtures("engine")
def test_an_impossible_count_is_found_before_memory_is_allocated() -> None:
    """No memory is allocated for an impossible count, but errors of earlier areas come first."""
    areas = areas_of(walk(PAIR).batches)
    areas[2, 1] = 2**31 - 1

    with pytest.raises(InvalidRecord, match="do not fit") as caught:
        decode_areas(as_bytes(PAIR), areas, np.array([0, 77]))
    assert caught.value.position == 77

    areas[2, 0] = 1
    with pytest.raises(InvalidRecord, match="left over") as caught:
        decode_areas(as_bytes(PAIR), areas, np.array([0, 77]))
    assert caught.value.position == 0


@pytest.mark.usefixtures("engine")
def test_records_do_not_leave_their_area() -> None:
    """Bytes after an area are never part of a record, though they are in the buffer."""
    areas = areas_of(walk(PAIR).batches)[:, :1].copy()
    areas[1, 0] -= 1

    with pytest.raises(InvalidRecord):
        decode_areas(as_bytes(PAIR), areas, np.array([0]))
    assert len(byte_view(PAIR)) == 2 * len(BATCH)
