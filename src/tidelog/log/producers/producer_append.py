"""What one append does to one producer: checked and accumulated, visible only when it is applied.

Kafka: ``ProducerAppendInfo``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import (
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from tidelog.log.producers.producer_entry import (
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
    VerificationStateEntry,
)
from tidelog.records.batch import INT32_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE
from tidelog.records.record import advance_sequence
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from tidelog.records.control import EndTxnMarker

UNKNOWN_TRANSACTION_VERSION: Final = -1
TRANSACTION_V2: Final = 2
INT16_MAX: Final = 2**15 - 1

_log = logging.getLogger(__name__)


class ProducerBatch(NamedTuple):
    """What producer state needs of a batch. ``last_offset`` is inclusive, timestamps are in ms.

    ``marker`` is the end-transaction marker of a control batch with its record's timestamp; None
    for data, and for a control batch that compaction has emptied.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    is_transactional: bool = False
    is_control: bool = False
    marker: EndTxnMarker | None = None
    marker_timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 without sequences."""
        return advance_sequence(self.base_sequence, self.last_offset - self.base_offset)


class ProducerAppendInfo:
    """Accumulates the batches of one producer in one append; nothing is visible before update.

    ``directory`` is the log's, for log lines. Source: Kafka ProducerAppendInfo.
    """

    def __init__(
        self,
        current: ProducerStateEntry,
        origin: AppendOrigin,
        verification: VerificationStateEntry | None = None,
        *,
        directory: str = "",
    ) -> None:
        self.current = current
        self.origin = origin
        self.updated = ProducerStateEntry(*current[:-1])  # without batches
        self.started_txns: list[TxnMetadata] = []
        self._verification = verification
        self._directory = directory

    def append(
        self,
        batch: ProducerBatch,
        place: LogOffsetMetadata | None = None,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
    ) -> CompletedTxn | None:
        """Check and note one batch; return the transaction that it ends, if it does.

        ``place`` is where the batch will begin, for the first offset of a transaction; None: that
        is not known.
        Raises InvalidProducerEpoch, OutOfOrderSequenceNumber, InvalidTxnState or
        TransactionCoordinatorFenced, each with the state unchanged for the caller.
        """
        if batch.is_control:
            return self._append_marker(batch, transaction_version)
        self._append_data(batch, place)
        return None

    def _append_data(self, batch: ProducerBatch, place: LogOffsetMetadata | None) -> None:
        self._check_epoch(batch, is_stale=batch.producer_epoch < self.updated.producer_epoch)
        if self.origin is AppendOrigin.CLIENT:
            self._check_sequence(batch)
        open_txn = self.updated.txn_first_offset
        if open_txn is not None and not batch.is_transactional:
            raise InvalidTxnState(
                f"producer {batch.producer_id} wrote outside its transaction open since {open_txn}"
            )
        self.updated = self.updated.with_batch(
            batch.producer_epoch,
            BatchMetadata(
                batch.last_sequence,
                batch.last_offset,
                batch.last_offset - batch.base_offset,
                batch.max_timestamp,
            ),
        )
        if open_txn is None and batch.is_transactional:
            self.updated = self.updated._replace(txn_first_offset=batch.base_offset)
            first = place or LogOffsetMetadata(batch.base_offset)
            self.started_txns.append(TxnMetadata(batch.producer_id, first))

    def _append_marker(self, batch: ProducerBatch, transaction_version: int) -> CompletedTxn | None:
        marker = batch.marker
        if marker is None:
            return None
        self._check_epoch(batch, is_stale=self._is_stale_marker(batch, transaction_version))
        self._check_coordinator(batch, marker.coordinator_epoch)
        first_offset = self.updated.txn_first_offset
        self.updated = self.updated.with_epoch(batch.producer_epoch)._replace(
            coordinator_epoch=marker.coordinator_epoch,
            last_timestamp=batch.marker_timestamp,
            txn_first_offset=None,
        )
        if first_offset is None:
            return None
        return CompletedTxn(
            batch.producer_id, first_offset, batch.base_offset, is_aborted=not marker.is_commit
        )

    def _is_stale_marker(self, batch: ProducerBatch, transaction_version: int) -> bool:
        """Return whether the marker's epoch is too low; version 2 must have raised it (KIP-890)."""
        known = self.updated.producer_epoch
        if transaction_version == UNKNOWN_TRANSACTION_VERSION:
            if self.origin is not AppendOrigin.REPLICATION:
                raise InvalidArgument("a marker's transaction version must be known")
            return batch.producer_epoch < known
        if transaction_version < TRANSACTION_V2 or batch.producer_epoch != known:
            return batch.producer_epoch < known
        is_repeat = self.updated.txn_first_offset is None or known == INT16_MAX
        if is_repeat:
            _log.info(
                "marker-repeated directory=%s producer_id=%d epoch=%d",
                *(self._directory, batch.producer_id, known),
            )
        return not is_repeat

    def _check_epoch(self, batch: ProducerBatch, *, is_stale: bool) -> None:
        if not is_stale:
            return
        reason = (
            f"epoch {batch.producer_epoch} of producer {batch.producer_id} at offset "
            f"{batch.base_offset} is stale; {self.updated.producer_epoch} is known"
        )
        if self.origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpoch(reason)
        _log.warning(
            "stale-producer-epoch-replicated directory=%s reason=%s", self._directory, reason
        )

    def _check_coordinator(self, batch: ProducerBatch, epoch: int) -> None:
        if epoch >= self.updated.coordinator_epoch:
            return
        reason = (
            f"coordinator epoch {epoch} of a marker of producer {batch.producer_id} is below "
            f"{self.updated.coordinator_epoch}"
        )
        if self.origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(reason)
        _log.info(
            "stale-coordinator-epoch-replicated directory=%s reason=%s", self._directory, reason
        )

    def _check_sequence(self, batch: ProducerBatch) -> None:
        first = batch.base_sequence
        verification = self._verification
        if verification is not None:
            is_gap = verification.supports_epoch_bump and first != 0 and self.current.is_empty
            if is_gap or first > verification.lowest_sequence:
                raise self._out_of_order(batch, verification.lowest_sequence)
        if batch.producer_epoch != self.updated.producer_epoch:
            if first != 0 and self.updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise self._out_of_order(batch, NO_SEQUENCE)
        elif self.current.producer_epoch != NO_PRODUCER_EPOCH or not self.updated.is_empty:
            last = self._last_sequence(batch.producer_epoch)
            if not (first == last + 1 or (first == 0 and last == INT32_MAX)):
                raise self._out_of_order(batch, last)

    def _last_sequence(self, epoch: int) -> int:
        if not self.updated.is_empty:
            return self.updated.last_sequence
        return self.current.last_sequence if epoch == self.current.producer_epoch else NO_SEQUENCE

    @staticmethod
    def _out_of_order(batch: ProducerBatch, last: int) -> OutOfOrderSequenceNumber:
        return OutOfOrderSequenceNumber(
            f"sequence {batch.base_sequence} of producer {batch.producer_id}, epoch "
            f"{batch.producer_epoch}, at offset {batch.base_offset} does not follow {last}"
        )
