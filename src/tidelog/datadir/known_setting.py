"""A topic setting together with where it was set. Kafka: ``ConfigSource`` of DescribeConfigs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple


class ConfigSource(StrEnum):
    """Where a setting was set, mostly in Kafka's words; the first one that names it wins."""

    BIRTH = "BIRTH_CONFIG"
    """Not Kafka's: it held where tidelog created the topic; see ``birth``."""
    TOPIC = "DYNAMIC_TOPIC_CONFIG"
    BROKER = "DYNAMIC_BROKER_CONFIG"
    CLUSTER = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC = "STATIC_BROKER_CONFIG"
    """The broker's ``server.properties``."""
    DEFAULT = "DEFAULT_CONFIG"
    """Kafka's default: ``server.properties`` is known and does not name the setting."""


class KnownSetting(NamedTuple):
    """A setting.

    It is under its topic-level name.
    """

    value: Annotated[str, "Its value."]
    source: Annotated[ConfigSource, "Where it is set."]
