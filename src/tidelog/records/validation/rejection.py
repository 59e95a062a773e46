"""The metrics that count why appends are rejected.

The validation functions report to a callback, which a broker connects to its metrics. Kafka:
``LogValidator.MetricsRecorder`` and ``BrokerTopicMetrics``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class Rejection(Enum):
    """A metric by Kafka's name, without the ``PerSec`` suffix."""

    BYTES_REJECTED = "BytesRejected"
    INVALID_MESSAGE_CRC = "InvalidMessageCrcRecords"
    INVALID_MAGIC_NUMBER = "InvalidMagicNumberRecords"
    INVALID_OFFSET_OR_SEQUENCE = "InvalidOffsetOrSequenceRecords"
    NO_KEY_COMPACTED_TOPIC = "NoKeyCompactedTopicRecords"


OnRejected: TypeAlias = Callable[[Rejection, int], None]
"""Called with what to count and how many of it, bytes or records; it must not raise."""


def ignore_rejections(_metric: Rejection, _count: int) -> None:
    """Record nothing: the callback for callers without metrics."""
