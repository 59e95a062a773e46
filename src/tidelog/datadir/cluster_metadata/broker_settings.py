"""The settings that a broker used for the topics in its directories, with where they come from.

Kafka: ``ConfigurationControlManager`` and ``ConfigSource`` of DescribeConfigs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tidelog.config.broker_config import default_of
from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.config.log_config import LogConfig
from tidelog.config.option import check_value, options_of, read_value
from tidelog.datadir.cluster_metadata.metadata_image import (
    ALL_BROKERS,
    RecordedSetting,
    Resource,
)
from tidelog.datadir.cluster_metadata.metadata_records import ResourceType
from tidelog.datadir.known_setting import ConfigSource, KnownSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from tidelog.config.option import Option
    from tidelog.datadir.cluster_metadata.metadata_image import MetadataImage

_log = logging.getLogger(__name__)

_OPTIONS: Final = {known.name: known for known in options_of(LogConfig)}


def formatted(name: str, text: str) -> str:
    """Return a topic's setting as ``BrokerSettings`` gives it, so that equal values are equal."""
    known = _OPTIONS[name]
    return known.kind.format(read_value(known, text))


def is_default(name: str, text: str) -> bool:
    """Return whether a formatted setting is Kafka's default."""
    known = _OPTIONS[name]
    default = known.kafka_default
    return default is not None and text == known.kind.format(default)


@dataclass(frozen=True)
class BrokerSettings:
    """What is known of the settings of topics that a broker wrote.

    Args:
        image: what the cluster's metadata says; None where there is none, or it is unreadable.
        node_id: the node whose directory it is; None if it is not known.
        committed_to: end of the records that are known to be committed; None: all are. A setting
            that was changed behind it counts as unknown: the change may have been taken back.
        static: the broker's ``server.properties``; None if it is not given.
    """

    image: MetadataImage | None = None
    node_id: int | None = None
    committed_to: int | None = None
    static: Mapping[str, str] | None = None

    def knows(self, name: str, topic_id: UUID) -> bool:
        """Return whether the metadata holds this topic, by id and by name."""
        return self.image is not None and self.image.name_of(topic_id) == name

    def of_topic(self, name: str, topic_id: UUID) -> dict[str, KnownSetting]:
        """Return what is known of a topic's settings, by their topic-level names.

        ``server.properties`` alone gives what it names. Kafka's defaults are known only of a topic
        that is in the metadata: of another one it is not known which settings it has of its own.
        """
        found: dict[str, KnownSetting | None] = {}
        is_in_metadata = self.knows(name, topic_id)
        if self.static is not None and is_in_metadata:
            found.update(_defaults())
        found.update(self._known_to_all if is_in_metadata else self._known_from_file)
        if is_in_metadata:
            found.update(self._from_topic(name))
        known = {key: setting for key, setting in found.items() if setting is not None}
        if _is_tiered(known):
            known.pop("cleanup.policy", None)
        return known

    @cached_property
    def _known_to_all(self) -> dict[str, KnownSetting | None]:
        """The settings of brokers for topics in the metadata; read, and logged, once for all."""
        return dict(self._from_brokers(is_in_metadata=True))

    @cached_property
    def _known_from_file(self) -> dict[str, KnownSetting | None]:
        """The settings for other topics."""
        return dict(self._from_brokers(is_in_metadata=False))

    def _from_topic(self, name: str) -> Iterator[tuple[str, KnownSetting | None]]:
        """Yield a topic's own settings; None for one that is there and cannot be used."""
        for key, setting in self._recorded(ResourceType.TOPIC, name).items():
            known = _OPTIONS.get(key)
            if known is None or (setting.value is None and not self._is_doubtful(setting)):
                continue
            yield key, self._read(known, key, setting, ConfigSource.TOPIC, name)

    def _from_brokers(self, *, is_in_metadata: bool) -> Iterator[tuple[str, KnownSetting | None]]:
        """Yield the settings that brokers have for topics without their own, as above."""
        layers = self._broker_layers(is_in_metadata=is_in_metadata)
        for known in _OPTIONS.values():
            set_by = (
                (source, synonym.name, layer[synonym.name])
                for synonym in known.synonyms
                for source, layer in layers
                if synonym.name in layer
            )
            for source, key, setting in set_by:
                if setting.value is not None or self._is_doubtful(setting):
                    yield known.name, self._read(known, key, setting, source, None)
                    break

    def _broker_layers(
        self, *, is_in_metadata: bool
    ) -> list[tuple[ConfigSource, Mapping[str, RecordedSetting]]]:
        static = {key: RecordedSetting(text, 0) for key, text in (self.static or {}).items()}
        layers: list[tuple[ConfigSource, Mapping[str, RecordedSetting]]] = []
        if is_in_metadata:
            cluster = self._recorded(ResourceType.BROKER, ALL_BROKERS)
            layers.append((ConfigSource.CLUSTER, cluster))
        if is_in_metadata and self.node_id is not None:
            broker = self._recorded(ResourceType.BROKER, str(self.node_id))
            layers.insert(0, (ConfigSource.BROKER, broker))
        return [*layers, (ConfigSource.STATIC, static)]

    def _recorded(self, kind: ResourceType, name: str) -> Mapping[str, RecordedSetting]:
        return {} if self.image is None else self.image.settings_of(Resource(kind, name))

    def _is_doubtful(self, setting: RecordedSetting) -> bool:
        return self.committed_to is not None and setting.end_offset > self.committed_to

    def _read(
        self,
        known: Option,
        key: str,
        setting: RecordedSetting,
        source: ConfigSource,
        topic: str | None,
    ) -> KnownSetting | None:
        """Return a setting; None if it is not valid here, or not known to be committed."""
        reason = f"the change at offset {setting.end_offset - 1} may not be committed"
        if not self._is_doubtful(setting) and setting.value is not None:
            try:
                return KnownSetting(_valid_text(known, key, setting.value, source), source)
            except ValueError as error:
                reason = str(error)
        _log.warning(
            "broker-setting-unusable topic=%s source=%s setting=%s reason=%s",
            *(topic or "*", source, key, reason),
        )
        return None


def _valid_text(known: Option, key: str, text: str, source: ConfigSource) -> str:
    if source is ConfigSource.TOPIC:
        value = read_value(known, text)
        check_value(known, value)
    else:
        synonym = next(one for one in known.synonyms if one.name == key)
        value = default_of(known, synonym, text)
    return known.kind.format(value)


def _defaults() -> Iterator[tuple[str, KnownSetting]]:
    for key in DELETION_SETTINGS:
        known = _OPTIONS[key]
        yield key, KnownSetting(known.kind.format(known.kafka_default), ConfigSource.DEFAULT)


def _is_tiered(settings: Mapping[str, KnownSetting]) -> bool:
    """Return whether a topic is tiered: what may be deleted locally depends on remote copies."""
    enabled = settings.get("remote.storage.enable")
    return enabled is not None and enabled.value == "true"
