"""What is counted when an append is refused.

Owns the names; whoever keeps metrics passes a function that counts. Kafka: ``BrokerTopicMetrics``.
"""

from __future__ import annotations

from enum import Enum


class Rejection(Enum):
    """A counter by Kafka's metric name, without its ``PerSec``."""

    BYTES_REJECTED = "BytesRejected"
    INVALID_MESSAGE_CRC = "InvalidMessageCrcRecords"
    INVALID_MAGIC_NUMBER = "InvalidMagicNumberRecords"
    INVALID_OFFSET_OR_SEQUENCE = "InvalidOffsetOrSequenceRecords"
    NO_KEY_COMPACTED_TOPIC = "NoKeyCompactedTopicRecords"


def ignore_rejections(_kind: Rejection, _count: int) -> None:
    """Count nothing."""
