"""Joins the aborted transactions of a log where a picture has no room for each of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.explain.pictures.log_picture import (
    MAX_CELLS,
    MAX_LANES,
    MAX_TRANSACTIONS,
    OTHERS,
    TransactionSpan,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.explain.pictures.log_picture import BatchSpan


def join_transactions(
    aborted: list[TransactionSpan], spans: Sequence[BatchSpan]
) -> tuple[TransactionSpan, ...]:
    """Return aborted transactions by their first offsets; where there are too many, joined.

    Those of one producer are joined where no span of batches lies between them. Producers with few
    of them are joined to one.
    """
    in_order = sorted(aborted, key=lambda txn: (txn.first_offset, txn.last_offset))
    if len(in_order) <= MAX_TRANSACTIONS:
        return tuple(in_order)
    starts = [span.start_offset for span in spans][:: max(len(spans) // (MAX_CELLS // 4), 1)]
    counts = Counter(txn.producer_id for txn in in_order)
    chosen = {producer_id for producer_id, _ in counts.most_common(MAX_LANES)}
    growing: dict[int, TransactionSpan] = {}
    joined = []
    for txn in in_order:
        lane = txn.producer_id if txn.producer_id in chosen else OTHERS
        now, before = replace(txn, producer_id=lane), growing.get(lane)
        if before is None or _cell(starts, now.first_offset) > _cell(starts, before.last_offset):
            if before is not None:
                joined.append(before)
            growing[lane] = now
            continue
        last = max(before.last_offset or 0, now.last_offset or 0)
        growing[lane] = replace(before, last_offset=last, count=before.count + 1)
    joined += growing.values()
    return tuple(sorted(joined, key=lambda txn: txn.first_offset))


def _cell(starts: list[int], offset: int | None) -> int:
    return bisect_right(starts, offset or 0)
