"""What the marker that aborts an open transaction would be, and what readers see from then on.

Kafka: ``TransactionsCommand.AbortTransactionCommand``, which has no such answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import PartitionNumber, TopicName
from tidelog.errors import InvalidArgument
from tidelog.records.control import build_marker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.log.producers.producer_entry import ProducerStateEntry


class AbortPlan(NamedTuple):
    """An abort marker.

    It would end the open transaction of a producer in one partition. Readers of committed records
    pass it once the high watermark has.
    """

    topic: TopicName
    partition: PartitionNumber
    producer_id: Annotated[int, "The producer of the transaction."]
    producer_epoch: Annotated[int, "Epoch of the producer, and of the marker."]
    coordinator_epoch: Annotated[int, "Epoch of the coordinator in the marker."]
    first_offset: Annotated[int, "Offset of the first record of the transaction."]
    marker_offset: Annotated[int, "Offset of the marker."]
    high_watermark: Annotated[int, "The high watermark before the marker."]
    last_stable_offset: Annotated[int, "The last stable offset before the marker."]
    last_stable_offset_after: Annotated[
        int, "The last stable offset with the marker; after an undo, without it."
    ]

    def marker(self, timestamp: int) -> bytes:
        """Return the batch to append; ``timestamp`` in ms."""
        return build_marker(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            is_commit=False,
            timestamp=timestamp,
        )


def plan_abort(
    key: tuple[str, int],
    producers: Mapping[int, ProducerStateEntry],
    producer_id: int,
    *,
    log_end_offset: int,
    high_watermark: int,
) -> AbortPlan:
    """Return the marker that would end the open transaction of a producer at the log's end.

    Raises InvalidArgument if the producer has no open transaction.
    """
    open_offsets = {
        entry.producer_id: entry.txn_first_offset
        for entry in producers.values()
        if entry.txn_first_offset is not None
    }
    first_offset = open_offsets.pop(producer_id, None)
    if first_offset is None:
        others = ", ".join(map(str, sorted(open_offsets))) or "none"
        raise InvalidArgument(
            f"producer {producer_id} has no open transaction in {key[0]}-{key[1]}; producers that"
            f" have one: {others}"
        )
    entry = producers[producer_id]
    later = [*open_offsets.values(), log_end_offset + 1]
    return AbortPlan(
        *key,
        producer_id=producer_id,
        producer_epoch=entry.producer_epoch,
        coordinator_epoch=max(entry.coordinator_epoch, 0),
        first_offset=first_offset,
        marker_offset=log_end_offset,
        high_watermark=high_watermark,
        last_stable_offset=min(first_offset, high_watermark, *later),
        last_stable_offset_after=min(later),
    )
