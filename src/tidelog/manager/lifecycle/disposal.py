"""Partition directories that go, in a data directory that is open for a moment.

Owns their renaming and removal, also of what earlier processes left. Must not know topics. Kafka
does the same in ``LogManager.asyncDelete`` and ``deleteLogs``, with the logs open.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.manager.lifecycle.logs_to_delete import remove_directory
from tidelog.segment.filenames import (
    is_delete_directory,
    log_delete_directory_name,
    log_directory_name,
)
from tidelog.staging.staged_file import is_staged_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from tidelog.env.files import FileSystem

_log = logging.getLogger(__name__)


def put_away_directories(
    fs: FileSystem, data_dir: str, keys: Iterable[tuple[str, int]], rng: Random
) -> list[str]:
    """Rename the directories of partitions to ``-delete``, durably; return their new paths."""
    moved = []
    for topic, number in keys:
        source = os.path.join(data_dir, log_directory_name(topic, number))
        if not fs.exists(source):
            continue
        unique = UUID(int=rng.getrandbits(128), version=4).hex
        target = os.path.join(data_dir, log_delete_directory_name(topic, number, unique))
        fs.rename(source, target)
        moved.append(target)
    fs.sync_directory(data_dir)
    return moved


def sweep_deleted(fs: FileSystem, data_dir: str, *, now_ms: int, delay_ms: int) -> None:
    """Remove ``-delete`` directories that nothing was done to for ``delay_ms``."""
    for name in fs.list(data_dir):
        path = os.path.join(data_dir, name)
        if is_delete_directory(name) and _is_due(fs, path, now_ms - delay_ms):
            remove_directory(fs, path)


def _is_due(fs: FileSystem, path: str, changed_until_ms: int) -> bool:
    """Say whether this is a directory, or a link to one, last changed at that time or before."""
    try:
        found = fs.stat(path)
    except FileNotFoundError:  # a link to nothing, or deleted meanwhile
        return False
    return found.is_directory and found.mtime_ms <= changed_until_ms


def sweep_staged(fs: FileSystem, data_dir: str, *, now_ms: int, retention_ms: int) -> None:
    """Remove staged files that nobody wrote to for ``retention_ms``: their writer is gone."""
    for name in fs.list(data_dir):
        if not is_staged_name(name):
            continue
        path = os.path.join(data_dir, name)
        try:
            age_ms = now_ms - fs.stat(path).mtime_ms
            if age_ms >= retention_ms:
                fs.delete(path)
                _log.info("staged-file-deleted path=%s age_ms=%d", path, age_ms)
        except FileNotFoundError:
            continue  # committed meanwhile, or swept by another process
