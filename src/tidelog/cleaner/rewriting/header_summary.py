"""A summary of the headers of many batches, so that rare kinds are searched for only if present.

Kafka has no such step: it processes batches one at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BatchFlags

if TYPE_CHECKING:
    from tidelog.records.batch_columns import BatchColumns

_SPECIAL: Final = BatchFlags.CONTROL | BatchFlags.TRANSACTIONAL


class HeaderSummary(NamedTuple):
    """Which kinds of batches there are, and how many records their headers state in all.

    ``has_old``: magic 0 or 1. ``has_special``: control batches, or batches of transactions.
    """

    has_old: bool
    has_compressed: bool
    has_special: bool
    records: int

    @classmethod
    def of(cls, batches: BatchColumns, *, with_kernels: bool) -> HeaderSummary:
        """Return the summary of ``batches``."""
        if with_kernels:
            from tidelog.kernels.compaction.key_batches import summarize_headers  # noqa: PLC0415 - compiles when imported

            found, records = summarize_headers(np.ascontiguousarray(batches.array))
            return cls(
                bool(found & keys.HAS_OLD),
                bool(found & keys.HAS_COMPRESSED),
                bool(found & keys.HAS_SPECIAL),
                records,
            )
        is_old = batches.magic < 2
        is_special = (batches.attributes & _SPECIAL) != 0
        return cls(
            bool(is_old.any()),
            bool(batches.codec.any()),
            bool((is_special & ~is_old).any()),
            int(batches.records_count.clip(0).sum()),
        )
