"""Whole transactions of one producer, markers included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from tests.machinery.fields import ProducerFields

    from tidelog.log.log import Log
    from tidelog.manager.partition import Partition


def append_transaction(
    partition: Partition,
    *values: bytes,
    is_commit: bool = True,
    producer_id: int = 7,
    now_ms: int = 1000,
) -> None:
    """Append values as the first transaction of a producer, with the marker that ends it."""
    log: Log = partition.log
    producer: ProducerFields = {"producer_id": producer_id, "producer_epoch": 0}
    guard = log.start_verification(producer_id, 0, 0, supports_epoch_bump=False)
    records = [(now_ms, None, value, ()) for value in values]
    batch = build_batch(records, **producer, base_sequence=0, transactional=True)
    partition.append(batch, verification_guard=guard)
    marker = build_marker(**producer, coordinator_epoch=0, is_commit=is_commit, timestamp=now_ms)
    partition.append(marker, AppendOrigin.COORDINATOR, transaction_version=0)
