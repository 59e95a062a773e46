"""A segment of an old Kafka, whose offsets do not fit 32 bits, with aborted transactions."""

from __future__ import annotations

from typing import Final

from tidelog.records.control import build_marker
from tidelog.segment.txn_index import ABORTED_TXN, AbortedTxn
from tidelog.testing import build_batch

NOW_MS: Final = 1_700_000_000_000
FAR: Final = 2**31 + 5
"""The first offset that does not fit."""
COMMITTED: Final = (2, FAR + 2)
"""The offsets that readers of committed records see."""
ABORTED: Final = ((7, 0, 1), (7, FAR, FAR + 1))
"""Producer, first offset and marker of each aborted transaction."""
TXN_INDEX: Final = b"".join(
    ABORTED_TXN.pack(AbortedTxn(0, producer_id, first, last, last + 1))
    for producer_id, first, last in ABORTED
)
"""What the transaction index holds."""


def _data(offset: int, value: bytes, sequence: int = -1) -> bytes:
    """Make a batch of one record, of a transaction if it has a sequence."""
    is_txn = sequence >= 0
    return build_batch(
        [(NOW_MS, b"key", value, ())],
        base_offset=offset,
        leader_epoch=0,
        producer_id=7 if is_txn else -1,
        producer_epoch=0 if is_txn else -1,
        base_sequence=sequence,
        transactional=is_txn,
    )


def _abort(offset: int) -> bytes:
    """Make an abort marker."""
    return build_marker(
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        is_commit=False,
        timestamp=NOW_MS,
        base_offset=offset,
        leader_epoch=0,
    )


OVERFLOWED: Final = b"".join(
    (
        *(_data(0, b"aborted", 0), _abort(1), _data(2, b"plain")),
        *(_data(FAR, b"aborted", 1), _abort(FAR + 1), _data(FAR + 2, b"plain")),
    )
)
"""What its .log file holds."""
