"""A topic of a data directory as a reader without a lock finds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.one_line import shortened
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.datadir.effective_config import NO_SETTINGS, TopicSettings
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
    from tidelog.datadir.known_setting import KnownSetting


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


def _nothing_known() -> BrokerSettings:
    from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings

    return BrokerSettings()


@dataclass(frozen=True, repr=False)
class ReadOnlyTopic(TopicSettings):
    """One topic of one data directory.

    ``topic_id`` is None where neither the catalogue nor a ``partition.metadata`` names it.
    ``partitions`` are the numbers of those whose directories are there, ascending; ``missing``
    those that the catalogue places here without there being a directory. ``config`` holds the
    topic's own settings in the catalogue, under Kafka's names. ``is_listed``: the catalogue has the
    topic; else it was found by its directories, as Kafka leaves them. ``is_adopted``: Kafka wrote
    it, so its settings are those of ``config`` and ``inherited`` only. ``broker_settings`` returns
    what is known of the broker that wrote it. ``birth``: its birth values, as in the catalogue.
    """

    name: str
    topic_id: UUID | None
    partitions: tuple[int, ...]
    missing: tuple[int, ...]
    config: Mapping[str, str]
    is_listed: bool
    is_adopted: bool
    broker_settings: Callable[[], BrokerSettings] = field(
        default=_nothing_known, compare=False, repr=False
    )
    birth: Mapping[str, str] | None = None

    def __getstate__(self) -> dict[str, object]:
        # What is known of the broker is read from files, which may not be there for a copy.
        known = {"given": self.given, "broker_settings": _nothing_known}
        return {**vars(self), **known, "config": dict(self.config)}

    def _told(self) -> str:
        config = shortened(dict(self.config))
        missing = f", missing={len(self.missing)}" if self.missing else ""
        return f"{self.name!r}: partitions={len(self.partitions)}, config={config}{missing}"

    @classmethod
    def listed(
        cls,
        topic: Topic,
        partitions: tuple[int, ...],
        missing: tuple[int, ...],
        broker_settings: Callable[[], BrokerSettings] = _nothing_known,
    ) -> ReadOnlyTopic:
        """Return a topic of the catalogue."""
        return cls(
            topic.name,
            topic.topic_id,
            partitions,
            missing,
            topic.config,
            is_listed=True,
            is_adopted=topic.is_adopted,
            broker_settings=broker_settings,
            birth=topic.birth,
        )

    @classmethod
    def found(
        cls,
        name: str,
        topic_id: UUID | None,
        partitions: tuple[int, ...],
        broker_settings: Callable[[], BrokerSettings] = _nothing_known,
    ) -> ReadOnlyTopic:
        """Return a topic that no catalogue lists: Kafka wrote it."""
        return cls(
            name,
            topic_id,
            partitions,
            (),
            INTERNAL_SETTINGS.get(name, NO_SETTINGS),
            is_listed=False,
            is_adopted=True,
            broker_settings=broker_settings,
        )

    @cached_property
    def given(self) -> Mapping[str, KnownSetting]:
        """The settings of the broker that wrote the topic, as far as they are known."""
        if not self.is_adopted:
            return {}
        # Without an id the metadata cannot hold the topic; server.properties still counts.
        return self.broker_settings().of_topic(self.name, self.topic_id or ZERO_ID)

    @property
    def is_compacted(self) -> bool:
        """Whether the known settings name compaction, be the others valid or not."""
        own = self.config.get("cleanup.policy")
        inherited = self.inherited.get("cleanup.policy")
        return "compact" in (own or (inherited.value if inherited else ""))
