"""The fast path of an append, for the batch that nearly every append is.

It takes client batches that need only offsets and a leader epoch: one, or one each of several
requests. Anything else goes through ``analyze`` and ``validate``, which check it again and
report errors. Kafka: ``LogValidator``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.compression import Codec, decompress
from tidelog.codec.layout import byte_view
from tidelog.errors import KafkaError
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.array_rows import as_bytes
from tidelog.records.batch import BATCH_HEADER, BatchFlags, TimestampType
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.decoding.record_areas import area_of
from tidelog.records.validation.record_rules import RecordRules, check_area, time_limits
from tidelog.records.validation.rejection import ignore_rejections
from tidelog.records.validation.stamp import stamp_in_place, stamp_offsets, stamp_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.codec.layout import Buffer
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.validation.policy import LeaderPolicy


_PLAIN_BYTES: Final = 800
"""What plain code spends on a batch besides its bytes and records, in bytes of work."""

_FEW: Final = 12
"""The most batches whose headers are looked at as lists, in less time than arrays would take."""


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
        row, given = _placed(self.row, first_offset, leader_epoch), self.data
        is_ours = may_change and isinstance(given, memoryview)
        data: Any = given if is_ours else bytearray(given)
        if self.is_append_time:
            stamp_in_place(data, row, TimestampType.LOG_APPEND_TIME, now_ms)
        else:
            stamp_prefix(data, row)
        return data, BatchColumns.of_rows([row]), row


class AcceptedTogether(NamedTuple):
    """Batches of several requests that may be appended as one; ``data`` holds nothing else.

    ``codec`` is the last one other than none, ``max_timestamp`` in ms.
    """

    data: bytearray
    columns: BatchColumns
    codec: Codec
    max_timestamp: int
    has_producer: bool

    @property
    def last_offset_of_first_batch(self) -> int:
        """The last offset of the first batch (inclusive)."""
        return self.columns.row(0)[rows.LAST_OFFSET]

    def placed(self, first_offset: int, leader_epoch: int) -> tuple[BatchColumns, int]:
        """Give them offsets from ``first_offset`` on, and the leader epoch, in ``data``.

        Returns their headers, and the offset after them.
        """
        few, next_offset = self.columns.few, first_offset
        if few is None:
            next_offset = stamp_offsets(self.data, self.columns, first_offset, leader_epoch)
            return self.columns, next_offset
        placed = []
        for given in few:
            row = _placed(given, next_offset, leader_epoch)
            stamp_prefix(self.data, row)
            placed.append(row)
            next_offset = row[rows.LAST_OFFSET] + 1
        return BatchColumns.of_rows(placed), next_offset


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
    if not _may_accept(policy):
        return None
    array = as_bytes(data)
    if array.nbytes > max_batch_bytes:
        return None
    found = _headers(array, 1, policy, now_ms)
    if found is None:
        return None
    row = found[:, 0].tolist()
    codec = row[rows.ATTRIBUTES] & BatchFlags.CODEC
    return Accepted(data, row, Codec(codec) if codec else Codec.NONE)


def accept_together(
    parts: Sequence[Buffer], *, policy: LeaderPolicy, max_batch_bytes: int, now_ms: int
) -> AcceptedTogether | None:
    """Accept the batches of several requests at once if ``accept`` takes each; else None.

    Arguments as there. The batches are copied.
    """
    sizes = list(map(len, parts))
    if not _may_accept(policy) or max(sizes) > max_batch_bytes:
        return None
    data = bytearray().join(map(byte_view, parts))
    found = _headers(as_bytes(data), len(parts), policy, now_ms)
    if found is None:
        return None
    fields = found.tolist()  # of so few batches, lists are looked at sooner than arrays
    # The parts may hold as many batches without holding one each: a batch may lie across two.
    if fields[rows.SIZE] != sizes:
        return None
    codecs = [flags & BatchFlags.CODEC for flags in fields[rows.ATTRIBUTES]]
    is_few = len(parts) <= _FEW
    return AcceptedTogether(
        data,
        BatchColumns.of_rows(list(zip(*fields, strict=True))) if is_few else BatchColumns(found),
        Codec(next(filter(None, reversed(codecs)), 0)),
        max(fields[rows.MAX_TIMESTAMP]),
        max(fields[rows.PRODUCER_ID]) >= 0,
    )


def _placed(row: Sequence[int], first_offset: int, leader_epoch: int) -> list[int]:
    """Return the header of a batch that came with offsets from 0 on, with those it gets."""
    placed = [*row]
    placed[rows.BASE_OFFSET] = first_offset
    placed[rows.LAST_OFFSET] += first_offset
    placed[rows.LEADER_EPOCH] = leader_epoch
    return placed


def _may_accept(policy: LeaderPolicy) -> bool:
    """Whether a batch may be accepted at all: asked before the bytes are joined or looked at."""
    return policy.keeps_plain and use_kernels(_PLAIN_BYTES)


def _headers(array: Bytes, count: int, policy: LeaderPolicy, now_ms: int) -> Ints | None:
    """Return the headers of ``count`` batches, a column each, if all are ordinary."""
    found = np.empty((rows.BATCH_COLUMNS, count), np.int64)
    is_any_codec = policy.codec is None
    limits = time_limits(now_ms, policy.timestamp_before_max_ms, policy.timestamp_after_max_ms)
    if not _kernel()(array, is_any_codec, policy.needs_keys, *limits, found):
        return None
    if is_any_codec:
        for index in (found[rows.ATTRIBUTES] & BatchFlags.CODEC).nonzero()[0].tolist():
            if not _is_ordinary_inside(array, found[:, index].tolist(), policy, now_ms):
                return None
    return found


def _is_ordinary_inside(array: Bytes, row: list[int], policy: LeaderPolicy, now_ms: int) -> bool:
    """Whether the records of a compressed batch are as the header says, and follow the rules."""
    start, end = row[rows.POSITION], row[rows.POSITION] + row[rows.SIZE]
    try:
        codec = Codec.of_attributes(row[rows.ATTRIBUTES])
        plain = decompress(codec, array[start + BATCH_HEADER.size : end])
        rules = RecordRules.of(policy, now_ms, ignore_rejections)
        found = check_area(as_bytes(plain), area_of(row, len(plain)), rules)
    except KafkaError:  # full validation says what is wrong
        return False
    return found.is_dense and found.max_timestamp == row[rows.MAX_TIMESTAMP]


@cache
def _kernel() -> Callable[..., bool]:
    """Return the kernel, imported once: the statement takes longer than a call of the kernel."""
    from tidelog.kernels.accept_kernel import accept_batches  # noqa: PLC0415 - compiles when imported

    return accept_batches
