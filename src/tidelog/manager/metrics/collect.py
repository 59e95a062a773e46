"""The numbers that say how logs are.

Owns Kafka's names and where each number comes from. They are asked for when they are wanted, so
none is left behind when a log goes. Must not know who wants them. Kafka: the gauges of
``UnifiedLog``, ``LogManager``, ``LogCleaner`` and ``ReplicaManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.manager.log_registry import parent_of
from tidelog.manager.metrics.metric import Metric, Tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.cleaner.log_cleaner import LogCleaner
    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.parts import Parts
    from tidelog.segment.filenames import TopicPartition


def collect(manager: LogManager) -> list[Metric]:
    """Return all metrics as of now."""
    parts = manager.parts
    metrics = [*_manager_metrics(manager), *_flush_metrics(parts), *parts.counters.metrics()]
    for key, partition in sorted(parts.logs.partitions().items()):
        log = partition.log
        metrics += log_metrics(key, log)
        lag = log.high_watermark - log.last_stable_offset
        metrics.append(
            Metric("kafka.cluster", "Partition", "LastStableOffsetLag", _tags_of(key), lag)
        )
    for key, log in sorted(parts.logs.futures().items()):
        metrics += log_metrics(key, log, is_future=True)
    if parts.cleaner is not None:
        metrics += _cleaner_metrics(parts.cleaner, manager.live_dirs)
    return metrics


def log_metrics(key: TopicPartition, log: Log, *, is_future: bool = False) -> Iterator[Metric]:
    """Yield the gauges of one log."""
    tags = (*_tags_of(key), ("is-future", "true")) if is_future else _tags_of(key)
    limit = log.config.retention_bytes
    for name, value in (
        ("NumLogSegments", len(log.segments)),
        ("LogStartOffset", log.log_start_offset),
        ("LogEndOffset", log.log_end_offset),
        ("Size", log.size_bytes),
        ("RetentionSizeInPercent", log.size_bytes * 100 // limit if limit > 0 else 0),
    ):
        yield Metric("kafka.log", "Log", name, tags, value)


def _manager_metrics(manager: LogManager) -> Iterator[Metric]:
    dirs = manager.parts.dirs
    cordoned = [path for path in dirs.configured if dirs.is_cordoned(path)]
    offline = len(dirs.configured) - len(dirs)
    yield Metric("kafka.log", "LogManager", "OfflineLogDirectoryCount", (), offline)
    yield Metric("kafka.log", "LogManager", "CordonedLogDirectoryCount", (), len(cordoned))
    interval_ms = manager.config.tidelog_metrics_interval_ms
    yield Metric("tidelog", "LogManager", "MetricsIntervalMs", (), interval_ms)
    for path in dirs.configured:
        tags = (("logDirectory", path),)
        is_offline = not dirs.is_online(path)
        yield Metric("kafka.log", "LogManager", "LogDirectoryOffline", tags, int(is_offline))
        is_cordoned = path in cordoned
        yield Metric("kafka.log", "LogManager", "LogDirectoryCordoned", tags, int(is_cordoned))
        reserve = manager.parts.reserve
        is_full = path in reserve.full or path in reserve.out_of_space
        yield Metric("tidelog", "LogManager", "LogDirectoryFull", tags, int(is_full))
        if (progress := manager.progress) is not None:
            dir_tags = (("dir", path),)
            left = progress.remaining_logs(path)
            yield Metric("kafka.log", "LogManager", "remainingLogsToRecover", dir_tags, left)
            for thread, count in progress.remaining_segments(path).items():
                spot = (*dir_tags, ("threadNum", str(thread)))
                yield Metric("kafka.log", "LogManager", "remainingSegmentsToRecover", spot, count)
    logs = [part.log for part in manager.parts.logs.partitions().values()]
    producers = sum(len(log.producers.producers) for log in logs)
    yield Metric("kafka.server", "ReplicaManager", "ProducerIdCount", (), producers)
    now_ms = manager.parts.machine.clock.now_ms()
    late = sum(log.producers.has_late_transaction(now_ms) for log in logs)
    yield Metric("kafka.server", "ReplicaManager", "PartitionsWithLateTransactionsCount", (), late)
    sizes: dict[str, int] = dict.fromkeys(manager.live_dirs, 0)
    for log in logs:
        sizes[parent_of(log)] = sizes.get(parent_of(log), 0) + log.size_bytes
    unknown = sum(bool(topic.unknown_settings) for topic in manager.topics().values())
    yield Metric("tidelog", "LogManager", "TopicsWithUnknownSettingsCount", (), unknown)
    lost = len(manager.parts.lost)
    yield Metric("tidelog", "LogManager", "PartitionsWithLossCount", (), lost)
    for path, size_bytes in sizes.items():
        tags = (("logDirectory", path),)
        yield Metric("tidelog", "LogManager", "LogDirectorySize", tags, size_bytes)


def _flush_metrics(parts: Parts) -> Iterator[Metric]:
    times = parts.factory.flush_times
    for part, value in (("count", times.count), ("sum", times.total_ms)):
        name = ("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")
        yield Metric(*name, (), value, "summary", part)


def _cleaner_metrics(cleaner: LogCleaner, directories: Iterable[str]) -> Iterator[Metric]:
    found = cleaner.metrics()
    moved = cleaner.throttle.total_bytes
    yield Metric("kafka.utils", "Throttler", "cleaner-io", (), moved, "counter")
    for name, value in (
        ("max-buffer-utilization-percent", found.max_buffer_utilization_percent),
        ("cleaner-recopy-percent", found.cleaner_recopy_percent),
        ("max-clean-time-secs", found.max_clean_time_secs),
        ("max-compaction-delay-secs", found.max_compaction_delay_secs),
        ("DeadThreadCount", found.dead_thread_count),
    ):
        yield Metric("kafka.log", "LogCleaner", name, (), value)
    for name, value in (
        ("max-dirty-percent", found.max_dirty_percent),
        ("time-since-last-run-ms", found.time_since_last_run_ms),
    ):
        yield Metric("kafka.log", "LogCleanerManager", name, (), value)
    for path in directories:
        tags = (("logDirectory", path),)
        count = found.uncleanable_partitions_count.get(path, 0)
        yield Metric("kafka.log", "LogCleanerManager", "uncleanable-partitions-count", tags, count)
        size_bytes = found.uncleanable_bytes.get(path, 0)
        yield Metric("kafka.log", "LogCleanerManager", "uncleanable-bytes", tags, size_bytes)


def _tags_of(key: TopicPartition) -> Tags:
    return (("topic", key.topic), ("partition", str(key.partition)))
