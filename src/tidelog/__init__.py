"""Kafka's log in Python, with Spark as its data pipeline.

The names below are the public API. Each is loaded on first use, because this file runs before the
command line does. ``tidelog.spark``, ``tidelog.arrow`` and ``tidelog.testing`` are public as well.
"""

from __future__ import annotations

from tidelog.lazy import lazy_door

TYPE_CHECKING = False  # not from ``typing``, see ``tidelog.__main__``

if TYPE_CHECKING:
    from tidelog import errors
    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.codec.compression import Codec
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.config.sources import SettingValue
    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.log_dir_description import LogDirDescription, ReplicaInfo
    from tidelog.embedded.async_logs import (
        AsyncGroupReader,
        AsyncJoinedLogs,
        AsyncLogs,
        AsyncReadOnlyLogs,
    )
    from tidelog.embedded.async_logs import join_logs_async as join_async
    from tidelog.embedded.async_logs import open_logs_async as open_async
    from tidelog.embedded.async_transaction import AsyncTransaction
    from tidelog.embedded.doors import mirror_directory as mirror
    from tidelog.embedded.doors import open_directory_read_only
    from tidelog.embedded.doors import open_log_read_only as open_read_only
    from tidelog.embedded.doors import open_logs as open  # noqa: A004 - tidelog.open, as gzip.open
    from tidelog.embedded.group_reader import GroupReader
    from tidelog.embedded.joined_logs import JoinedLogs
    from tidelog.embedded.joined_logs import join_logs as join
    from tidelog.embedded.logs import Appended, Logs
    from tidelog.embedded.read_only_logs import ReadOnlyLogs
    from tidelog.embedded.topic_reads import ConsumedRecord
    from tidelog.embedded.topic_writer import TopicWriter
    from tidelog.embedded.transaction import Transaction
    from tidelog.env.moments import Moment
    from tidelog.errors import KafkaError, TidelogError
    from tidelog.explain.pictures.notebook import LogDrawing
    from tidelog.log.append_info import AppendInfo
    from tidelog.log.listeners import LogListener
    from tidelog.log.log import Log
    from tidelog.log.reading.offset_lookup import TimestampedOffset
    from tidelog.log.reading.record_count import RecordCount
    from tidelog.log.retention.retention_rules import DeletedSegment
    from tidelog.manager.metrics.metric import Metric
    from tidelog.manager.mirror import MirroredPartition
    from tidelog.manager.partition import Partition
    from tidelog.readonly.group_positions import Position
    from tidelog.readonly.log_follower import LogFollower
    from tidelog.readonly.read_only_log import Offsets, ReadOnlyLog
    from tidelog.readonly.read_only_topic import ReadOnlyTopic
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.isolation import Isolation, ReadUpTo
    from tidelog.records.new_record import GivenRecord, NewRecord
    from tidelog.records.record import Header, Record
    from tidelog.records.validation.append_origin import AppendOrigin
    from tidelog.segment.filenames import TopicPartition
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.version import __version__

__all__ = [
    "AppendInfo",
    "AppendOrigin",
    "Appended",
    "AsyncGroupReader",
    "AsyncJoinedLogs",
    "AsyncLogs",
    "AsyncReadOnlyLogs",
    "AsyncTransaction",
    "BrokerConfig",
    "Codec",
    "CommittedTransaction",
    "CompactionFacts",
    "ConsumedRecord",
    "DeletedSegment",
    "GivenRecord",
    "GroupReader",
    "Header",
    "Isolation",
    "JoinedLogs",
    "KafkaError",
    "Log",
    "LogConfig",
    "LogDirDescription",
    "LogDrawing",
    "LogFollower",
    "LogListener",
    "Logs",
    "Metric",
    "MirroredPartition",
    "Moment",
    "NewRecord",
    "Offsets",
    "Partition",
    "Position",
    "ReadOnlyLog",
    "ReadOnlyLogs",
    "ReadOnlyTopic",
    "ReadUpTo",
    "Record",
    "RecordColumns",
    "RecordCount",
    "ReplicaInfo",
    "SettingValue",
    "TidelogError",
    "TimestampedOffset",
    "Topic",
    "TopicPartition",
    "TopicWriter",
    "Transaction",
    "__version__",
    "errors",
    "join",
    "join_async",
    "mirror",
    "open",
    "open_async",
    "open_directory_read_only",
    "open_read_only",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "AppendInfo": "tidelog.log.append_info",
        "AppendOrigin": "tidelog.records.validation.append_origin",
        "Appended": "tidelog.embedded.logs",
        "AsyncGroupReader": "tidelog.embedded.async_logs",
        "AsyncJoinedLogs": "tidelog.embedded.async_logs",
        "AsyncLogs": "tidelog.embedded.async_logs",
        "AsyncReadOnlyLogs": "tidelog.embedded.async_logs",
        "AsyncTransaction": "tidelog.embedded.async_transaction",
        "BrokerConfig": "tidelog.config.broker_config",
        "Codec": "tidelog.codec.compression",
        "CommittedTransaction": "tidelog.staging.finished",
        "CompactionFacts": "tidelog.cleaner.compaction_facts",
        "ConsumedRecord": "tidelog.embedded.topic_reads",
        "DeletedSegment": "tidelog.log.retention.retention_rules",
        "GivenRecord": "tidelog.records.new_record",
        "GroupReader": "tidelog.embedded.group_reader",
        "Header": "tidelog.records.record",
        "Isolation": "tidelog.records.isolation",
        "JoinedLogs": "tidelog.embedded.joined_logs",
        "KafkaError": "tidelog.errors",
        "Log": "tidelog.log.log",
        "LogConfig": "tidelog.config.log_config",
        "LogDirDescription": "tidelog.datadir.log_dir_description",
        "LogDrawing": "tidelog.explain.pictures.notebook",
        "LogFollower": "tidelog.readonly.log_follower",
        "LogListener": "tidelog.log.listeners",
        "Logs": "tidelog.embedded.logs",
        "Metric": "tidelog.manager.metrics.metric",
        "MirroredPartition": "tidelog.manager.mirror",
        "Moment": "tidelog.env.moments",
        "NewRecord": "tidelog.records.new_record",
        "Offsets": "tidelog.readonly.read_only_log",
        "Partition": "tidelog.manager.partition",
        "Position": "tidelog.readonly.group_positions",
        "ReadOnlyLog": "tidelog.readonly.read_only_log",
        "ReadOnlyLogs": "tidelog.embedded.read_only_logs",
        "ReadOnlyTopic": "tidelog.readonly.read_only_topic",
        "ReadUpTo": "tidelog.records.isolation",
        "Record": "tidelog.records.record",
        "RecordColumns": "tidelog.records.decoding.record_columns",
        "RecordCount": "tidelog.log.reading.record_count",
        "ReplicaInfo": "tidelog.datadir.log_dir_description",
        "SettingValue": "tidelog.config.sources",
        "TidelogError": "tidelog.errors",
        "TimestampedOffset": "tidelog.log.reading.offset_lookup",
        "Topic": "tidelog.datadir.catalogue",
        "TopicPartition": "tidelog.segment.filenames",
        "TopicWriter": "tidelog.embedded.topic_writer",
        "Transaction": "tidelog.embedded.transaction",
        "__version__": "tidelog.version",
        "errors": "tidelog.errors:",
        "join": "tidelog.embedded.joined_logs:join_logs",
        "join_async": "tidelog.embedded.async_logs:join_logs_async",
        "mirror": "tidelog.embedded.doors:mirror_directory",
        "open": "tidelog.embedded.doors:open_logs",
        "open_async": "tidelog.embedded.async_logs:open_logs_async",
        "open_directory_read_only": "tidelog.embedded.doors:open_directory_read_only",
        "open_read_only": "tidelog.embedded.doors:open_log_read_only",
    },
)
