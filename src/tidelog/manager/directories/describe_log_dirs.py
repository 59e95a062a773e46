"""The description of all data directories of a manager, from its open logs.

Kafka: ``ReplicaManager.describeLogDirs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.datadir.log_dir_description import LogDirDescription, ReplicaInfo
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_registry import LogRegistry


def describe_log_dirs(
    fs: FileSystem, log_dirs: LogDirs, registry: LogRegistry
) -> dict[str, LogDirDescription]:
    """Return the description of each configured directory by its path, in their order.

    One whose disk does not answer is taken offline; for a lack of resources its space is unknown.
    """
    return {path: _describe(fs, log_dirs, registry, path) for path in log_dirs.configured}


def _describe(
    fs: FileSystem, log_dirs: LogDirs, registry: LogRegistry, path: str
) -> LogDirDescription:
    space = _space(fs, log_dirs, path) if log_dirs.get(path) is not None else None
    if log_dirs.get(path) is None:
        reason = log_dirs.failures.get(path)
        return LogDirDescription.offline(path, str(reason and reason.error))
    logs = registry.in_directory(path)
    replicas = (_replica(registry, TopicPartition(*key), log) for key, log in logs.items())
    return LogDirDescription.of(path, replicas, space)


def _space(fs: FileSystem, log_dirs: LogDirs, path: str) -> tuple[int, int] | None:
    """Return the total and usable bytes; None after an error, which may end the directory's use."""
    try:
        return fs.total_bytes(path), fs.free_bytes(path)
    except OSError as error:
        log_dirs.note_error(path, error)
        return None


def _replica(registry: LogRegistry, key: TopicPartition, log: Log) -> ReplicaInfo:
    """Return the values of one log. Source: Kafka ReplicaManager.getLogEndOffsetLag."""
    is_future = registry.future(key) is log
    ahead = registry.logs(key.topic).get(key) if is_future else log
    end = log.log_end_offset
    lag = None
    if ahead is not None:
        lag = max((ahead.log_end_offset if is_future else ahead.high_watermark) - end, 0)
    return ReplicaInfo(*key, log.size_bytes, lag, is_future)
