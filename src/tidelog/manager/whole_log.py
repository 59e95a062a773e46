"""Reads of a log by its owner, which continue in the archive where the log begins in one.

Kafka: ``ReplicaManager.processRemoteFetches``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.errors import OffsetOutOfRange
from tidelog.log.reading.log_reads import each_record
from tidelog.log.reading.record_count import total_count
from tidelog.readonly.missing.holes import surely_lost, unexplained_holes
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.records.builder import gap_batch
from tidelog.records.decoding.decoded import decoded
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.log.reading.log_reads import OnHole
    from tidelog.log.reading.offset_lookup import TimestampedOffset
    from tidelog.log.reading.record_count import RecordCount
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition
    from tidelog.readonly.missing.holes import Hole
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.record import Record


def columns_from(
    log: Log,
    start_offset: int | None,
    isolation: Isolation,
    fs: FileSystem,
    on_hole: OnHole,
) -> Iterator[RecordColumns]:
    """Yield the records of a log from ``start_offset`` on, many at a time; None: the log start.

    ``on_hole`` is called as by ``Log.columns``. Errors as ``Log.read``, and as ``open_read_only``
    for what is read from the archive.
    """
    if log.archived is None:
        return log.columns(start_offset, isolation=isolation, on_hole=on_hole)
    return _columns_of_both(log, start_offset, isolation, fs, on_hole)


def _columns_of_both(
    log: Log, start_offset: int | None, isolation: Isolation, fs: FileSystem, on_hole: OnHole
) -> Iterator[RecordColumns]:
    at = log.log_start_offset if start_offset is None else start_offset
    while True:
        local = log.local_log_start_offset
        if log.log_start_offset <= at < local:
            yield from _archived_columns(log, (at, local), isolation, fs, on_hole)
            at = local
        try:
            for columns in log.columns(at, isolation=isolation, on_hole=on_hole):
                yield columns
                at = columns.batches.next_offset
        except OffsetOutOfRange:
            if not log.log_start_offset <= at < log.local_log_start_offset:
                raise
            continue  # meanwhile retention has deleted it on the disk
        return


def _archived_columns(
    log: Log, offsets: tuple[int, int], isolation: Isolation, fs: FileSystem, on_hole: OnHole
) -> Iterator[RecordColumns]:
    """Yield the records of offsets ``[start, end)``, which the archive has.

    Segment by segment: to know what was aborted in all of them, all would be fetched before the
    first record is given.
    """
    start, end = offsets
    is_committed = isolation is Isolation.READ_COMMITTED
    with open_read_only(log.directory, fs=fs) as whole:
        while start < end:
            until, pieces = whole.near_pieces(start, end, INT64_MAX, committed=is_committed)
            for piece in pieces:
                yield from decoded(piece, start, until, -INT64_MAX)
            start = until
        for hole in whole.holes:
            on_hole(hole)


def archived_batches(
    log: Log, start_offset: int, max_bytes: int, isolation: Isolation, fs: FileSystem
) -> bytes:
    """Return whole batches from the archive, from ``start_offset`` on, the first whatever its size.

    They are as a fetch has them; with READ_COMMITTED those of aborted transactions are left out. An
    empty batch stands for a range of which nothing is left, so that a reader gets beyond it. Errors
    as ``open_read_only``.
    """
    is_committed = isolation is Isolation.READ_COMMITTED
    end = log.local_log_start_offset
    parts: list[bytes] = []
    left = max_bytes
    with open_read_only(log.directory, fs=fs) as whole:
        # The whole rest would be fetched for each of the many fetches of a client.
        end, pieces = whole.near_pieces(start_offset, end, max_bytes, committed=is_committed)
        for piece in pieces:
            batches = piece.batches_in_data
            for position, size in zip(
                batches.position.tolist(), batches.size.tolist(), strict=True
            ):
                if parts and size > left:
                    return b"".join(parts)
                parts.append(piece.data[position : position + size].tobytes())
                left -= size
            if left <= 0:
                break
    return b"".join(parts) or gap_batch(start_offset, min(end, start_offset + INT32_MAX))


def lost_of(
    manager: LogManager, partition: Partition, holes: Sequence[tuple[int, int]]
) -> list[Hole]:
    """Return the holes that compaction cannot have left; errors as of ``unexplained_holes``."""
    if not holes:
        return []
    log, key = partition.log, TopicPartition(partition.topic, partition.partition)
    topic = manager.topic(partition.topic)
    found = unexplained_holes(
        *(holes, key, os.path.dirname(log.directory), manager.machine.fs),
        is_compacted=log.config.is_compacted,
        unknown_settings=topic.unknown_settings,
    )
    return surely_lost(found)


def records_from(
    log: Log, start_offset: int, isolation: Isolation, fs: FileSystem, on_hole: OnHole
) -> Iterator[Record]:
    """Yield what ``columns_from`` yields, record by record."""
    return each_record(columns_from(log, start_offset, isolation, fs, on_hole))


def offset_at(log: Log, timestamp: int, fs: FileSystem) -> TimestampedOffset | None:
    """Return the first record with this timestamp in ms or a later one; None if there is none."""
    local = log.local_log_start_offset
    if log.log_start_offset < local:
        with open_read_only(log.directory, fs=fs) as whole:
            found = whole.offset_at(timestamp, local)
        if found is not None:
            return found
    return log.fetch_offset_by_timestamp(timestamp)


def count_records(
    log: Log, start_offset: int | None, end_offset: int | None, fs: FileSystem
) -> RecordCount:
    """Count what offsets hold; arguments and errors as ``Log.count_records``."""
    local = log.local_log_start_offset
    start = log.log_start_offset if start_offset is None else start_offset
    end = log.high_watermark if end_offset is None else end_offset
    if not log.log_start_offset <= start < local or end < start:
        return log.count_records(start, end)
    with open_read_only(log.directory, fs=fs) as whole:
        archived = whole.count_records(start, min(end, local))
    if end <= local:
        return archived
    return total_count([archived, log.count_records(local, end)])
