"""Kafka's internal topics, and the settings without which they would lose what they hold.

Kafka: ``Topic``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERNAL_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "__consumer_offsets": {"cleanup.policy": "compact"},
    "__transaction_state": {"cleanup.policy": "compact"},
    "__share_group_state": {"cleanup.policy": "delete", "retention.ms": "-1"},
}
"""Kafka's internal topics, each with what is known of its settings: a broker creates it with them.

Source: Kafka 4.3.1 Topic, ShareCoordinatorService.
"""
COORDINATOR_CONFIG: Final[Mapping[str, str]] = {"segment.bytes": str(100 << 20)}
"""What topics of coordinators have as well where they are created here: they are read whole at a
start, and only closed segments are compacted. Source: Kafka GroupCoordinatorConfig,
TransactionStateManagerConfig."""
