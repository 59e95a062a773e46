"""Batches made from columns of records, many at once.

Owns the way from columns back to batches, in kernels where they pay. Must not know where the
records came from. Kafka: ``MemoryRecordsBuilder``, used in a loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.records.builder import BatchSpec
    from tidelog.records.columns import RecordColumns


def rebuild(
    columns: RecordColumns, spec: BatchSpec, *, offsets: Iterable[int] | None = None
) -> bytes:
    """Return one batch with all records of ``columns``, in order, with the timestamps they show.

    ``spec`` and ``offsets`` as in ``build_batch``; the records' own offsets, batches and sequences
    do not count. No records give no bytes.
    """
    records = ((r.timestamp, r.key, r.value, r.headers) for r in columns.records())
    return build_batch(records, spec, offsets=offsets)
