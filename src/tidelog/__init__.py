"""Kafka's log in Python, with Spark as its data pipeline.

The names below are the public door; each is loaded when first used, since this file runs before
the command line does. ``tidelog.spark``, ``tidelog.arrow`` and ``tidelog.testing`` are doors too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.codec.compression import Codec
    from tidelog.errors import KafkaError, TidelogError
    from tidelog.log.reader import ReadUpTo
    from tidelog.manager.open import open_data_directory as open  # noqa: A004 - tidelog.open, as gzip.open
    from tidelog.manager.open import open_log_read_only as open_read_only
    from tidelog.records.record import Record

__all__ = [
    "Codec",
    "KafkaError",
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
        "ReadUpTo": "tidelog.log.reader",
        "Record": "tidelog.records.record",
        "TidelogError": "tidelog.errors",
        "open": "tidelog.manager.open:open_data_directory",
        "open_read_only": "tidelog.manager.open:open_log_read_only",
    },
)
