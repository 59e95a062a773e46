"""Every metric, under Kafka's name and under Prometheus'."""

from __future__ import annotations

import re
from errno import EIO, ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.manager_home import ManagerHome, fill

from tidelog.errors import KafkaStorageError
from tidelog.manager.lifecycle.load_progress import LoadProgress
from tidelog.staging.finished import CommittedTransaction, write_finished
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

_LOG: Final = ",topic=t,partition=0"
_DIR: Final = ",logDirectory=/data"
TABLE: Final = {
    f"kafka.log:type=Log,name=NumLogSegments{_LOG}": "kafka_log_log_num_log_segments",
    f"kafka.log:type=Log,name=LogStartOffset{_LOG}": "kafka_log_log_log_start_offset",
    f"kafka.log:type=Log,name=LogEndOffset{_LOG}": "kafka_log_log_log_end_offset",
    f"kafka.log:type=Log,name=Size{_LOG}": "kafka_log_log_size",
    f"kafka.log:type=Log,name=RetentionSizeInPercent{_LOG}": (
        "kafka_log_log_retention_size_in_percent"
    ),
    f"kafka.log:type=Log,name=Size{_LOG},is-future=true": "kafka_log_log_size",
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount": (
        "kafka_log_log_manager_offline_log_directory_count"
    ),
    f"kafka.log:type=LogManager,name=LogDirectoryOffline{_DIR}": (
        "kafka_log_log_manager_log_directory_offline"
    ),
    "kafka.log:type=LogManager,name=CordonedLogDirectoryCount": (
        "kafka_log_log_manager_cordoned_log_directory_count"
    ),
    f"kafka.log:type=LogManager,name=LogDirectoryCordoned{_DIR}": (
        "kafka_log_log_manager_log_directory_cordoned"
    ),
    "kafka.log:type=LogManager,name=remainingLogsToRecover,dir=/data": (
        "kafka_log_log_manager_remaining_logs_to_recover"
    ),
    "kafka.log:type=LogManager,name=remainingSegmentsToRecover,dir=/data,threadNum=1": (
        "kafka_log_log_manager_remaining_segments_to_recover"
    ),
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs": (
        "kafka_log_log_flush_stats_log_flush_rate_and_time_ms"
    ),
    "kafka.log:type=LogCleaner,name=max-buffer-utilization-percent": (
        "kafka_log_log_cleaner_max_buffer_utilization_percent"
    ),
    "kafka.log:type=LogCleaner,name=cleaner-recopy-percent": (
        "kafka_log_log_cleaner_cleaner_recopy_percent"
    ),
    "kafka.log:type=LogCleaner,name=max-clean-time-secs": (
        "kafka_log_log_cleaner_max_clean_time_secs"
    ),
    "kafka.log:type=LogCleaner,name=max-compaction-delay-secs": (
        "kafka_log_log_cleaner_max_compaction_delay_secs"
    ),
    "kafka.log:type=LogCleaner,name=DeadThreadCount": "kafka_log_log_cleaner_dead_thread_count",
    f"kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count{_DIR}": (
        "kafka_log_log_cleaner_manager_uncleanable_partitions_count"
    ),
    f"kafka.log:type=LogCleanerManager,name=uncleanable-bytes{_DIR}": (
        "kafka_log_log_cleaner_manager_uncleanable_bytes"
    ),
    "kafka.log:type=LogCleanerManager,name=max-dirty-percent": (
        "kafka_log_log_cleaner_manager_max_dirty_percent"
    ),
    "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms": (
        "kafka_log_log_cleaner_manager_time_since_last_run_ms"
    ),
    "kafka.utils:type=Throttler,name=cleaner-io": "kafka_utils_throttler_cleaner_io_total",
    **{
        f"kafka.server:type=BrokerTopicMetrics,name={name}": (
            f"kafka_server_broker_topic_metrics_{family}_total"
        )
        for name, family in (
            ("BytesRejectedPerSec", "bytes_rejected_per_sec"),
            ("NoKeyCompactedTopicRecordsPerSec", "no_key_compacted_topic_records_per_sec"),
            ("InvalidMagicNumberRecordsPerSec", "invalid_magic_number_records_per_sec"),
            ("InvalidMessageCrcRecordsPerSec", "invalid_message_crc_records_per_sec"),
            ("InvalidOffsetOrSequenceRecordsPerSec", "invalid_offset_or_sequence_records_per_sec"),
            ("MessagesInPerSec", "messages_in_per_sec"),
            ("BytesInPerSec", "bytes_in_per_sec"),
            ("MessagesInPerSec,topic=t", "messages_in_per_sec"),
        )
    },
    "kafka.server:type=ReplicaManager,name=ProducerIdCount": (
        "kafka_server_replica_manager_producer_id_count"
    ),
    "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount": (
        "kafka_server_replica_manager_partitions_with_late_transactions_count"
    ),
    f"kafka.cluster:type=Partition,name=LastStableOffsetLag{_LOG}": (
        "kafka_cluster_partition_last_stable_offset_lag"
    ),
}


def busy(home: ManagerHome) -> LogService:
    """Return a manager of one partition, about to move, seen while it loads its logs."""
    manager = home.open(log_cleaner_enable=True)
    manager.create_topic("t")
    fill(manager, "t", 0, 1)
    manager.move_partition("t", 0, "/other")
    manager.progress = LoadProgress()
    manager.progress.add("/data", 3, 100)
    manager.progress.segments_left("/data", 1, 2)
    batch = StreamBatch("q", 0)
    last = CommittedTransaction(batch.txn, home.clock.now_ms(), {"t": 1}, stream=batch)
    write_finished(home.fs, "/data", {}, last)
    return manager


def value_of(manager: LogService, name: str, part: str = "") -> float:
    """Return the one number that a manager has under Kafka's name."""
    (value,) = [
        metric.value
        for metric in manager.metrics()
        if metric.kafka_name == name and metric.part == part
    ]
    return value


@pytest.mark.parametrize(("kafka", "family"), TABLE.items(), ids=list(TABLE))
def test_every_metric_of_kafka_is_there(kafka: str, family: str) -> None:
    """Dashboards made for Kafka find what they ask for."""
    with busy(ManagerHome("/data", "/other")) as manager:
        families = {metric.kafka_name: metric.family for metric in manager.metrics()}

        assert families[kafka] == family


def test_flushes_count_and_so_does_their_time() -> None:
    """Kafka's timer is a summary: the count of flushed segments, and their milliseconds."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
        name = "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"
        before = value_of(manager, name, "count")
        manager.flush()

        assert value_of(manager, name, "count") == before + 1
        assert value_of(manager, name, "sum") >= 0


def test_a_transaction_that_is_open_for_too_long_counts() -> None:
    """Its partition's readers of committed records wait for it."""
    home = ManagerHome()
    with home.open(transaction_partition_verification_enable=False) as manager:
        manager.create_topic("t")
        now_ms = home.clock.now_ms()
        batch = build_batch(
            [(now_ms, b"k", b"v", ())],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        manager.partition("t", 0).append(batch)
        name = "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount"
        before = value_of(manager, name)
        home.clock.advance(manager.config.transaction_max_timeout_ms + 6 * 60 * 1000)

        assert (before, value_of(manager, name)) == (0, 1)


def test_a_disk_that_did_not_take_an_append_is_full_until_it_has_space() -> None:
    """The directory's metric is 1 meanwhile; the directory is not offline."""
    home = ManagerHome()
    name = f"tidelog:type=LogManager,name=LogDirectoryFull{_DIR}"
    with home.open() as manager:
        manager.create_topic("t")
        before = value_of(manager, name)
        home.fs.fail("pwrite", ".log", OSError(ENOSPC, "no space"))
        with pytest.raises(KafkaStorageError):
            fill(manager, "t", 0, 1)
        during = value_of(manager, name)
        manager.shared.registry.reserve.look()

        assert (before, during, value_of(manager, name)) == (0, 1, 0)
        assert manager.live_dirs == ["/data"]


def test_the_space_of_each_disk_is_measured() -> None:
    """Its size and what is free; nothing of one that does not answer."""
    home = ManagerHome()
    names = [f"tidelog:type=LogManager,name=Disk{what}Bytes{_DIR}" for what in ("Total", "Free")]
    with home.open() as manager:
        total, free = (value_of(manager, name) for name in names)
        home.fs.fail("free_bytes", "/data", OSError(EIO, "broken"))
        found = {metric.kafka_name for metric in manager.metrics()}

    assert total >= free == home.fs.free_bytes("/data") > 0
    assert found.isdisjoint(names)


def test_the_page_of_metrics_lists_every_metric() -> None:
    """By JMX's names, without tags."""
    page = (Path(__file__).parents[4] / "docs" / "monitoring.md").read_text("utf-8")
    table = page.partition("## Metrics\n")[2]
    cells = [re.findall("`(.+?)`", row.split(" | ")[0]) for row in table.splitlines()]
    listed = {f"{kind},name={name}" for kind, *names in filter(None, cells) for name in names}

    with busy(ManagerHome("/data", "/other")) as manager:
        found = {f"{one.group}:type={one.type},name={one.name}" for one in manager.metrics()}

    assert len(found) > 30
    assert found - listed == set()
