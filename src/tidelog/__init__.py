"""Kafka's log in Python, with Spark as its data pipeline.

The names below are the public API. Each is loaded on first use, because this file runs before the
command line does. ``tidelog.spark``, ``tidelog.arrow`` and ``tidelog.testing`` are public as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog import errors
    from tidelog.codec.compression import Codec
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.log_dir_description import LogDirDescription, ReplicaInfo
    from tidelog.embedded.async_logs import AsyncGroupReader, AsyncLogs, AsyncReadOnlyLogs
    from tidelog.embedded.async_logs import open_logs_async as open_async
    from tidelog.embedded.doors import open_directory_read_only
    from tidelog.embedded.doors import open_log_read_only as open_read_only
    from tidelog.embedded.doors import open_logs as open  # noqa: A004 - tidelog.open, as gzip.open
    from tidelog.embedded.logs import Appended, Logs
    from tidelog.embedded.read_only_logs import ReadOnlyLogs
    from tidelog.embedded.topic_writer import TopicWriter
    from tidelog.errors import KafkaError, TidelogError
    from tidelog.log.log import Log
    from tidelog.manager.partition import Partition
    from tidelog.readonly.read_only_log import ReadOnlyLog, ReadUpTo
    from tidelog.records.isolation import Isolation
    from tidelog.records.new_record import NewRecord
    from tidelog.records.record import Record
    from tidelog.version import __version__

__all__ = [
    "Appended",
    "AsyncGroupReader",
    "AsyncLogs",
    "AsyncReadOnlyLogs",
    "BrokerConfig",
    "Codec",
    "Isolation",
    "KafkaError",
    "Log",
    "LogConfig",
    "LogDirDescription",
    "Logs",
    "NewRecord",
    "Partition",
    "ReadOnlyLog",
    "ReadOnlyLogs",
    "ReadUpTo",
    "Record",
    "ReplicaInfo",
    "TidelogError",
    "Topic",
    "TopicWriter",
    "__version__",
    "errors",
    "open",
    "open_async",
    "open_directory_read_only",
    "open_read_only",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "Appended": "tidelog.embedded.logs",
        "AsyncGroupReader": "tidelog.embedded.async_logs",
        "AsyncLogs": "tidelog.embedded.async_logs",
        "AsyncReadOnlyLogs": "tidelog.embedded.async_logs",
        "BrokerConfig": "tidelog.config.broker_config",
        "Codec": "tidelog.codec.compression",
        "Isolation": "tidelog.records.isolation",
        "KafkaError": "tidelog.errors",
        "Log": "tidelog.log.log",
        "LogConfig": "tidelog.config.log_config",
        "LogDirDescription": "tidelog.datadir.log_dir_description",
        "Logs": "tidelog.embedded.logs",
        "NewRecord": "tidelog.records.new_record",
        "Partition": "tidelog.manager.partition",
        "ReadOnlyLog": "tidelog.readonly.read_only_log",
        "ReadOnlyLogs": "tidelog.embedded.read_only_logs",
        "ReadUpTo": "tidelog.readonly.read_only_log",
        "Record": "tidelog.records.record",
        "ReplicaInfo": "tidelog.datadir.log_dir_description",
        "TidelogError": "tidelog.errors",
        "Topic": "tidelog.datadir.catalogue",
        "TopicWriter": "tidelog.embedded.topic_writer",
        "__version__": "tidelog.version",
        "errors": "tidelog.errors:",
        "open": "tidelog.embedded.doors:open_logs",
        "open_async": "tidelog.embedded.async_logs:open_logs_async",
        "open_directory_read_only": "tidelog.embedded.doors:open_directory_read_only",
        "open_read_only": "tidelog.embedded.doors:open_log_read_only",
    },
)
