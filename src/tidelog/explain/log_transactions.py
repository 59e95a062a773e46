"""The transactions of one log, as ``tidelog txns`` and the console show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tidelog.codec.shown_rows import (
    HighWatermark,
    LastStable,
    LogEnd,
    PartitionNumber,
    TopicName,
)
from tidelog.log.producers.reader_transactions import DecidedTransaction
from tidelog.readonly.replayed_transactions import OpenTransaction
from tidelog.records.isolation import ReadUpTo

if TYPE_CHECKING:
    from tidelog.explain.transactional_ids import TransactionalIds
    from tidelog.readonly.read_only_log import ReadOnlyLog


@dataclass(frozen=True, slots=True)
class ShownTransactions:
    """One partition."""

    topic: TopicName
    partition: PartitionNumber
    high_watermark: HighWatermark
    last_stable_offset: LastStable
    log_end_offset: LogEnd
    open: Annotated[tuple[OpenTransaction, ...], "Its open transactions, oldest first."]
    aborted: Annotated[
        tuple[DecidedTransaction, ...] | None, "Its aborted transactions; null with `--open`."
    ]
    damage: Annotated[str | None, "What hides further transactions; null: nothing."]


def show_transactions(
    log: ReadOnlyLog,
    ids: TransactionalIds,
    *,
    up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK,
    aborted: bool = True,
) -> ShownTransactions:
    """Return the transactions up to the log end; ``up_to`` is where reading ends.

    ``aborted``: also those that were aborted, for which the whole log is read. Raises
    KafkaStorageError.
    """
    found = ids.named(log.transactions(ReadUpTo.LOG_END, aborted=aborted))
    offsets, damage = log.offsets(up_to), found.damage or log.damage
    return ShownTransactions(
        log.topic,
        log.partition,
        offsets.high_watermark,
        offsets.last_stable_offset,
        offsets.log_end_offset,
        found.open,
        found.aborted if aborted else None,
        None if damage is None else str(damage),
    )
