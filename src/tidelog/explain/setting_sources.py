"""Where a topic's settings come from, in words, and which of them say something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.config.log_config import LogConfig
from tidelog.datadir.birth import birth_values
from tidelog.datadir.known_setting import ConfigSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.describe import LogFacts

PLACES: Final = {
    ConfigSource.BIRTH: "since its creation",
    ConfigSource.TOPIC: "topic, in __cluster_metadata",
    ConfigSource.BROKER: "broker, in __cluster_metadata",
    ConfigSource.CLUSTER: "all brokers, in __cluster_metadata",
    ConfigSource.STATIC: "server.properties",
    ConfigSource.DEFAULT: "default of Kafka",
}
"""How each source of a setting that is not the topic's own is shown, in the order of printing."""


class ShownSetting(NamedTuple):
    """A setting that a topic has from elsewhere, and the place in words."""

    name: str
    value: str
    place: str


def inherited_settings(facts: LogFacts) -> Iterator[ShownSetting]:
    """Yield the settings that a topic has and that are not its own, by their places.

    Those since its creation are left out where they are the defaults, as most are.
    """
    usual = birth_values(LogConfig()).items()
    for source, place in PLACES.items():
        for name, setting in facts.inherited_settings.items():
            if setting.source != source or name in facts.config:
                continue
            if source is not ConfigSource.BIRTH or (name, setting.value) not in usual:
                yield ShownSetting(name, setting.value, place)
