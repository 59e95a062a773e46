"""Kafka's names of the topic settings that determine what is deleted or compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COMPACT: Final = "compact"
DELETE: Final = "delete"

DELETION_SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
"""The settings that determine what is deleted or compacted."""

NEVER_DELETED: Final[Mapping[str, str]] = {
    "cleanup.policy": DELETE,
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""What the copy of a topic has for those that are unknown: nothing is deleted by a guess."""


def say_unknown(topics: Iterable[str]) -> str:
    """Return, in words, that the policy of topics is unknown, and how to give one."""
    return (
        f"{DELETION_SETTINGS[0]} of {', '.join(topics)} is unknown: give one of"
        f" {', '.join(DELETION_SETTINGS)} with -o, or set it permanently with tidelog alter"
    )
