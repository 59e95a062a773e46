"""Deletion of a log's files: renamed at once, deleted after a delay.

Readers may still need their names. Kafka: ``LocalLog.deleteSegmentFiles`` and
``UnifiedLog.deleteProducerSnapshots``.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.segment.filenames import DELETED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.log.context import LogContext
    from tidelog.log.producers.snapshot_files import SnapshotFiles
    from tidelog.segment.segment import LogSegment

_log = logging.getLogger(__name__)


def delete_segment_files(
    context: LogContext, segments: Iterable[LogSegment], reason: str, *, immediately: bool = False
) -> None:
    """Rename the files of ``segments`` to ``.deleted`` and delete them after the topic's delay.

    The segments are out of the log's set already. Slices of them that are in use stay readable.
    With ``immediately`` they are deleted before this returns. A log that is closed meanwhile
    closes their files too, as the task may never run.
    """
    doomed = list(segments)
    context.leaving.update(doomed)
    for segment in doomed:
        _log.info(
            "segment-deleted directory=%s base_offset=%d size_bytes=%d reason=%s",
            *(context.directory, segment.base_offset, segment.size_bytes, reason),
        )
        if not segment.has_suffix(DELETED_SUFFIX):
            segment.change_suffix("", DELETED_SUFFIX)

    def delete() -> None:
        with context.guard.watch("deleting segments"):
            for segment in doomed:
                segment.delete()
                context.leaving.discard(segment)

    if not doomed:
        return
    if immediately:
        delete()
    else:
        delay_ms = context.config.file_delete_delay_ms
        context.scheduler.schedule("delete-file", delete, delay_ms=delay_ms)


def delete_snapshots(
    context: LogContext,
    snapshots: SnapshotFiles,
    offsets: Iterable[int],
    *,
    immediately: bool = False,
) -> None:
    """Rename the snapshots at ``offsets`` to ``.deleted`` and delete them after the delay."""
    if immediately:
        for offset in offsets:
            snapshots.delete(offset)
        return
    doomed = [path for offset in offsets if (path := snapshots.mark_deleted(offset))]

    def delete() -> None:
        with context.guard.watch("deleting producer snapshots"):
            for path in doomed:
                with suppress(FileNotFoundError):
                    context.fs.delete(path)

    if doomed:
        delay_ms = context.config.file_delete_delay_ms
        context.scheduler.schedule("delete-producer-snapshot", delete, delay_ms=delay_ms)
