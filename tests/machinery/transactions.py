"""Transactions of producers, markers included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.readonly.group_positions import Position, position_key, position_value
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.machinery.fields import ProducerFields

    from tidelog.manager.partition import Partition
    from tidelog.records.builder import RecordFields
    from tidelog.segment.filenames import TopicPartition


def append_transaction(
    partition: Partition,
    *values: bytes,
    is_commit: bool = True,
    producer_id: int = 7,
    now_ms: int = 1000,
) -> None:
    """Append values as the first transaction of a producer, with the marker that ends it."""
    begin_transaction(partition, producer_id, [(now_ms, None, value, ()) for value in values])
    end_transaction(partition, producer_id, is_commit=is_commit, now_ms=now_ms)


def begin_with_position(
    partition: Partition, producer_id: int, key: TopicPartition, offset: int
) -> None:
    """Append a position of group g as the first transaction of a producer, which stays open."""
    value = position_value(Position(offset, -1, "", 1000, None))
    begin_transaction(partition, producer_id, [(1000, position_key("g", key), value, ())])


def begin_transaction(
    partition: Partition, producer_id: int, records: Sequence[RecordFields]
) -> None:
    """Append records as the first transaction of a producer, which stays open."""
    producer: ProducerFields = {"producer_id": producer_id, "producer_epoch": 0}
    guard = partition.log.start_verification(producer_id, 0, 0, supports_epoch_bump=False)
    batch = build_batch(records, **producer, base_sequence=0, transactional=True)
    partition.append(batch, verification_guard=guard)


def end_transaction(
    partition: Partition, producer_id: int, *, is_commit: bool, now_ms: int = 1000
) -> None:
    """Append the marker that ends a producer's transaction."""
    producer: ProducerFields = {"producer_id": producer_id, "producer_epoch": 0}
    marker = build_marker(**producer, coordinator_epoch=0, is_commit=is_commit, timestamp=now_ms)
    partition.append(marker, AppendOrigin.COORDINATOR, transaction_version=0)
