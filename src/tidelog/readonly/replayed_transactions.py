"""The transactions of a log that is only read.

They come from the newest usable snapshot of producers and the batches after it; an unreadable
snapshot is passed over. Kafka replays likewise when it loads a log, and deletes such a snapshot.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import OrMinus1, TimeOrMinus1, TransactionalId
from tidelog.errors import (
    CorruptMessage,
    CorruptSnapshot,
    InvalidRecord,
    KafkaStorageError,
)
from tidelog.kernels import rows
from tidelog.log.producers.producer_snapshot import read_snapshot
from tidelog.log.producers.reader_transactions import Transactions
from tidelog.log.reading.committed import AbortedTransaction
from tidelog.readonly.held_files import outdated_if_gone
from tidelog.readonly.partition_files import overlapping
from tidelog.records.batch import INT64_MAX
from tidelog.segment.filenames import (
    producer_snapshot_file,
    snapshot_offsets,
    transaction_index_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidelog.env.files import FileSystem
    from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
    from tidelog.log.producers.reader_transactions import DecidedTransaction
    from tidelog.readonly.log_snapshot import LogSnapshot
    from tidelog.records.file_records import Piece


class ReplayedTransactions(NamedTuple):
    """What is known of transactions; batches from ``end_offset`` on were not read.

    ``damage`` is what stopped the replay before the offset it was to reach.
    """

    transactions: Transactions
    end_offset: int
    damage: CorruptMessage | None = None

    @property
    def last_stable_offset(self) -> int:
        """End (exclusive) of what is decided."""
        return self.transactions.last_stable_offset(self.end_offset)


class OpenTransaction(NamedTuple):
    """An open transaction.

    What is not known is so because the batch that began it is not in the log any more. The
    transactional id is none of what a log knows.
    """

    producer_id: Annotated[OrMinus1, "Its producer."]
    producer_epoch: Annotated[OrMinus1, "Epoch of the producer; -1: not known."]
    first_offset: Annotated[int, "Offset of its first record."]
    first_timestamp: Annotated[TimeOrMinus1, "Timestamp of its first record; -1: not known."]
    transactional_id: TransactionalId = None


class LogTransactions(NamedTuple):
    """The transactions of a log; ``damage`` is what kept later ones from being read.

    ``open`` are in order of their first offsets, ``aborted`` in that of their markers.
    """

    open: tuple[OpenTransaction, ...]
    aborted: tuple[DecidedTransaction, ...]
    damage: CorruptMessage | None


def begun(
    open_offsets: Mapping[int, int], pieces: Callable[[int, int], Iterator[Piece]]
) -> tuple[OpenTransaction, ...]:
    """Return the open transactions, given their first offsets by producer.

    ``pieces`` gives those of a range of offsets. Raises CorruptMessage, KafkaStorageError.
    """
    found = []
    for producer_id, first in sorted(open_offsets.items(), key=lambda item: item[1]):
        epoch = timestamp = -1
        for piece in pieces(first, first + 1):
            row = piece.batches.row(0)
            if row[rows.PRODUCER_ID] == producer_id and row[rows.BASE_OFFSET] == first:
                epoch, timestamp = row[rows.PRODUCER_EPOCH], row[rows.BASE_TIMESTAMP]
            break
        found.append(OpenTransaction(producer_id, epoch, first, timestamp))
    return tuple(found)


def indexed_aborted(
    snapshot: LogSnapshot, start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in ``[start, end)``, as the indexes have them.

    No batch is read. A marker in ``[start, end)``, or after it, belongs to each. Raises
    SnapshotOutdated, and CorruptIndex for an index that cannot be read.
    """
    # With it comes NumPy, and those that look for the end of a log need neither.
    from tidelog.segment.txn_index import TransactionIndex, collect_aborted

    with outdated_if_gone(f"an index of {snapshot.directory}"):
        # Of one listing: an index that is neither on the disk nor in its archive at that time is
        # none, and one that has moved since is not taken for none.
        names = frozenset(snapshot.fs.list(snapshot.directory))
        indexes = [
            TransactionIndex(snapshot.fs, path, segment.base_offset, exists=True)
            for segment in overlapping(snapshot.segments, start_offset, INT64_MAX)
            for path in [transaction_index_file(segment.directory, segment.base_offset)]
            if os.path.basename(path) in names
        ]
        found = collect_aborted(indexes, start_offset, end_offset)
    return [AbortedTransaction(one.producer_id, one.first_offset) for one in found]


class Snapshot(NamedTuple):
    """Producers as they were before ``offset``."""

    offset: int
    entries: list[ProducerSnapshotEntry]


def newest_snapshot(
    fs: FileSystem, directory: str, above_offset: int, last_offset: int
) -> Snapshot | None:
    """Return the newest readable snapshot in ``(above_offset, last_offset]``, if there is one.

    Those at or below the log start are left out, as Kafka deletes them when it loads the log.
    """
    try:
        names = fs.list(directory)
    except FileNotFoundError:
        raise KafkaStorageError(f"{directory} was deleted while it was read") from None
    for offset in sorted(snapshot_offsets(names), reverse=True):
        if above_offset < offset <= last_offset:
            with suppress(CorruptSnapshot, FileNotFoundError):
                return Snapshot(
                    offset, read_snapshot(fs, producer_snapshot_file(directory, offset))
                )
    return None


def replay_transactions(
    known: Snapshot,
    end_offset: int,
    pieces: Callable[[int, int], Iterator[Piece]],
    *,
    until_decided: int | None = None,
) -> ReplayedTransactions:
    """Follow the batches from a snapshot on up to ``end_offset`` (exclusive).

    ``pieces`` gives those of a range of offsets. Damage ends the replay: what was open there stays
    undecided. So does, with ``until_decided``, the place from which on all transactions are decided
    that have records below that offset.
    """
    transactions = Transactions(known.entries)
    reached = known.offset
    try:
        for piece in pieces(known.offset, end_offset) if known.offset < end_offset else ():
            transactions.follow(piece)
            reached = piece.batches.next_offset
            stable_offset = transactions.last_stable_offset(reached)
            if until_decided is not None and stable_offset >= until_decided:
                return ReplayedTransactions(transactions, min(reached, end_offset))
    except (CorruptMessage, InvalidRecord) as error:
        damage = CorruptMessage(error.reason, error.position, error.path)
        return ReplayedTransactions(transactions, min(reached, end_offset), damage)
    return ReplayedTransactions(transactions, end_offset)
