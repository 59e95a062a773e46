"""Deletion of a log's files: renamed at once, deleted after a delay.

Readers may still need their names. Kafka: ``LocalLog.deleteSegmentFiles`` and
``UnifiedLog.deleteProducerSnapshots``.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import PASSING
from tidelog.segment.filenames import DELETED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.log.context import LogContext
    from tidelog.log.producers.snapshot_files import SnapshotFiles
    from tidelog.segment.segment import LogSegment

_ATTEMPTS: Final = 10
"""How often the deletion of renamed files is repeated; the next start deletes what is left."""

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
        rename_to_deleted(context, segment, reason)
    delete_renamed(context, doomed, immediately=immediately)


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
    immediately: bool = False,
    attempts: int = _ATTEMPTS,
) -> None:
    """Delete the files of segments that are renamed, after the topic's delay; see above."""
    left = list(segments)
    context.leaving.update(left)

    def delete() -> None:
        with context.guard.watch("deleting segments"):
            while left:
                left[0].delete()
                context.leaving.discard(left.pop(0))

    def delete_or_retry() -> None:
        try:
            delete()
        except KafkaStorageError as error:
            if attempts == 0 or context.guard.is_offline:
                raise
            _log.warning("deletion-put-off directory=%s reason=%s", context.directory, error)
            delete_renamed(context, left, attempts=attempts - 1)

    if not left:
        return
    if immediately:
        delete()
    else:
        delay_ms = context.config.file_delete_delay_ms
        context.scheduler.schedule("delete-file", delete_or_retry, delay_ms=delay_ms)


def delete_snapshots(
    context: LogContext,
    snapshots: SnapshotFiles,
    offsets: Iterable[int],
    *,
    immediately: bool = False,
) -> None:
    """Rename the snapshots at ``offsets`` to ``.deleted`` and delete them after the delay.

    One that cannot be renamed now is renamed with the next ones: it does no harm until then.
    """
    if immediately:
        for offset in offsets:
            snapshots.delete(offset)
        return
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
            for name in renamed:  # the log's directory may have been renamed meanwhile
                with suppress(FileNotFoundError):
                    context.fs.delete(os.path.join(context.directory, name))

    if renamed:
        delay_ms = context.config.file_delete_delay_ms
        context.scheduler.schedule("delete-producer-snapshot", delete, delay_ms=delay_ms)
