"""The last offset of each key, gathered from entries of many processes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tidelog.cleaner.keys.superseded import SupersededOffsets
from tidelog.cleaner.spread.entries import NO_ENTRIES, Entries, LastOffsets, OffsetSet
from tidelog.kernels.compaction import key_merge


@pytest.mark.usefixtures("kernels")
def test_there_is_room_for_all_entries_before_the_first_is_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Entries of a table come in the order of its slots: the first would fill a small table's end.

    Each search for a slot would then go over all of them.
    """
    rng, fills, real = Random(1), list[float](), key_merge.merge_entries

    def merge(words: Any, start: int, room: int, table: Any, lost: Any) -> Any:
        held = int((table.reshape(-1, 3)[:, 2] != 0).sum())
        fills.append((held + words.shape[1] - start) / (len(table) // 3))
        return real(words, start, room, table, lost)

    monkeypatch.setattr(key_merge, "merge_entries", merge)
    words = [[rng.getrandbits(64) - 2**63, number, number] for number in range(40_000)]
    one, other = (LastOffsets(with_kernels=True) for _ in range(2))
    one.merge(np.ascontiguousarray(np.array(words, np.int64).T))
    taken = dict(one.take(1))[0]

    superseded = other.merge(taken.words)

    assert (len(other), len(superseded)) == (40_000, 0)
    assert max(fills) <= 0.6
    assert sorted(dict(other.take(1))[0].words[2].tolist()) == list(range(40_000))


@pytest.mark.parametrize("buckets", [1, 3, 1 << 17])
def test_each_entry_is_taken_with_the_bucket_that_its_hash_selects(buckets: int) -> None:
    """The same bucket from a table, from plain Python and from entries without a table."""
    rng = Random(buckets)
    words = [[rng.getrandbits(64) - 2**63, rng.getrandbits(64) - 2**63, at] for at in range(2000)]
    columns = np.ascontiguousarray(np.array(words, np.int64).T)
    expected = sorted((two % 2**64 * buckets >> 64, at) for _, two, at in words)
    found = [Entries(columns, NO_ENTRIES.sizes, NO_ENTRIES.keys).in_buckets(buckets)]
    for with_kernels in (False, True):
        last = LastOffsets(with_kernels=with_kernels)
        last.merge(columns)
        found.append(last.take(buckets))

    assert len(found) == 3
    for parts in found:
        taken = [(bucket, one.words) for bucket, one in parts]
        assert [bucket for bucket, _ in taken] == sorted({bucket for bucket, _ in expected})
        assert sorted((b, at) for b, one in taken for at in one[2].tolist()) == expected
        assert {tuple(one) for _, each in taken for one in each.T.tolist()} == set(
            map(tuple, words)
        )


@pytest.mark.parametrize("end", [1, 9, (1 << 20) + 5, (3 << 20) - 1])
def test_a_set_of_offsets_has_a_bit_for_each(end: int) -> None:
    """Also where the bits are set in several pieces; bits after the end are 0."""
    rng, start = Random(end), 1000
    offsets = sorted({start + rng.randrange(end) for _ in range(end // 16 + 1)})
    superseded = SupersededOffsets.of_range(start, start + end, start + end, with_kernels=False)

    found = OffsetSet.of(np.array(offsets, np.int64), start, start + end)
    found.add_to(superseded)

    assert found.is_bits == (8 * len(offsets) >= -(-end // 8))
    assert (
        np.unpackbits(superseded.bits, bitorder="little").nonzero()[0] + start
    ).tolist() == offsets
