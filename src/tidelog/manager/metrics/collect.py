"""The metrics of a log manager, under Kafka's names.

Gauges are computed when they are asked for, so none is left behind when a log is deleted. Kafka:
the gauges of ``UnifiedLog``, ``LogManager``, ``LogCleaner`` and ``ReplicaManager``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import TidelogError
from tidelog.log.loading.cut_files import is_cut_name
from tidelog.manager.metrics.metric import (
    Metric,
    in_percent,
    metrics_of,
    tags_of,
    timer_metrics,
)
from tidelog.staging.finished import read_finished
from tidelog.staging.manifest_names import waiting_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.cleaner.log_cleaner import LogCleaner
    from tidelog.env.files import FileSystem
    from tidelog.log.flush_times import FlushTimes
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dirs import OfflineReason
    from tidelog.manager.lifecycle.load_progress import LoadProgress
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.metrics.metric import Tags
    from tidelog.segment.filenames import TopicPartition


def collect(shared: Shared, flush_times: FlushTimes, progress: LoadProgress | None) -> list[Metric]:
    """Return all metrics as of now; ``progress``: of the loading, if any."""
    registry, cleaner = shared.registry, shared.cleaning.cleaner
    metrics = [
        *_directory_metrics(shared, progress),
        *_manager_metrics(shared),
        *timer_metrics(
            *("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", ()),
            count=flush_times.count,
            total_ms=flush_times.total_ms,
        ),
        *registry.counters.metrics(),
    ]
    for key, log in sorted(registry.logs().items()):
        metrics += log_metrics(key, log)
        lag = log.high_watermark - log.last_stable_offset
        metrics.append(
            Metric("kafka.cluster", "Partition", "LastStableOffsetLag", tags_of(key), lag)
        )
    for key, log in sorted(registry.futures().items()):
        metrics += log_metrics(key, log, is_future=True)
    if cleaner is not None:
        metrics += _cleaner_metrics(cleaner, [one.path for one in shared.log_dirs])
    return metrics


def log_metrics(key: TopicPartition, log: Log, *, is_future: bool = False) -> Iterator[Metric]:
    """Yield the gauges of one log."""
    tags = (*tags_of(key), ("is-future", "true")) if is_future else tags_of(key)
    limit = 0 if log.config.is_archived else log.config.retention_bytes
    segments, size_bytes = len(log.segments), log.size_bytes
    yield from bounds_metrics(tags, segments, log.log_start_offset, log.log_end_offset, size_bytes)
    share = in_percent(size_bytes, limit)
    yield Metric("kafka.log", "Log", "RetentionSizeInPercent", tags, share)


def bounds_metrics(
    tags: Tags, segments: int, start: int, end: int, size_bytes: int
) -> Iterator[Metric]:
    """Return the gauges of a log that its files show, too: offsets ``[start, end)`` and sizes."""
    values = {
        "NumLogSegments": segments,
        "LogStartOffset": start,
        "LogEndOffset": end,
        "Size": size_bytes,
    }
    return metrics_of("kafka.log", "Log", tags, values)


def _directory_metrics(shared: Shared, progress: LoadProgress | None) -> Iterator[Metric]:
    fs, log_dirs, reserve = shared.machine.fs, shared.log_dirs, shared.registry.reserve
    failures = log_dirs.failures
    cordoned = [path for path in log_dirs.configured if log_dirs.is_cordoned(path)]
    offline = len(log_dirs.configured) - len(log_dirs)
    counts = {"OfflineLogDirectoryCount": offline, "CordonedLogDirectoryCount": len(cordoned)}
    yield from metrics_of("kafka.log", "LogManager", (), counts)
    for path in log_dirs.configured:
        is_offline = not log_dirs.is_online(path)
        is_full = path in reserve.full or path in reserve.out_of_space
        names = [] if is_offline else _names_in(fs, path)
        yield _offline_since(path, failures.get(path))
        for group, name, value in (
            ("kafka.log", "LogDirectoryOffline", int(is_offline)),
            ("kafka.log", "LogDirectoryCordoned", int(path in cordoned)),
            ("tidelog", "LogDirectoryFull", int(is_full)),
            ("tidelog", "CutFileBytes", _cut_bytes(fs, path, names)),
            ("tidelog", "CommitsWaitingCount", len(waiting_hashes(names))),
        ):
            yield Metric(group, "LogManager", name, (("logDirectory", path),), value)
        if not is_offline:
            yield from _disk_metrics(fs, path)
            yield from commit_metrics(fs, path)
        if progress is not None:
            dir_tags = (("dir", path),)
            left = progress.remaining_logs(path)
            yield Metric("kafka.log", "LogManager", "remainingLogsToRecover", dir_tags, left)
            for thread, count in progress.remaining_segments(path).items():
                thread_tags = (*dir_tags, ("threadNum", str(thread)))
                name = "remainingSegmentsToRecover"
                yield Metric("kafka.log", "LogManager", name, thread_tags, count)


def _disk_metrics(fs: FileSystem, path: str) -> Iterator[Metric]:
    """Yield the size of the disk of a data directory, and its free bytes; none if it fails."""
    with suppress(OSError):
        space = {"DiskTotalBytes": fs.total_bytes(path), "DiskFreeBytes": fs.free_bytes(path)}
        yield from metrics_of("tidelog", "LogManager", (("logDirectory", path),), space)


def _offline_since(path: str, failure: OfflineReason | None) -> Metric:
    """Return when a directory failed, in ms, with why as a tag; 0 without it for one in use."""
    tags: Tags = (("logDirectory", path),)
    if failure is not None:
        tags += (("reason", str(failure.error)),)
    since_ms = 0 if failure is None else failure.since_ms
    return Metric("tidelog", "LogManager", "LogDirectoryOfflineSinceMs", tags, since_ms)


def commit_metrics(fs: FileSystem, path: str) -> Iterator[Metric]:
    """Yield gauges of the last batch of each stream, and the last copy of a mirror, in a directory.

    There are none if the table of finished transactions cannot be read.
    """
    with suppress(OSError, TidelogError):
        for one in read_finished(fs, path).values():
            if one.mirrored is not None:
                tags = (("logDirectory", path), ("source", one.mirrored))
                last = {"LastCopyRecords": one.total, "LastCopyTimeMs": one.time_ms}
                yield from metrics_of("tidelog", "Mirror", tags, last)
            if one.stream is None:
                continue
            tags = (("logDirectory", path), ("queryId", one.stream.query_id))
            last = {
                "LastBatchId": one.stream.batch_id,
                "LastBatchRecords": one.total,
                "LastCommitTimeMs": one.time_ms,
            }
            yield from metrics_of("tidelog", "Streams", tags, last)


def _names_in(fs: FileSystem, path: str) -> list[str]:
    """Return the names in a directory; none if it cannot be listed."""
    with suppress(OSError):
        return fs.list(path)
    return []


def _cut_bytes(fs: FileSystem, path: str, names: Iterable[str]) -> int:
    """Return the bytes of files that keep what recoveries cut; 0 if they cannot be read."""
    size_bytes = 0
    with suppress(OSError):
        for name in filter(is_cut_name, names):
            with suppress(FileNotFoundError):
                size_bytes += fs.stat(f"{path}/{name}").size_bytes
    return size_bytes


def _manager_metrics(shared: Shared) -> Iterator[Metric]:
    registry, logs = shared.registry, shared.registry.logs().values()
    now_ms, interval_ms = shared.machine.clock.now_ms(), shared.config().tidelog_metrics_interval_ms
    unknown = sum(bool(topic.unknown_settings) for topic in shared.topics.all().values())
    producers = sum(log.producer_id_count for log in logs)
    late = sum(log.has_late_transaction(now_ms) for log in logs)
    damaged = sum(log.contradiction is not None for log in logs)
    for group, type_, name, value in (
        ("tidelog", "LogManager", "MetricsIntervalMs", interval_ms),
        ("kafka.server", "ReplicaManager", "ProducerIdCount", producers),
        ("kafka.server", "ReplicaManager", "PartitionsWithLateTransactionsCount", late),
        ("tidelog", "LogManager", "TopicsWithUnknownSettingsCount", unknown),
        ("tidelog", "LogManager", "PartitionsWithLossCount", len(registry.lost)),
        ("tidelog", "LogManager", "PartitionsNotLoadedCount", len(registry.failed())),
        ("tidelog", "LogManager", "PartitionsDamagedCount", damaged),
    ):
        yield Metric(group, type_, name, (), value)
    elsewhere = {home: len(keys) for home, keys in shared.topics.elsewhere().items()}
    for home, count in ({one.directory_id: 0 for one in shared.log_dirs} | elsewhere).items():
        home_tags = (("directoryId", format_uuid(home)),)
        yield Metric("tidelog", "LogManager", "PartitionsElsewhereCount", home_tags, count)
    sizes: dict[str, int] = {one.path: 0 for one in shared.log_dirs}
    for log in logs:
        sizes[log.data_dir] = sizes.get(log.data_dir, 0) + log.size_bytes
    for path, size_bytes in sizes.items():
        tags = (("logDirectory", path),)
        yield Metric("tidelog", "LogManager", "LogDirectorySize", tags, size_bytes)


def _cleaner_metrics(cleaner: LogCleaner, directories: Iterable[str]) -> Iterator[Metric]:
    found = cleaner.metrics()
    moved = cleaner.throttler.total_bytes
    yield Metric("kafka.utils", "Throttler", "cleaner-io", (), moved, "counter")
    of_cleaner = {
        "max-buffer-utilization-percent": found.max_buffer_utilization_percent,
        "cleaner-recopy-percent": found.cleaner_recopy_percent,
        "max-clean-time-secs": found.max_clean_time_secs,
        "max-compaction-delay-secs": found.max_compaction_delay_secs,
        "DeadThreadCount": found.dead_thread_count,
    }
    yield from metrics_of("kafka.log", "LogCleaner", (), of_cleaner)
    of_all = {
        "max-dirty-percent": found.max_dirty_percent,
        "time-since-last-run-ms": found.time_since_last_run_ms,
    }
    yield from metrics_of("kafka.log", "LogCleanerManager", (), of_all)
    for path in directories:
        of_one = {
            "uncleanable-partitions-count": found.uncleanable_partitions_count.get(path, 0),
            "uncleanable-bytes": found.uncleanable_bytes.get(path, 0),
        }
        yield from metrics_of("kafka.log", "LogCleanerManager", (("logDirectory", path),), of_one)
