"""Which batches of transactions may be written. Kafka: ``AddPartitionsToTxnManager``, KIP-890."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import InvalidTxnState
from tidelog.log.append_info import NO_GUARD
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
    from tidelog.codec.varint import Bytes
    from tidelog.manager.partition import Partition


class Verification:
    """Asks the coordinator, before a transaction's first batch in a partition is appended."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    def guard(self, partition: Partition, records: Bytes) -> int:
        """Return what the append of batches has to bring; raise InvalidTxnState.

        A batch that came late, after the end of its transaction, would begin one that nobody ends.
        """
        if len(records) < BATCH_HEADER.size:
            return NO_GUARD  # the append says what is wrong with it
        if not BATCH_HEADER.unpack_field("attributes", records) & BatchFlags.TRANSACTIONAL:
            return NO_GUARD
        batch = BATCH_HEADER.unpack(records)
        return self.guard_of(
            partition, batch.producer_id, batch.producer_epoch, batch.base_sequence
        )

    def guard_of(self, partition: Partition, producer_id: int, epoch: int, sequence: int) -> int:
        """Return what an append of a producer's transaction has to bring; errors as ``guard``."""
        log = partition.log
        guard = log.start_verification(producer_id, sequence, epoch, supports_epoch_bump=False)
        if log.producers.is_txn_open(producer_id, epoch):
            return guard
        key = TopicPartition(partition.topic, partition.partition)
        if not self._coordinator.writes_to((producer_id, epoch), key):
            raise InvalidTxnState(
                f"{key} is not in an open transaction of producer {producer_id}, epoch {epoch}"
            )
        return guard
