"""The first check of an append: whole, undamaged batches that may be appended at all.

It needs neither the log's lock nor the records; ``validate`` checks the records afterwards. Kafka:
``UnifiedLog.analyzeAndValidateRecords``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.compression import Codec
from tidelog.codec.layout import byte_view
from tidelog.errors import CorruptMessage, InvalidRecord, MessageTooLarge, OffsetsOutOfOrder
from tidelog.kernels import rows
from tidelog.records.batch import MAGIC_V2, NO_LEADER_EPOCH, NO_TIMESTAMP, UNKNOWN_OFFSET
from tidelog.records.batch_columns import BatchColumns, survey
from tidelog.records.memory import walk
from tidelog.records.scan import batch_row, whole_batch_size
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.rejection import Rejection, ignore_rejections

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.codec.layout import Buffer
    from tidelog.records.batch_columns import Survey
    from tidelog.records.memory import Walk

_log = logging.getLogger(__name__)


class Analyzed(NamedTuple):
    """The contents of an append according to its batch headers. Source: Kafka LogAppendInfo.

    ``first_offset`` is -1 if the first batch has magic 0 or 1, where it is known only after
    decompression. ``valid_bytes`` is the end of the last whole batch: bytes after it, and batches
    skipped for their leader epoch, are not part of the append.
    """

    batches: BatchColumns
    valid_bytes: int
    first_offset: int
    last_offset: int
    last_offset_of_first_batch: int
    last_leader_epoch: int
    max_timestamp: int
    source_codec: Codec


class _Checks(NamedTuple):
    """The rules for one append."""

    origin: AppendOrigin
    leader_epoch: int
    max_batch_bytes: int | None
    require_offsets_monotonic: bool
    log_name: str

    def hold_for(self, found: Survey, first: Sequence[int]) -> bool:
        """Return whether all batches follow the rules and none is to be skipped."""
        if self.require_offsets_monotonic:
            is_negative = first[rows.LAST_OFFSET] <= UNKNOWN_OFFSET
            if is_negative or not found.are_offsets_rising:
                return False
        if self.max_batch_bytes is not None and found.greatest_size > self.max_batch_bytes:
            return False
        if self.origin is AppendOrigin.CLIENT:
            return not found.has_base_offset
        if self.origin is AppendOrigin.RAFT_LEADER:
            return bool(found.is_uniform) and first[rows.LEADER_EPOCH] == self.leader_epoch
        return self.origin is not AppendOrigin.REPLICATION or (
            found.greatest_epoch <= self.leader_epoch
        )

    def must_skip(self, row: Sequence[int]) -> bool:
        """Return whether a follower must skip this batch and all after it (KAFKA-18723)."""
        epoch = row[rows.LEADER_EPOCH]
        is_newer = epoch != NO_LEADER_EPOCH and epoch > self.leader_epoch
        return self.origin is AppendOrigin.REPLICATION and is_newer

    def check_header(self, row: Sequence[int]) -> None:
        """Raise InvalidRecord if the batch may not come from this origin."""
        position = row[rows.POSITION]
        epoch, offset = row[rows.LEADER_EPOCH], row[rows.BASE_OFFSET]
        if self.origin is AppendOrigin.RAFT_LEADER and epoch != self.leader_epoch:
            reason = f"the batch has leader epoch {epoch}, the append {self.leader_epoch}"
            raise InvalidRecord(reason, position)
        if self.origin is AppendOrigin.CLIENT and row[rows.MAGIC] >= MAGIC_V2 and offset != 0:
            raise InvalidRecord(f"a client's batch must have base offset 0, not {offset}", position)

    def is_too_large(self, row: Sequence[int]) -> bool:
        """Return whether the batch is larger than the topic allows."""
        return self.max_batch_bytes is not None and row[rows.SIZE] > self.max_batch_bytes


def analyze(
    data: Buffer,
    *,
    origin: AppendOrigin,
    leader_epoch: int,
    max_batch_bytes: int | None,
    require_offsets_monotonic: bool,
    on_rejected: Callable[[Rejection, int], None] = ignore_rejections,
    log_name: str = "",
) -> Analyzed:
    """Check the batches of an append, in order, and summarize their headers.

    Args:
        data: batches, possibly followed by an incomplete one.
        origin: who appends.
        leader_epoch: the leader's own epoch; a follower skips batches of later epochs than its own.
        max_batch_bytes: ``max.message.bytes``, compared with whole batches as received; None for a
            follower.
        require_offsets_monotonic: the batches bring their offsets (a follower), which must
            increase.
        on_rejected: called with the metric and the number to add to it, before the error is raised.
        log_name: the log's topic-partition, for log lines.

    Raises:
        CorruptMessage: length, magic or CRC of a batch is wrong.
        InvalidRecord: a client's batch does not begin at offset 0, or the epoch is wrong.
        MessageTooLarge: a batch is larger than ``max_batch_bytes``.
        OffsetsOutOfOrder: the batches' offsets do not increase.
        UnsupportedCompressionType: a batch has a codec that does not exist.
    """
    checks = _Checks(origin, leader_epoch, max_batch_bytes, require_offsets_monotonic, log_name)
    found = walk(data, check_crc=True)
    batches = found.batches
    if not len(batches):
        _check_each(data, found, checks, on_rejected)
        return _NOTHING
    seen, first = survey(batches), batches.row(0)
    if found.error is not None or not checks.hold_for(seen, first):
        kept = _check_each(data, found, checks, on_rejected)
        if kept < len(batches):
            batches = batches.slice(0, kept)
            seen = survey(batches) if kept else seen
    return _summed(batches, seen, first) if len(batches) else _NOTHING


def _check_each(
    data: Buffer, found: Walk, checks: _Checks, on_rejected: Callable[[Rejection, int], None]
) -> int:
    """Check each batch in order and raise the first error; return the number of batches to keep."""
    headers = found.batches.array.T.tolist()
    if found.error is not None:
        headers += _row_if_whole(data, found)
    previous = UNKNOWN_OFFSET
    for index, row in enumerate(headers):
        checks.check_header(row)
        if checks.must_skip(row):
            _log.info(
                "batches-skipped log=%s base_offset=%d origin=%s batch_epoch=%d leader_epoch=%d",
                *(checks.log_name, row[rows.BASE_OFFSET], checks.origin.value),
                *(row[rows.LEADER_EPOCH], checks.leader_epoch),
            )
            return index
        if checks.is_too_large(row):
            on_rejected(Rejection.BYTES_REJECTED, len(byte_view(data)))
            limit_bytes = checks.max_batch_bytes or 0
            raise MessageTooLarge("a batch", row[rows.SIZE], limit_bytes, "max.message.bytes")
        if index == len(found.batches):
            on_rejected(Rejection.INVALID_MESSAGE_CRC, 1)
            break
        if checks.require_offsets_monotonic and row[rows.LAST_OFFSET] <= previous:
            last = row[rows.LAST_OFFSET]
            raise OffsetsOutOfOrder(f"a batch's last offset {last} does not exceed {previous}")
        previous = row[rows.LAST_OFFSET]
    if found.error is not None:
        raise found.error
    return len(found.batches)


def _row_if_whole(data: Buffer, found: Walk) -> list[list[int]]:
    """Return the fields of the batch that stopped the walk, if only its CRC is wrong."""
    view = byte_view(data)
    try:
        size = whole_batch_size(view, found.next_position, len(view), in_memory=True)
    except CorruptMessage:
        return []
    return [list(batch_row(view, found.next_position, size))]


def _summed(batches: BatchColumns, seen: Survey, first: list[int]) -> Analyzed:
    Codec.of_attributes(seen.greatest_codec)  # raises if the codec does not exist
    last = batches.row(-1) if len(batches) > 1 else first
    return Analyzed(
        batches,
        valid_bytes=last[rows.POSITION] + last[rows.SIZE],
        first_offset=first[rows.BASE_OFFSET] if first[rows.MAGIC] >= MAGIC_V2 else UNKNOWN_OFFSET,
        last_offset=last[rows.LAST_OFFSET],
        last_offset_of_first_batch=first[rows.LAST_OFFSET],
        last_leader_epoch=last[rows.LEADER_EPOCH],
        max_timestamp=max(NO_TIMESTAMP, seen.greatest_timestamp),
        source_codec=Codec(seen.last_codec),
    )


_NOTHING: Final = Analyzed(
    BatchColumns.of_rows([]), 0, -1, -1, -1, NO_LEADER_EPOCH, NO_TIMESTAMP, Codec.NONE
)
