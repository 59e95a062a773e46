"""What batches do to the producers of a log, before any of it is visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.log.producers.producer_append import UNKNOWN_TRANSACTION_VERSION, ProducerAppendInfo
from tidelog.log.producers.producer_entry import ProducerStateEntry
from tidelog.log.producers.replay import producer_batches
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer
    from tidelog.log.producers.producer_append import ProducerBatch
    from tidelog.log.producers.producer_entry import CompletedTxn
    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.txn_index import AbortedTxn


class ProducerUpdates:
    """Checks batches as an append does, and accumulates what they change.

    ``producers`` is the state that they come upon; None: that of a log yet to be created. Without
    ``origin`` the batches are those of a leader.
    """

    def __init__(
        self,
        producers: ProducerStateManager | None,
        origin: AppendOrigin = AppendOrigin.REPLICATION,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
    ) -> None:
        self._producers: Final = producers
        self._origin: Final = origin
        self._transaction_version: Final = transaction_version
        self._infos: Final[dict[int, ProducerAppendInfo]] = {}
        self._completed: Final[list[CompletedTxn]] = []
        self._transactional: Final[set[tuple[int, int, bool]]] = set()

    def add_all(
        self, data: Buffer, batches: BatchColumns, *, base_offset: int = -1, position: int = -1
    ) -> None:
        """Add whole batches, with positions in ``data``.

        ``base_offset`` is that of their segment, where ``data`` begins at byte ``position``; -1 if
        that is not known. Raises InvalidTxnState for a batch without transaction inside its
        producer's transaction, and InvalidRecord for a marker that cannot be read.
        """
        for start, batch in producer_batches(batches, data):
            at = position + start if base_offset >= 0 else -1
            self.add(batch, LogOffsetMetadata(batch.base_offset, base_offset, at))

    def add(self, batch: ProducerBatch, place: LogOffsetMetadata | None) -> None:
        """Add a batch that is to be at a place; arguments and errors as those of an append.

        See ``ProducerAppendInfo.append``.
        """
        producer_id = batch.producer_id
        info = self._infos.get(producer_id)
        if info is None:
            if self._producers is None:
                info = ProducerAppendInfo(ProducerStateEntry(producer_id), self._origin)
            else:
                info = self._producers.prepare_update(producer_id, self._origin)
            self._infos[producer_id] = info
        completed = info.append(batch, place, self._transaction_version)
        if completed is not None:
            self._completed.append(completed)
        if batch.is_transactional:
            self._transactional.add((producer_id, batch.producer_epoch, batch.is_control))

    def aborted(self, producers: ProducerStateManager) -> list[AbortedTxn]:
        """Return the entries of the transaction index."""
        return producers.aborted_by(self._infos.values(), self._completed)

    def apply_to(self, producers: ProducerStateManager) -> None:
        """Make everything visible."""
        for info in self._infos.values():
            producers.update(info)
        for txn in self._completed:
            producers.complete_txn(txn)
        for producer_id, epoch, is_marker in self._transactional:
            producers.end_verification(producer_id, epoch, is_marker=is_marker)
