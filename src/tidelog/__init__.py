"""Kafka's log in Python, with Spark as its data pipeline.

The names below are the public door; each is loaded when first used, since this file runs before
the command line does. ``tidelog.spark``, ``tidelog.arrow`` and ``tidelog.testing`` are doors too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.codec.compression import Codec
    from tidelog.embedded.doors import open_log_read_only as open_read_only
    from tidelog.embedded.doors import open_logs as open  # noqa: A004 - tidelog.open, as gzip.open
    from tidelog.errors import KafkaError, TidelogError
    from tidelog.readonly.read_only_log import ReadUpTo
    from tidelog.records.json.json_record import NewRecord
    from tidelog.records.record import Record

__all__ = [
    "Codec",
    "KafkaError",
    "NewRecord",
    "ReadUpTo",
    "Record",
    "TidelogError",
    "open",
    "open_read_only",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "Codec": "tidelog.codec.compression",
        "KafkaError": "tidelog.errors",
        "NewRecord": "tidelog.records.json.json_record",
        "ReadUpTo": "tidelog.readonly.read_only_log",
        "Record": "tidelog.records.record",
        "TidelogError": "tidelog.errors",
        "open": "tidelog.embedded.doors:open_logs",
        "open_read_only": "tidelog.embedded.doors:open_log_read_only",
    },
)
