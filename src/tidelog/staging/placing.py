"""Putting the moves of a journal into one log, and finding out how far an earlier try came.

The log is compared with the batches as they are to be, byte by byte: nothing is appended twice, and
nothing is taken for appended that is not there.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.layout import byte_view
from tidelog.errors import KafkaStorageError
from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.records.array_rows import every
from tidelog.records.batch import INT32_MAX
from tidelog.records.file_records import PIECE_BYTES
from tidelog.records.isolation import Isolation
from tidelog.records.memory import walk
from tidelog.staging.adopting import adopt_run
from tidelog.staging.staged_run import placed_batches, update_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.staging.journal import Journal, Move


class Found(NamedTuple):
    """What a log holds of a move: its first batches, the records in them, and the offset after.

    ``is_whole``: there is nothing left to place. ``is_at_end``: the log ends after what it holds.
    """

    batches: int
    records: int
    next_offset: int
    is_whole: bool
    is_at_end: bool


class NewPlaces(NamedTuple):
    """The moves of a partition that are left, from the log's end on.

    Others have written after what is there of them, or a newer leader epoch has begun. The journal
    must name the new places, durably, before anything is written there.
    """

    moves: list[Move]


def place_moves(
    fs: FileSystem,
    data_dir: str,
    log: Log,
    journal: Journal,
    moves: Sequence[Move],
    *,
    on_placed: Callable[[int], None] = lambda _: None,
) -> NewPlaces | None:
    """Append or adopt what is missing of the moves of one partition.

    What is appended to its last segment is not made durable. ``on_placed`` is called with the bytes
    of each piece that is in the log.

    Returns None once all are in the log. A crash leaves a prefix of the batches, never a gap.

    Raises:
        KafkaStorageError: the disk is full or failed, or what the log holds does not show how far
            an earlier try came.
    """
    log.flush_records()
    for number, move in enumerate(moves):
        found = find_move(fs, data_dir, log, journal, move)
        if found.is_whole:
            on_placed(move.run.size_bytes)
            continue
        is_epoch_newer = (log.latest_epoch or 0) > move.leader_epoch
        if not found.is_at_end or is_epoch_newer:
            if move.run.keeps_offsets:
                offset = found.next_offset
                raise _unclear(log, f"has other records or epochs from {offset} on", journal)
            return NewPlaces(_from_log_end(log, found, move, moves[number + 1 :]))
        _place(fs, data_dir, log, journal, _rest_of(move, found), on_placed=on_placed)
    return None


def _place(
    fs: FileSystem,
    data_dir: str,
    log: Log,
    journal: Journal,
    move: Move,
    *,
    on_placed: Callable[[int], None],
) -> None:
    """Append a move at the log's end, or adopt its file."""
    placement = journal.placement(move)
    # The log may have been moved to another disk since, to which no file can be renamed. And the
    # gaps of a copy may be too large for one segment.
    is_near = log.data_dir == data_dir
    base_offset = min(log.segments.active.base_offset, log.log_end_offset)
    fits = move.end_offset - base_offset <= INT32_MAX
    if move.is_adopted and is_near and fits:
        adopt_run(fs, data_dir, log, move.run, placement)
        on_placed(move.run.size_bytes)
        return
    piece_bytes = min(log.config.segment_size_bytes, PIECE_BYTES)
    with closing(placed_batches(fs, data_dir, move.run, placement, piece_bytes)) as pieces:
        for data, _ in pieces:
            log.append_as_follower(data, move.leader_epoch, flushes_before_roll=True)
            on_placed(len(data))


def _rest_of(move: Move, found: Found) -> Move:
    """Return the part of a move that is not in the log."""
    return replace(
        move,
        base_offset=found.next_offset,
        first_batch=move.first_batch + found.batches,
        records=move.records - found.records,
        is_adopted=move.is_adopted and not found.batches,
    )


def _from_log_end(log: Log, found: Found, move: Move, later: Sequence[Move]) -> list[Move]:
    offset, epoch = log.log_end_offset, log.leader_epoch
    placed = []
    for one in (_rest_of(move, found), *later):
        placed.append(replace(one, base_offset=offset, leader_epoch=epoch))
        offset += one.records
    return placed


def find_move(fs: FileSystem, data_dir: str, log: Log, journal: Journal, move: Move) -> Found:
    """Compare a log, from the base offset of a move on, with the batches of the move.

    Raises KafkaStorageError if the log lacks records below that offset, or if records from there on
    have been deleted or compacted: what is missing may have been the move's.
    """
    base, end = move.base_offset, log.log_end_offset
    if log.local_log_start_offset > base:
        raise _unclear(log, f"starts at {log.local_log_start_offset}, above offset {base}", journal)
    if end < base and not move.run.keeps_offsets:
        raise _unclear(log, f"ends at {end}, below offset {base}", journal)
    if end <= base:
        return Found(0, 0, base, is_whole=False, is_at_end=True)
    if move.is_adopted and not fs.exists(os.path.join(data_dir, move.run.name)):
        return _find_adopted(log, journal, move)
    placement = journal.placement(move)
    with closing(placed_batches(fs, data_dir, move.run, placement)) as pieces:
        return _compare(log, journal, move, (batch for _, batch in _single_batches(pieces)))


def _find_adopted(log: Log, journal: Journal, move: Move) -> Found:
    """Compare a log with a file that is gone from where it was staged: it must have been adopted.

    The digest and the CRCs stand for the bytes; offsets and epochs, which they leave out, are
    compared too.
    """
    run, offset, batches = move.run, move.base_offset, 0
    digest = hashlib.blake2b(digest_size=16)
    for data, columns in _log_pieces(log, offset, check_crc=True):
        held = columns.select(columns.base_offset < move.end_offset)
        if not len(held):
            break
        update_digest(digest, data[: held.next_position], held, keeps_offsets=run.keeps_offsets)
        follows = np.concatenate(([offset], held.last_offset[:-1] + 1))
        is_placed = (held.base_offset == follows) & (held.leader_epoch == move.leader_epoch)
        if not (run.keeps_offsets or every(is_placed)):
            break
        batches, offset = batches + len(held), held.next_offset
    if offset != move.end_offset or digest.hexdigest() != run.digest:
        what = f"does not hold the file {run.name}, which is gone, from {move.base_offset} on"
        raise _unclear(log, what, journal)
    return Found(batches, move.records, offset, is_whole=True, is_at_end=False)


def _compare(log: Log, journal: Journal, move: Move, wanted: Iterator[bytes]) -> Found:
    batches = records = 0
    offset = next_offset = move.base_offset
    is_same, want = True, next(wanted)
    for row, data in _single_batches(_log_pieces(log, offset)):
        span = row[rows.LAST_OFFSET] - row[rows.BASE_OFFSET] + 1
        is_whole = row[rows.BASE_OFFSET] == offset and row[rows.RECORDS_COUNT] == span
        if not (is_whole or move.run.keeps_offsets):
            raise _unclear(log, f"lacks records from offset {offset} on", journal)
        offset = row[rows.LAST_OFFSET] + 1
        if is_same and data == want:
            batches, records, next_offset = batches + 1, records + row[rows.RECORDS_COUNT], offset
            following = next(wanted, None)
            if following is None:
                return Found(batches, records, offset, is_whole=True, is_at_end=False)
            want = following
        else:
            is_same = False
    if offset != log.log_end_offset:
        raise _unclear(log, f"lacks records from offset {offset} on", journal)
    return Found(batches, records, next_offset, is_whole=False, is_at_end=is_same)


def _unclear(log: Log, what: str, journal: Journal) -> KafkaStorageError:
    return KafkaStorageError(
        f"{log.directory} {what}, where transaction {journal.txn!r} was to be written: which of its"
        " records are there is not known. Read them with tidelog cat, then give up the rest with:"
        f" tidelog staged drop {shlex.quote(journal.txn)}"
    )


def _log_pieces(
    log: Log, start_offset: int, *, check_crc: bool = False
) -> Iterator[tuple[bytes, BatchColumns]]:
    """Yield the batches of a log from an offset on, some at a time, up to its end or bad CRC."""
    offset = start_offset
    while offset < log.log_end_offset:
        with log.read(offset, PIECE_BYTES, isolation=Isolation.LOG_END) as found:
            data = found.read()
        columns = walk(data, check_crc=check_crc).batches
        if not len(columns):
            return
        yield data, columns
        offset = columns.next_offset


def _single_batches(
    pieces: Iterator[tuple[bytes | bytearray, BatchColumns]],
) -> Iterator[tuple[list[int], bytes]]:
    """Yield header and bytes of each batch."""
    for data, columns in pieces:
        view = byte_view(data)
        for number in range(len(columns)):
            row = columns.row(number)
            start = row[rows.POSITION]
            yield row, bytes(view[start : start + row[rows.SIZE]])
