"""Which transaction indexes of a log opening would rebuild with other entries.

A plan of a cleaning reads these indexes as they are. After a power cut one may lack entries, or be
unreadable; opening the log then rebuilds it, and the cleaning drops other records than the plan.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.datadir.lock_file import has_writer
from tidelog.datadir.metadata_files import CLEAN_SHUTDOWN_FILE
from tidelog.errors import CorruptIndex, KafkaStorageError
from tidelog.records.isolation import ReadUpTo
from tidelog.segment.filenames import transaction_index_file
from tidelog.segment.txn_index import TransactionIndex

if TYPE_CHECKING:
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_segment import ReadOnlySegment


def unmatched_txn_indexes(log: ReadOnlyLog, recovery_point: int) -> list[str]:
    """Return the names of transaction indexes that lack aborted transactions of their segments.

    Only segments that opening would recover are looked at: after a clean shutdown, or beside a
    writer, none is. Raises KafkaStorageError.
    """
    data_dir = os.path.dirname(log.directory)
    if log.fs.exists(os.path.join(data_dir, CLEAN_SHUTDOWN_FILE)) or has_writer(data_dir):
        return []
    recovered = [(segment, end) for segment, end in log.bounded_segments if end > recovery_point]
    if not recovered:
        return []
    aborted = log.transactions(ReadUpTo.LOG_END).aborted
    markers = {(one.producer_id, one.last_offset) for one in aborted}
    return [
        os.path.basename(_path(log, segment))
        for segment, end in recovered
        if not {one for one in markers if segment.base_offset <= one[1] < end}
        <= _entries(log, segment)
    ]


def _entries(log: ReadOnlyLog, segment: ReadOnlySegment) -> set[tuple[int, int]]:
    """Return producer and marker of each entry; none of an index that cannot be read."""
    index = TransactionIndex(log.fs, _path(log, segment), segment.base_offset)
    try:
        return {(one.producer_id, one.last_offset) for one in index.all_aborted()}
    except (CorruptIndex, KafkaStorageError):
        return set()


def _path(log: ReadOnlyLog, segment: ReadOnlySegment) -> str:
    return transaction_index_file(log.directory, segment.base_offset, segment.suffix)
