"""The metrics that count why appends are rejected.

The validation functions report to a callback, which a broker connects to its metrics. Kafka:
``LogValidator.MetricsRecorder`` and ``BrokerTopicMetrics``.
"""

from __future__ import annotations

from enum import Enum


class Rejection(Enum):
    """A metric by Kafka's name, without the ``PerSec`` suffix."""

    BYTES_REJECTED = "BytesRejected"
    INVALID_MESSAGE_CRC = "InvalidMessageCrcRecords"
    INVALID_MAGIC_NUMBER = "InvalidMagicNumberRecords"
    INVALID_OFFSET_OR_SEQUENCE = "InvalidOffsetOrSequenceRecords"
    NO_KEY_COMPACTED_TOPIC = "NoKeyCompactedTopicRecords"


def ignore_rejections(_metric: Rejection, _count: int) -> None:
    """Record nothing: the callback for callers without metrics."""
