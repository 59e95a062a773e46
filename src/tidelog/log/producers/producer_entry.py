"""What a log remembers of one producer: its last batches, epochs and open transaction.

Kafka: ``ProducerStateEntry``, ``BatchMetadata``, ``TxnMetadata``, ``CompletedTxn``,
``VerificationStateEntry``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
from tidelog.records.batch import INT32_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

if TYPE_CHECKING:
    from tidelog.segment.offset_metadata import LogOffsetMetadata

NO_COORDINATOR_EPOCH: Final = -1
BATCHES_TO_RETAIN: Final = 5
"""The number of a producer's last batches that are remembered, to recognize duplicates."""

SEQUENCES: Final = INT32_MAX + 1
"""Sequence numbers run from 0 to 2**31 - 1 and then begin again."""


def rewind_sequence(sequence: int, count: int) -> int:
    """Return the sequence ``count`` before ``sequence``. Source: Kafka DefaultRecordBatch."""
    return (sequence - count) % SEQUENCES


class BatchMetadata(NamedTuple):
    """One remembered batch; sequences and offsets are inclusive. Source: Kafka BatchMetadata."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the batch's first record."""
        return rewind_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class TxnMetadata(NamedTuple):
    """A transaction by its first offset; ``last_offset`` is its marker's, once there is one.

    Source: Kafka TxnMetadata.
    """

    producer_id: int
    first_offset: LogOffsetMetadata
    last_offset: int | None = None


class CompletedTxn(NamedTuple):
    """A transaction that its marker, at ``last_offset``, has ended. Source: Kafka CompletedTxn."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStateEntry(NamedTuple):
    """One producer; a change makes a new value. Timestamps in ms, -1 for what is not known.

    ``batches`` are the last ones of ``producer_epoch``, oldest first, at most five.
    Source: Kafka ProducerStateEntry.
    """

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    txn_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no batch is remembered (an unknown producer, or only a marker was seen)."""
        return not self.batches

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 if no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Offset of the last record, -1 if no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else -1

    def find_duplicate(self, epoch: int, first_sequence: int, last: int) -> BatchMetadata | None:
        """Return the remembered batch of this epoch with just these sequences, if any."""
        if epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == first_sequence:
                return batch
        return None

    def with_epoch(self, epoch: int) -> ProducerStateEntry:
        """Adopt ``epoch``; another one than before forgets the batches."""
        if epoch == self.producer_epoch:
            return self
        return self._replace(producer_epoch=epoch, batches=())

    def with_batch(self, epoch: int, batch: BatchMetadata) -> ProducerStateEntry:
        """Remember a batch of ``epoch``, and forget the oldest beyond five."""
        kept = self.batches if epoch == self.producer_epoch else ()
        # As ``_replace`` would, in a third of the time: every batch of a producer comes here.
        return ProducerStateEntry(
            self.producer_id,
            epoch,
            self.coordinator_epoch,
            batch.timestamp,
            self.txn_first_offset,
            (*kept, batch)[-BATCHES_TO_RETAIN:],
        )

    def updated_by(self, change: ProducerStateEntry) -> ProducerStateEntry:
        """Merge what was accumulated since: ``change.batches`` are the new ones only."""
        kept = self.with_epoch(change.producer_epoch).batches
        return ProducerStateEntry(*change[:-1], (*kept, *change.batches)[-BATCHES_TO_RETAIN:])

    def to_snapshot(self) -> ProducerSnapshotEntry:
        """Return the form kept in a snapshot file: of the batches, the last one."""
        txn = -1 if self.txn_first_offset is None else self.txn_first_offset
        return ProducerSnapshotEntry(
            self.producer_id,
            self.producer_epoch,
            self.last_sequence,
            self.last_data_offset,
            self.batches[-1].offset_delta if self.batches else 0,
            self.last_timestamp,
            self.coordinator_epoch,
            txn,
        )

    @classmethod
    def from_snapshot(cls, kept: ProducerSnapshotEntry) -> ProducerStateEntry:
        """Make the entry again that ``to_snapshot`` wrote."""
        last = BatchMetadata(
            kept.last_sequence, kept.last_offset, kept.offset_delta, kept.timestamp
        )
        return cls(
            kept.producer_id,
            kept.producer_epoch,
            kept.coordinator_epoch,
            kept.timestamp,
            kept.txn_first_offset if kept.txn_first_offset >= 0 else None,
            (last,) if kept.last_offset >= 0 else (),
        )


@dataclass(slots=True)
class VerificationStateEntry:
    """A transaction that the coordinator is being asked about (KIP-890); lives in memory only.

    ``guard`` is a token that the append must bring again; ``created_ms`` is wall-clock time.
    Source: Kafka VerificationStateEntry.
    """

    created_ms: int
    guard: int
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool

    def lower_to(self, sequence: int, epoch: int) -> None:
        """Note another request of the same producer before the first was answered."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
