"""Deletion of a log's files: renamed at once, deleted after a delay.

Readers may still need their names. Kafka: ``LocalLog.deleteSegmentFiles`` and
``UnifiedLog.deleteProducerSnapshots``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import PASSING
from tidelog.segment.filenames import DELETED_SUFFIX
from tidelog.segment.segment_files import delete_moved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.log.context import LogContext
    from tidelog.log.producers.snapshot_files import SnapshotFiles
    from tidelog.segment.segment import LogSegment

_ATTEMPTS: Final = 10
"""How often the deletion of renamed files is repeated; the next start deletes what is left."""

_log = logging.getLogger(__name__)


def rename_to_deleted(context: LogContext, segment: LogSegment, reason: str) -> None:
    """Rename the files of a segment to ``.deleted``, unless they are; all or, on OSError, none."""
    if not segment.has_suffix(DELETED_SUFFIX):
        segment.change_suffix("", DELETED_SUFFIX)
    _log.info(
        "segment-deleted directory=%s base_offset=%d size_bytes=%d reason=%s",
        *(context.directory, segment.base_offset, segment.size_bytes, reason),
    )


def delete_renamed(
    context: LogContext,
    segments: Iterable[LogSegment],
    *,
    attempts: int = _ATTEMPTS,
) -> None:
    """Delete the files of segments that are renamed, and no longer in the log, after a delay.

    Slices of them that are in use stay readable. A log that is closed meanwhile closes their files,
    too, as the task may never run.
    """
    left = list(segments)
    context.leaving.update(left)

    def delete_or_retry() -> None:
        try:
            with context.guard.watch("deleting segments"):
                while left:
                    left[0].delete()
                    context.leaving.discard(left.pop(0))
        except KafkaStorageError as error:
            if attempts == 0 or context.guard.is_offline:
                raise
            _log.warning("deletion-put-off directory=%s reason=%s", context.directory, error)
            delete_renamed(context, left, attempts=attempts - 1)

    if left:
        delay_ms = context.config.file_delete_delay_ms
        context.scheduler.schedule("delete-file", delete_or_retry, delay_ms=delay_ms)


def delete_snapshots(
    context: LogContext,
    snapshots: SnapshotFiles,
    offsets: Iterable[int],
) -> None:
    """Rename the snapshots at ``offsets`` to ``.deleted`` and delete them after the delay.

    One that cannot be renamed now is renamed with the next ones: it does no harm until then.
    """
    renamed = []
    for offset in sorted({*offsets, *snapshots.undeleted}):
        try:
            path = snapshots.mark_deleted(offset)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            _log.warning("snapshot-not-deleted path=%s reason=%s", snapshots.path(offset), error)
            snapshots.undeleted.add(offset)
            continue
        snapshots.undeleted.discard(offset)
        if path is not None:
            renamed.append(os.path.basename(path))

    def delete() -> None:
        with context.guard.watch("deleting producer snapshots"):
            for name in renamed:  # the log's directory may have been renamed meanwhile, and now
                path = context.path(name)
                if not delete_if_there(context.fs, path):
                    delete_moved(context.fs, path)

    if renamed:
        delay_ms = context.config.file_delete_delay_ms
        context.scheduler.schedule("delete-producer-snapshot", delete, delay_ms=delay_ms)
