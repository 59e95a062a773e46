"""All producers of one log, their open transactions, and the offsets that follow from them.

Kafka: ``ProducerStateManager``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from heapq import merge
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument, InvalidProducerEpoch
from tidelog.log.directory_guard import PASSING
from tidelog.log.producers.producer_append import ProducerAppendInfo
from tidelog.log.producers.producer_entry import (
    ProducerStateEntry,
    TxnMetadata,
    VerificationStateEntry,
)
from tidelog.log.producers.snapshot_files import SnapshotFiles
from tidelog.log.producers.txn_order import FirstOpen, TxnOrder
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.log.producers.producer_entry import BatchMetadata, CompletedTxn
    from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
    from tidelog.records.validation.append_origin import AppendOrigin

GUARD_SENTINEL: Final = 0
"""The guard of a transaction that is open already; it verifies nothing."""

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000

_guards = count(1)
_by_first_offset = attrgetter("first_offset.offset")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProducerStateConfig:
    """The broker's settings about producers; times in ms. Source: spec of the broker settings."""

    producer_id_expiration_ms: int = 86_400_000
    expiration_check_interval_ms: int = 600_000
    transaction_max_timeout_ms: int = 900_000
    transaction_verification: bool = True


class ProducerStateManager:
    """Producers by id, and transactions by first offset, as of ``map_end_offset`` (exclusive).

    Changed under the log's lock. ``snapshots``: the files of the directory, if they are known.
    Source: Kafka ProducerStateManager.
    """

    def __init__(
        self,
        directory: str,
        *,
        fs: FileSystem,
        clock: Clock,
        config: ProducerStateConfig,
        snapshots: SnapshotFiles | None = None,
    ) -> None:
        self.config = config
        self.snapshots = SnapshotFiles(directory, fs) if snapshots is None else snapshots
        self.map_end_offset = 0
        self.last_snapshot_offset = 0
        self._clock = clock
        self._producers: dict[int, ProducerStateEntry] = {}
        self._verifications: dict[int, VerificationStateEntry] = {}
        self._ongoing = TxnOrder()
        self._unreplicated = TxnOrder()
        self._oldest_txn_timestamp = -1

    @property
    def producers(self) -> dict[int, ProducerStateEntry]:
        """The active producers by id."""
        return dict(self._producers)

    @property
    def producer_count(self) -> int:
        """How many producers are active."""
        return len(self._producers)

    @property
    def is_empty(self) -> bool:
        """Whether no producer and no unreplicated transaction is known."""
        return not self._producers and not self._unreplicated.offsets

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return what is known of a producer."""
        return self._producers.get(producer_id)

    def is_txn_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open at just this epoch."""
        entry = self._producers.get(producer_id)
        if entry is None or entry.txn_first_offset is None:
            return False
        return entry.producer_epoch == producer_epoch

    # Offsets that follow from transactions

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """First offset of the transactions that are open, or whose marker is not replicated."""
        if not self._ongoing.offsets and not self._unreplicated.offsets:
            return None
        firsts = [
            txn.first_offset for txn in (self._ongoing.first, self._unreplicated.first) if txn
        ]
        return min(firsts, key=lambda first: first.offset, default=None)

    @property
    def ongoing(self) -> dict[int, int]:
        """The first offset of each open transaction, by producer; needs no lock."""
        return {txn.producer_id: txn.first_offset.offset for txn in self._ongoing.snapshot()}

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether a transaction has been open for longer than any may be; needs no lock."""
        oldest_ms = self._oldest_txn_timestamp
        limit_ms = self.config.transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return oldest_ms > 0 and now_ms - oldest_ms > limit_ms

    def _update_oldest_txn_timestamp(self) -> None:
        first = self._ongoing.first
        entry = self._producers.get(first.producer_id) if first else None
        self._oldest_txn_timestamp = -1 if entry is None else entry.last_timestamp

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Return the last stable offset (exclusive) once ``completed`` is done."""
        for txn in self._ongoing:
            if txn.producer_id != completed.producer_id:
                return txn.first_offset.offset
        return completed.last_offset + 1

    def aborted_by(
        self, infos: Iterable[ProducerAppendInfo], completed: Sequence[CompletedTxn]
    ) -> list[AbortedTxn]:
        """Return the index entries of the transactions that an append will abort.

        Nothing changes: the entries are written before what ``infos`` hold becomes visible.
        """
        if not any(txn.is_aborted for txn in completed):
            return []
        started = [txn for info in infos for txn in info.started_txns]
        started.sort(key=_by_first_offset)
        begun = merge(self._ongoing, started, key=_by_first_offset)
        open_txns = FirstOpen((txn.first_offset.offset, txn.producer_id) for txn in begun)
        aborted = []
        for done in completed:
            if done.is_aborted:
                stable = open_txns.other_than(done.producer_id)
                stable = done.last_offset + 1 if stable is None else stable
                offsets = done.first_offset, done.last_offset, stable
                aborted.append(AbortedTxn(0, done.producer_id, *offsets))
            open_txns.end(done.first_offset)
        return aborted

    # Appends

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Begin to accumulate the batches of one producer in one append."""
        current = self._producers.get(producer_id) or ProducerStateEntry(producer_id)
        verification = self._verifications.get(producer_id)
        return ProducerAppendInfo(current, origin, verification, directory=self.snapshots.directory)

    def update(self, info: ProducerAppendInfo) -> None:
        """Make visible what ``info`` accumulated."""
        producer_id = info.current.producer_id
        current = self._producers.get(producer_id) or ProducerStateEntry(producer_id)
        self._producers[producer_id] = current.updated_by(info.updated)
        for txn in info.started_txns:
            self._ongoing.put(txn)
        if self._ongoing.offsets:
            self._update_oldest_txn_timestamp()

    def remember(self, producer_id: int, batches: tuple[BatchMetadata, ...]) -> None:
        """Set which batches of a producer are remembered, oldest first, at most five."""
        self._producers[producer_id] = self._producers[producer_id]._replace(batches=batches)

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Move a transaction from open to unreplicated; it must be open."""
        txn = self._ongoing.remove(completed.first_offset)
        if txn is None:
            raise InvalidArgument(f"no transaction of {completed} is open")
        self._unreplicated.put(txn._replace(last_offset=completed.last_offset))
        self._update_oldest_txn_timestamp()

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget completed transactions whose marker lies below ``high_watermark``."""
        if self._unreplicated.offsets:
            self._unreplicated.remove_ended(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget completed transactions whose marker lies below the new start; keep producers."""
        self._unreplicated.remove_ended(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.snapshots.latest
        self.last_snapshot_offset = log_start_offset if latest is None else latest

    # Snapshots and truncation

    def take_snapshot(self, *, sync: bool = True) -> int | None:
        """Write a snapshot at ``map_end_offset`` unless it is the last one; return its offset."""
        if self.map_end_offset <= self.last_snapshot_offset:
            return None
        entries = (entry.to_snapshot() for entry in self._producers.values())
        self.snapshots.write(self.map_end_offset, entries, sync=sync)
        self.last_snapshot_offset = self.map_end_offset
        return self.map_end_offset

    def take_snapshot_if_room(self, *, sync: bool = True) -> int | None:
        """Do as ``take_snapshot``, but continue without one where the disk is full.

        It can be made again from the records. The snapshot of a clean shutdown cannot be left out.
        """
        try:
            return self.take_snapshot(sync=sync)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            path = self.snapshots.path(self.map_end_offset)
            _log.warning("snapshot-not-written path=%s reason=%s", path, error)
            return None

    def truncate_and_reload(
        self, start_offset: int, end_offset: int, now_ms: int, *, keeps_first: bool = False
    ) -> None:
        """Return to the newest snapshot in (start, end]; later batches must be replayed.

        ``map_end_offset`` is where from: the snapshot's offset, or ``start_offset``.
        ``keeps_first``: one at the start counts, too.
        Source: Kafka ProducerStateManager.truncateAndReload.
        """
        self.snapshots.delete_outside(start_offset - keeps_first, end_offset)
        if end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(start_offset)
            return
        offset, kept = self.snapshots.read_latest() or (start_offset, [])
        self.load_snapshot(offset, kept, now_ms)

    def load_snapshot(
        self, offset: int, entries: Iterable[ProducerSnapshotEntry], now_ms: int
    ) -> None:
        """Start again from the entries of a snapshot at ``offset``, less those expired by now."""
        self._clear()
        self._load(map(ProducerStateEntry.from_snapshot, entries), now_ms)
        self.map_end_offset = self.last_snapshot_offset = offset

    def truncate_fully_and_start_at(
        self, offset: int, entries: Sequence[ProducerSnapshotEntry] = ()
    ) -> None:
        """Forget everything, snapshots too, and continue from ``offset`` with these producers."""
        self._clear()
        self.snapshots.delete_all()
        self.last_snapshot_offset = 0
        self.map_end_offset = offset
        if entries:
            self.load_snapshot(offset, entries, self._clock.now_ms())
            self.snapshots.write(offset, entries, sync=True)

    def return_to(self, offset: int) -> None:
        """Continue from ``offset``, after which there are no batches and no snapshot counts."""
        self.map_end_offset = offset
        below = (at for at in self.snapshots.offsets if at <= offset)
        self.last_snapshot_offset = max(below, default=0)

    def _clear(self) -> None:
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._update_oldest_txn_timestamp()

    def _load(self, entries: Iterable[ProducerStateEntry], now_ms: int) -> None:
        for entry in entries:
            if self._is_expired(entry, now_ms):
                continue
            self._producers[entry.producer_id] = entry
            if entry.txn_first_offset is not None:
                place = LogOffsetMetadata(entry.txn_first_offset)
                self._ongoing.put(TxnMetadata(entry.producer_id, place))
        self._update_oldest_txn_timestamp()

    # Expiry and verification

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        age_ms = now_ms - entry.last_timestamp
        return entry.txn_first_offset is None and age_ms >= self.config.producer_id_expiration_ms

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers without a transaction that wrote nothing for too long (record time)."""
        for entry in list(self._producers.values()):
            if self._is_expired(entry, now_ms):
                del self._producers[entry.producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.created_ms >= self.config.producer_id_expiration_ms:
                del self._verifications[producer_id]

    def maybe_start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> int:
        """Return the guard that the append must bring once the coordinator has agreed.

        A transaction already open at this epoch needs none: the sentinel is returned. Raises
        InvalidProducerEpoch for a stale epoch. Source: KIP-890.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of producer {producer_id} is stale; {entry.producer_epoch} is known"
            )
        if self.is_txn_open(producer_id, epoch):
            return GUARD_SENTINEL
        known = self._verifications.get(producer_id)
        if known is None:
            known = VerificationStateEntry(
                self._clock.now_ms(), next(_guards), sequence, epoch, supports_epoch_bump
            )
            self._verifications[producer_id] = known
        else:
            known.lower_to(sequence, epoch)
        return known.guard

    def verification(self, producer_id: int) -> VerificationStateEntry | None:
        """Return the verification that is under way for a producer."""
        return self._verifications.get(producer_id)

    def is_verified(self, producer_id: int, guard: int) -> bool:
        """Whether ``guard`` is the one handed out for the producer."""
        known = self._verifications.get(producer_id)
        return known is not None and known.guard == guard

    def end_verification(self, producer_id: int, epoch: int, *, is_marker: bool) -> None:
        """Forget a verification after a transactional batch, unless the next transaction has it."""
        known = self._verifications.get(producer_id)
        if known is None:
            return
        is_of_next = known.supports_epoch_bump and known.epoch == epoch
        if not (is_marker and is_of_next):
            del self._verifications[producer_id]
