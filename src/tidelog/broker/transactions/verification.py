"""Which batches of transactions may be written. Kafka: ``AddPartitionsToTxnManager``, KIP-890."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.client_request import Refusal
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidTxnState
from tidelog.log.append_info import NO_GUARD
from tidelog.records.batch import BATCH_HEADER, LOG_OVERHEAD, MAGIC_V2, BatchFlags
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.broker.client_request import Request
    from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
    from tidelog.codec.varint import Bytes
    from tidelog.manager.partition import Partition


_ABORTABLE_VERSIONS: Final = {"Produce": 11, "TxnOffsetCommit": 4}
"""From which version on a request may be answered with TRANSACTION_ABORTABLE."""


class Verification:
    """Asks the coordinator, before a transaction's first batch in a partition is appended."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    def guard(self, request: Request, partition: Partition, records: Bytes) -> int:
        """Return what the append of batches has to bring; errors as ``check``.

        A batch that came late, after the end of its transaction, would begin one that nobody ends.
        Those of a request without a transactional id belong to none: else it was refused.
        """
        if request.values["transactionalId"] is None or not is_transactional(records):
            return NO_GUARD
        batch = BATCH_HEADER.unpack(records)
        producer = batch.producer_id, batch.producer_epoch
        return self.guard_of(request, partition, producer, batch.base_sequence)

    def guard_of(
        self, request: Request, partition: Partition, producer: tuple[int, int], sequence: int
    ) -> int:
        """Return what an append of a producer's transaction has to bring; errors as ``check``."""
        log = partition.log
        producer_id, epoch = producer
        guard = log.start_verification(producer_id, sequence, epoch, supports_epoch_bump=False)
        if not log.producers.is_txn_open(producer_id, epoch):
            self.check(request, partition, producer)
        return guard

    def check(self, request: Request, partition: Partition, producer: tuple[int, int]) -> None:
        """Refuse a producer without an open transaction that has the partition.

        In the word that its client knows; see ``TransactionCoordinator.check_writer``.
        """
        name = request.values["transactionalId"]
        key = TopicPartition(partition.topic, partition.partition)
        try:
            self._coordinator.check_writer(name, producer, key)
        except Refusal as error:
            is_old = request.version < _ABORTABLE_VERSIONS[request.api.name]
            if error.code is ErrorCode.TRANSACTION_ABORTABLE and is_old:
                raise InvalidTxnState(error.reason) from None
            raise


def is_transactional(records: Bytes) -> bool:
    """Whether the first batch belongs to a transaction; False if it is cut short, or too old."""
    if len(records) < BATCH_HEADER.size:
        return False
    # First what most batches are not: each is asked, some of them twice.
    if not BATCH_HEADER.unpack_field("attributes", records) & BatchFlags.TRANSACTIONAL:
        return False
    head = BATCH_HEADER.unpack(records)
    return head.magic == MAGIC_V2 and len(records) >= LOG_OVERHEAD + head.length
