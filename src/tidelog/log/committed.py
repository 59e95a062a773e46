"""Which batches a reader of committed records shows.

Owns the rule by which aborted transactions are skipped. Kafka: the consumer's
``CompletedFetch.nextFetchedRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.log.reading import AbortedTransaction
    from tidelog.records.memory import BatchColumns


def without_aborted(batches: BatchColumns, aborted: Sequence[AbortedTransaction]) -> BatchColumns:
    """Return ``batches`` without those of transactions in ``aborted``; control batches stay.

    ``aborted`` holds all aborted transactions that reach into these batches, by first offset.
    """
    if not aborted:
        return batches
    waiting = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
    skipped_producers: set[int] = set()
    shown = np.ones(len(batches), np.bool_)
    transactional = np.flatnonzero(batches.is_transactional)
    offsets, producers = batches.last_offset.tolist(), batches.producer_id.tolist()
    is_control = batches.is_control.tolist()
    for index in transactional.tolist():
        while waiting and waiting[-1].first_offset <= offsets[index]:
            skipped_producers.add(waiting.pop().producer_id)
        if is_control[index]:
            # Only an abort marker can end a transaction that was aborted.
            skipped_producers.discard(producers[index])
        elif producers[index] in skipped_producers:
            shown[index] = False
    return batches.select(shown)
