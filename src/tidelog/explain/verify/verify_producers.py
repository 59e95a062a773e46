"""Transaction indexes, producer snapshots and leader epochs, against a replay of the batches.

A replay from the first segment knows less than a snapshot of producers whose batches were deleted,
so only what both know is compared.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.datadir.lock_file import has_writer
from tidelog.env.overlay_files import OverlayFiles
from tidelog.errors import (
    CorruptIndex,
    CorruptSnapshot,
    KafkaStorageError,
    TidelogError,
)
from tidelog.explain.verify.findings import (
    READABLE,
    REBUILD,
    REBUILT,
    Finding,
    damage,
    raise_unanswered,
    unusual,
)
from tidelog.log.producers.producer_snapshot import SNAPSHOT_ENTRY, SNAPSHOT_HEADER, read_snapshot
from tidelog.log.producers.producer_state import ProducerStateConfig, ProducerStateManager
from tidelog.log.producers.reader_transactions import Transactions
from tidelog.log.producers.replay import replay_producers
from tidelog.segment.filenames import producer_snapshot_file
from tidelog.segment.txn_index import ABORTED_TXN, TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.explain.verify.checked import Checked
    from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece

_REPLAYED: Final = "delete the file: the state is replayed from the log"
_FALLING: Final = (
    "one of both is wrong, which no checksum shows, and no recovery knows which; all records are"
    " whole. With a replica elsewhere, delete the partition here and let it be copied again; else"
    " `tidelog cat` and `append` copy the records to a new topic"
)


class ProducerChecks:
    """Replays the producers of one log, and compares each snapshot when its offset is reached.

    After damage nothing more is compared: a batch that is missing would explain any difference.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        clock: Clock,
        snapshots: Sequence[int],
        cleaned_to: int,
    ) -> None:
        """Begin; below ``cleaned_to`` batches are missing by right."""
        self._fs = fs
        self._directory = directory
        # Producer state writes its files into memory.
        self._producers = ProducerStateManager(
            directory, fs=OverlayFiles(fs), clock=clock, config=ProducerStateConfig()
        )
        self._waiting = sorted(snapshots, reverse=True)
        self._compared_from = cleaned_to
        self.transactions = Transactions()
        self.is_sure = True

    def feed(self, piece: Piece, path: str) -> Iterator[Finding]:
        """Take note of the next batches of the file at ``path``."""
        if not self.is_sure:
            return
        try:
            self.transactions.follow(piece)
            batches = piece.batches_in_data
            while self._waiting and len(batches) and self._waiting[-1] <= batches.last_offset[-1]:
                offset = self._waiting.pop()
                at = int(np.searchsorted(batches.base_offset, offset))
                if at and batches.last_offset[at - 1] >= offset:
                    yield self._inside_a_batch(offset, int(batches.base_offset[at - 1]))
                    continue
                replay_producers(self._producers, batches.slice(0, at), piece.data)
                yield from self._compare(offset)
                batches = batches.slice(at)
            replay_producers(self._producers, batches, piece.data)
        except TidelogError as error:
            self.is_sure = False
            position = piece.data_position + (getattr(error, "position", None) or 0)
            what = f"no broker writes this, and none starts with it: {error}"
            yield damage(path, position, what, "delete the partition, or cut the log by hand")

    def finish(self, next_offset: int, *, is_being_truncated: bool = False) -> Iterator[Finding]:
        """Compare the snapshots at the log's end, and yield those after it.

        ``is_being_truncated``: a truncation was begun, which deletes snapshots last.
        """
        while self._waiting:
            offset = self._waiting.pop()
            if offset <= next_offset:
                yield from self._compare(offset)
                continue
            path = producer_snapshot_file(self._directory, offset)
            what = f"knows the producers up to offset {offset}, but the log ends at {next_offset}"
            if is_being_truncated:
                yield unusual(path, None, what, "none needed: opening drops the file")
            else:
                remedy = "find out where the records went; opening drops the file"
                yield damage(path, None, what, remedy)

    def _inside_a_batch(self, offset: int, base_offset: int) -> Finding:
        path = producer_snapshot_file(self._directory, offset)
        what = f"knows the producers up to offset {offset}, inside the batch at {base_offset}"
        return damage(path, None, what, _REPLAYED)

    def _compare(self, offset: int) -> Iterator[Finding]:
        path = producer_snapshot_file(self._directory, offset)
        try:
            is_empty = not self._fs.stat(path).size_bytes
            if is_empty and has_writer(os.path.dirname(self._directory)):
                return  # just created; what it will hold comes with the next write
            entries = read_snapshot(self._fs, path)
        except FileNotFoundError:
            return
        except CorruptSnapshot as error:
            # Opening drops only the newest one; an older one stays until the log is cut to it.
            yield damage(path, 0, str(error), _REPLAYED)
            return
        except KafkaStorageError as error:
            raise_unanswered(error)
            yield damage(path, None, str(error), READABLE)
            return
        if not self.is_sure:
            return
        for number, kept in enumerate(entries):
            what = self._difference(kept)
            if what:
                at = SNAPSHOT_HEADER.size + SNAPSHOT_ENTRY.size * number
                yield damage(path, at, what, _REPLAYED)

    def _difference(self, kept: ProducerSnapshotEntry) -> str:
        """Return how a producer in a snapshot differs from the batches; empty if it does not."""
        known = self._producers.last_entry(kept.producer_id)
        if known is None or kept.last_offset < self._compared_from:
            return ""
        replayed = known.to_snapshot()
        names = ("producer_epoch", "last_sequence", "last_offset", "txn_first_offset")
        for name in names:
            there, here = getattr(kept, name), getattr(replayed, name)
            is_old_txn = name == "txn_first_offset" and 0 <= there < self._compared_from
            if there != here and not is_old_txn:
                return f"producer {kept.producer_id}: {name} is {there}, the batches say {here}"
        return ""


def check_txn_index(
    fs: FileSystem,
    path: str,
    base_offset: int,
    transactions: Transactions,
    checked: Checked,
    *,
    is_compacted: bool,
    is_rebuilt: bool,
) -> Iterator[Finding]:
    """Compare one segment's index with the transactions that were followed to its end.

    ``checked`` is given the number of its entries.
    """
    remedy = REBUILT if is_rebuilt else REBUILD
    expected = {
        (txn.producer_id, txn.last_offset): txn.first_offset
        for txn in transactions.aborted
        if txn.last_offset >= base_offset
    }
    index = TransactionIndex(fs, path, base_offset)
    try:
        index.sanity_check()
        found = index.all_aborted()
    except CorruptIndex as error:
        yield damage(path, 0, str(error), REBUILT)
        return
    except KafkaStorageError as error:
        raise_unanswered(error)
        yield damage(path, None, str(error), READABLE)
        return
    checked.index_entries += len(found)
    for number, txn in enumerate(found):
        key = txn.producer_id, txn.last_offset
        first_offset = expected.pop(key, None)
        name = f"entry {number} (producer {txn.producer_id}, marker {txn.last_offset})"
        at = ABORTED_TXN.size * number
        if key not in transactions.abort_markers:
            yield damage(path, at, f"{name}: no abort marker is there", remedy)
        elif first_offset is not None and txn.first_offset > first_offset:
            what = f"{name} begins at {txn.first_offset}, its transaction at {first_offset}"
            yield damage(path, at, what, remedy)
    if expected and not is_compacted:
        producer_id, last_offset = min(expected)
        what = (
            f"{len(expected)} aborted transactions are missing, as that of producer {producer_id}"
            f" with its marker at {last_offset}: readers of committed records would see them"
        )
        finding = unusual if is_rebuilt else damage
        yield finding(path, None, what, remedy)


class EpochChecks:
    """Compares the leader epochs of batches with those of the checkpoint file."""

    def __init__(
        self, path: str, entries: Sequence[tuple[int, int]], log_start_offset: int
    ) -> None:
        self._path = path
        self._epochs = np.array([epoch for epoch, _ in entries], np.int64)
        self._starts = np.array([start for _, start in entries], np.int64)
        self._log_start_offset = log_start_offset
        self._greatest = -1
        """The greatest epoch of the batches before."""
        self._is_reported = False

    def feed(self, batches: BatchColumns) -> Iterator[Finding]:
        """Take note of the next batches."""
        offsets = np.maximum(batches.base_offset, self._log_start_offset)
        at = np.searchsorted(self._starts, offsets, "right") - 1
        known = self._epochs[at] if len(self._epochs) else np.full(len(at), -1)
        known = np.where(at < 0, -1, known)
        is_other = (batches.leader_epoch >= 0) & (known != batches.leader_epoch)
        is_other &= batches.last_offset >= self._log_start_offset
        found = np.where(batches.last_offset >= self._log_start_offset, batches.leader_epoch, -1)
        before = np.maximum.accumulate(np.concatenate(([self._greatest], found)))
        self._greatest = int(before[-1])
        if not is_other.any() or self._is_reported:
            return
        self._is_reported = True
        index = int(is_other.argmax())
        offset, epoch = int(batches.base_offset[index]), int(batches.leader_epoch[index])
        what = f"the batch at offset {offset} is of epoch {epoch}, here it is {known[index]}"
        if len(self._starts) and offset < self._starts[0]:
            # The file is written before the checkpoint of log starts is.
            first = int(self._starts[0])
            what = f"the epochs begin at offset {first}: the log start has been moved there"
            yield unusual(self._path, None, what)
        elif len(self._epochs) and epoch > self._epochs.max():
            # The next leader's epoch removes all that are higher.
            yield unusual(self._path, None, f"{what}: it comes from another cluster")
        elif epoch < before[index]:
            # No file of epochs can say so, and a recovery would write the same one again.
            what = f"the batch at offset {offset} is of epoch {epoch}, after one of {before[index]}"
            yield damage(self._path, None, what, _FALLING)
        else:
            yield damage(self._path, None, what, "`tidelog recover --full` asks the batches")

    def findings(self, next_offset: int) -> Iterator[Finding]:
        """Yield what is wrong with the file itself, given where the log ends."""
        steps = (np.diff(self._epochs) <= 0) | (np.diff(self._starts) <= 0)
        if (self._epochs < 0).any() or (self._starts < 0).any():
            what = "an epoch or its start offset is negative: the log cannot be loaded"
            yield damage(self._path, None, what, "delete the file and recover the log")
        if steps.any():
            what = "epochs or their start offsets do not rise"
            yield damage(self._path, None, what, "delete the file and recover the log")
        if len(self._starts) and self._starts[-1] > next_offset:
            what = f"an epoch begins at {self._starts[-1]}, but the log ends at {next_offset}"
            yield damage(self._path, None, what, "none needed: opening drops the line")
