"""Staged files that a log adopts as they are: which ones, and what is written into them before.

Only base offsets and leader epochs are written, 12 bytes of each batch that its checksum leaves
out, so that the records of a large transaction are written once.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.errors import KafkaStorageError
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.file_records import FileRecords
from tidelog.records.validation.stamp import stamp_offsets
from tidelog.staging.staged_file import open_staged
from tidelog.staging.staged_run import update_digest

if TYPE_CHECKING:
    from collections.abc import Generator

    from tidelog.config.log_config import LogConfig
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.log.log import Log
    from tidelog.records.array_rows import Bytes
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece
    from tidelog.staging.staged_run import Placement, StagedRun

_PATCHED_BYTES: Final = BATCH_HEADER.offsets["magic"]

_SHARE_ADOPTED: Final = 8
"""Files are adopted where a transaction brings a partition this share of ``segment.bytes``: less
would make a small segment of a log that may get many of them."""
_ADOPTED_BYTES: Final = 16 << 20
"""A part of that is adopted from this size on: copying less takes no longer than the syncs of an
adoption."""


def adopted_from(segment_bytes: int) -> int:
    """Return the smallest size in bytes of a file that may become a segment."""
    return min(-(-segment_bytes // _SHARE_ADOPTED), _ADOPTED_BYTES)


def is_adoptable(
    fs: FileSystem, data_dir: str, run: StagedRun, config: LogConfig, partition_bytes: int
) -> bool:
    """Return whether a run may become a segment: it fills its file, and the file suits the topic.

    ``partition_bytes`` are those of all runs of its transaction for its partition. Records that get
    the time of the commit are appended, as their checksums change.
    """
    limit = config.segment_size_bytes
    is_stamped = config.is_stamped and not run.keeps_offsets
    if is_stamped or run.position or partition_bytes * _SHARE_ADOPTED < limit:
        return False
    if not adopted_from(limit) <= run.size_bytes <= limit:
        return False
    return fs.stat(os.path.join(data_dir, run.name)).size_bytes == run.size_bytes


def adopt_run(
    fs: FileSystem, data_dir: str, log: Log, run: StagedRun, placement: Placement
) -> None:
    """Move the file of a run into the log, as its active segment; all is durable on return.

    Raises KafkaStorageError if the file is missing or damaged; and as ``Log.adopt_segment``.
    """
    path = os.path.join(data_dir, run.name)
    file = open_staged(fs, path, "r+")
    with closing(file), closing(_patched_pieces(file, run, placement)) as pieces:
        log.adopt_segment(path, pieces)


def _patched_pieces(
    file: OpenFile, run: StagedRun, placement: Placement
) -> Generator[tuple[Bytes, BatchColumns], None, None]:
    """Yield all batches of a file as they are to be, which they are, durably, at the end.

    A second call after a crash finds some batches patched, or torn in the 12 bytes: all of them are
    written again where they differ. KafkaStorageError if the rest is not what was staged.
    """
    digest = hashlib.blake2b(digest_size=16)
    next_offset = placement.base_offset
    content = FileRecords(file)
    for piece in content.pieces(check_crc=True):
        batches = piece.batches_in_data
        update_digest(
            digest, piece.data[: batches.next_position], batches, keeps_offsets=run.keeps_offsets
        )
        if not run.keeps_offsets:
            next_offset = _patch(file, piece, batches, next_offset, placement.leader_epoch)
        yield piece.data, batches
    if (content.next_position, content.end, digest.hexdigest()) != (run.end, run.end, run.digest):
        raise KafkaStorageError(f"staged file {file.path} is damaged at {content.next_position}")
    if not run.keeps_offsets:
        # The offsets are in before the file is moved into the log, where nothing writes them again.
        file.sync()


def _patch(
    file: OpenFile, piece: Piece, batches: BatchColumns, next_offset: int, leader_epoch: int
) -> int:
    """Give batches their offsets and epoch, in memory and in the file; return the next offset."""
    before = batches.base_offset.copy(), batches.leader_epoch.copy()
    after = stamp_offsets(piece.data, batches, next_offset, leader_epoch)
    differs = (batches.base_offset != before[0]) | (batches.leader_epoch != before[1])
    data = byte_view(piece.data)
    for start in batches.position[differs].tolist():
        # Base offset, length, which stays, and leader epoch.
        prefix = data[start : start + _PATCHED_BYTES]
        file.pwrite(prefix, piece.data_position + start)
    return after
