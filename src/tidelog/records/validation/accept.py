"""The fast path of an append, for the batch that nearly every append is.

It takes one uncompressed client batch that needs only offsets and a leader epoch. Anything else
goes through ``analyze`` and ``validate``, which check it again and report errors. Kafka:
``LogValidator``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tidelog.codec.compression import Codec
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.records.array_rows import as_bytes
from tidelog.records.batch import TimestampType
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.validation.record_rules import time_limits
from tidelog.records.validation.stamp import stamp_in_place, stamp_prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.codec.layout import Buffer
    from tidelog.records.validation.policy import LeaderPolicy


_PLAIN_BYTES: Final = 800
"""What plain code spends on a batch besides its bytes and records, in bytes of work."""


class Accepted(NamedTuple):
    """One batch that may be appended; ``row`` has its 14 fields.

    ``codec`` is the one it came with. With ``is_append_time`` its records get the time of the
    append.
    """

    data: Buffer
    row: list[int]
    codec: Codec = Codec.NONE
    is_append_time: bool = False

    @property
    def last_offset_of_first_batch(self) -> int:
        """The batch's last offset as it came (inclusive)."""
        return self.row[rows.LAST_OFFSET]

    def placed(
        self, first_offset: int, leader_epoch: int, now_ms: int, *, may_change: bool = False
    ) -> tuple[bytearray | memoryview, BatchColumns, list[int]]:
        """Return it with offsets from ``first_offset`` on, the leader epoch and the time.

        First its bytes, alone in their buffer, then its header, and that as 14 fields. The bytes
        are a copy, unless they are a part of a buffer that nobody needs any more: ``may_change``.
        """
        row, given = self.row.copy(), self.data
        is_ours = may_change and isinstance(given, memoryview)
        data: Any = given if is_ours else bytearray(given)
        row[rows.BASE_OFFSET] = first_offset
        row[rows.LAST_OFFSET] += first_offset
        row[rows.LEADER_EPOCH] = leader_epoch
        if self.is_append_time:
            stamp_in_place(data, row, TimestampType.LOG_APPEND_TIME, now_ms)
        else:
            stamp_prefix(data, row)
        return data, BatchColumns.of_rows([row]), row


def accept(
    data: Buffer, *, policy: LeaderPolicy, max_batch_bytes: int, now_ms: int
) -> Accepted | None:
    """Accept a client's append at once if it is an ordinary batch; None: validate it fully.

    Args:
        data: the bytes sent by the client.
        policy: the topic's rules for batches.
        max_batch_bytes: ``max.message.bytes``.
        now_ms: the time of the append in ms, which bounds timestamps.

    Also returns None while no kernels are loaded, since plain code would do the same work twice.
    """
    if not policy.keeps_plain:
        return None
    if not use_kernels(_PLAIN_BYTES):
        return None
    array = as_bytes(data)
    if array.nbytes > max_batch_bytes:
        return None
    row = np.empty((rows.BATCH_COLUMNS, 1), np.int64)
    limits = time_limits(now_ms, policy.timestamp_before_max_ms, policy.timestamp_after_max_ms)
    if not _kernel()(array, policy.needs_keys, *limits, row):
        return None
    return Accepted(data, row[:, 0].tolist())


@cache
def _kernel() -> Callable[..., bool]:
    """Return the kernel, imported once: the statement takes longer than a call of the kernel."""
    from tidelog.kernels.accept_kernel import accept_batch  # noqa: PLC0415 - compiles when imported

    return accept_batch
