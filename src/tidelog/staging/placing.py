"""Putting the moves of a journal into one log, and finding out how far an earlier try came.

The log is compared with the batches as they are to be, byte by byte: nothing is appended twice, and
nothing is taken for appended that is not there.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.layout import byte_view
from tidelog.errors import KafkaStorageError
from tidelog.kernels import rows
from tidelog.records.file_records import PIECE_BYTES
from tidelog.records.isolation import Isolation
from tidelog.records.memory import walk
from tidelog.staging.staged_run import placed_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.staging.journal import Journal, Move


class Found(NamedTuple):
    """What a log holds of a move: its first batches, and the records in them.

    ``is_whole``: there is nothing left to place. ``is_at_end``: the log ends behind what it holds.
    """

    batches: int
    records: int
    is_whole: bool
    is_at_end: bool


class NewPlaces(NamedTuple):
    """The moves of a partition that are left, from the log's end on.

    Others have written behind what is there of them, or a newer leader epoch has begun. The journal
    must name the new places, durably, before anything is written there.
    """

    moves: list[Move]


def place_moves(
    fs: FileSystem, data_dir: str, log: Log, journal: Journal, moves: Sequence[Move]
) -> NewPlaces | None:
    """Append what is missing of the moves of one partition; its last segment is not made durable.

    Returns None once all are in the log. A crash leaves a prefix of the batches, never a gap.

    Raises:
        KafkaStorageError: the disk is full or failed, or what the log holds does not show how far
            an earlier try came.
    """
    log.flush_records()
    for number, move in enumerate(moves):
        found = find_move(fs, data_dir, log, journal, move)
        if found.is_whole:
            continue
        is_epoch_newer = (log.latest_epoch or 0) > move.leader_epoch
        if not found.is_at_end or is_epoch_newer:
            return NewPlaces(_from_log_end(log, found, move, moves[number + 1 :]))
        rest = journal.placement(_rest_of(move, found))
        piece_bytes = min(log.config.segment_size_bytes, PIECE_BYTES)
        with closing(placed_batches(fs, data_dir, move.run, rest, piece_bytes)) as pieces:
            for data, _ in pieces:
                log.append_as_follower(data, move.leader_epoch, flushes_before_roll=True)
    return None


def _rest_of(move: Move, found: Found) -> Move:
    """Return the part of a move that is not in the log."""
    return replace(
        move,
        base_offset=move.base_offset + found.records,
        first_batch=move.first_batch + found.batches,
        records=move.records - found.records,
    )


def _from_log_end(log: Log, found: Found, move: Move, later: Sequence[Move]) -> list[Move]:
    offset, epoch = log.log_end_offset, log.latest_epoch or 0
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
    if log.log_start_offset > base:
        raise _unclear(log, f"starts at {log.log_start_offset}, above offset {base}", journal)
    if end < base:
        raise _unclear(log, f"ends at {end}, below offset {base}", journal)
    if end == base:
        return Found(0, 0, is_whole=False, is_at_end=True)
    placement = journal.placement(move)
    with closing(placed_batches(fs, data_dir, move.run, placement)) as pieces:
        return _compare(log, journal, base, _single_batches(pieces))


def _compare(log: Log, journal: Journal, base: int, wanted: Iterator[bytes]) -> Found:
    batches = records = 0
    offset, is_same, want = base, True, next(wanted)
    for row, data in _log_batches(log, base):
        span = row[rows.LAST_OFFSET] - row[rows.BASE_OFFSET] + 1
        if row[rows.BASE_OFFSET] != offset or row[rows.RECORDS_COUNT] != span:
            raise _unclear(log, f"lacks records from offset {offset} on", journal)
        offset += span
        if is_same and data == want:
            batches, records = batches + 1, records + span
            following = next(wanted, None)
            if following is None:
                return Found(batches, records, is_whole=True, is_at_end=False)
            want = following
        else:
            is_same = False
    if offset != log.log_end_offset:
        raise _unclear(log, f"lacks records from offset {offset} on", journal)
    return Found(batches, records, is_whole=False, is_at_end=is_same)


def _unclear(log: Log, what: str, journal: Journal) -> KafkaStorageError:
    return KafkaStorageError(
        f"{log.directory} {what}, where transaction {journal.txn!r} was to be written: it cannot be"
        " said which of its records are there; the rest is given up by: tidelog staged drop"
    )


def _single_batches(pieces: Iterator[tuple[bytearray, object]]) -> Iterator[bytes]:
    for data, _ in pieces:
        yield from (batch for _, batch in _split(data))


def _log_batches(log: Log, start_offset: int) -> Iterator[tuple[list[int], bytes]]:
    """Yield header and bytes of each batch of a log from an offset on, up to its end."""
    offset = start_offset
    while offset < log.log_end_offset:
        with log.read(offset, PIECE_BYTES, isolation=Isolation.LOG_END) as found:
            data = found.read()
        first = offset
        for row, batch in _split(data):
            yield row, batch
            offset = row[rows.LAST_OFFSET] + 1
        if offset == first:
            return


def _split(data: bytes | bytearray) -> Iterator[tuple[list[int], bytes]]:
    view, columns = byte_view(data), walk(data).batches
    for number in range(len(columns)):
        row = columns.row(number)
        start = row[rows.POSITION]
        yield row, bytes(view[start : start + row[rows.SIZE]])
