"""A topic of a data directory as a reader without a lock finds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidelog.config.log_config import DELETION_SETTINGS
from tidelog.datadir.catalogue import INTERNAL_SETTINGS, NO_SETTINGS
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.catalogue import Topic


class MissingPartition(NamedTuple):
    """A partition that the catalogue places in a data directory that does not hold it.

    ``high_watermark`` is the line of the checkpoint, the end (exclusive) of what readers have seen;
    None where there is none: the partition was never written, or is being created.
    """

    topic: str
    partition: int
    high_watermark: int | None

    def __str__(self) -> str:
        name = f"{self.topic}-{self.partition} is listed in tidelog.topics.json"
        if self.high_watermark is None:
            return f"{name}, but its directory is missing; no checkpoint says that it had records"
        return f"{name}, but its directory is missing, with records up to {self.high_watermark:,}"

    @property
    def key(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ReadOnlyTopic:
    """One topic of one data directory.

    ``topic_id`` is None where neither the catalogue nor a ``partition.metadata`` names it.
    ``partitions`` are the numbers of those whose directories are there, ascending; ``missing``
    those that the catalogue places here without there being a directory. ``config`` holds the
    topic's own settings as far as they are known, under Kafka's names. ``is_listed``: the catalogue
    has the topic; else it was found by its directories, as Kafka leaves them.
    """

    name: str
    topic_id: UUID | None
    partitions: tuple[int, ...]
    missing: tuple[int, ...]
    config: Mapping[str, str]
    unknown_settings: tuple[str, ...]
    is_listed: bool

    @classmethod
    def listed(
        cls, topic: Topic, partitions: tuple[int, ...], missing: tuple[int, ...]
    ) -> ReadOnlyTopic:
        """Return a topic of the catalogue."""
        return cls(
            topic.name,
            topic.topic_id,
            partitions,
            missing,
            topic.config,
            topic.unknown_settings,
            is_listed=True,
        )

    @classmethod
    def found(cls, name: str, topic_id: UUID | None, partitions: tuple[int, ...]) -> ReadOnlyTopic:
        """Return a topic that no catalogue lists; its settings are unknown."""
        config = INTERNAL_SETTINGS.get(name, NO_SETTINGS)
        unknown = tuple(setting for setting in DELETION_SETTINGS if setting not in config)
        return cls(name, topic_id, partitions, (), config, unknown, is_listed=False)

    def config_in_force(
        self, defaults: LogConfig, overrides: Mapping[str, str] = NO_SETTINGS
    ) -> LogConfig:
        """Return the settings of the topic's logs.

        ``defaults`` stand for what the topic does not set, but never for an unknown setting about
        deletion. ``overrides`` take precedence over the topic's own. Raises InvalidConfig.
        """
        config = defaults.with_overrides(self.config).with_overrides(overrides)
        return config.without([name for name in self.unknown_settings if name not in overrides])
