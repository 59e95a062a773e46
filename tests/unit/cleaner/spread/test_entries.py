"""The last offset of each key, gathered from entries of many processes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tidelog.cleaner.spread.entries import LastOffsets
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
    taken = one.take()

    superseded = other.merge(taken.words)

    assert (len(other), len(superseded)) == (40_000, 0)
    assert max(fills) <= 0.6
    assert sorted(other.take().words[2].tolist()) == list(range(40_000))
