"""The topics of a data directory: one small durable file, ``tidelog.topics.json``.

Owns what a topic is (name, id, partitions, settings) and the form of that file. Must not know logs
or locks. Kafka keeps the same facts in its cluster metadata; a directory that Kafka wrote has no
such file, so topics are then adopted from directory names and ``partition.metadata``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.checkpoint_file import replace_file
from tidelog.codec.metadata_files import format_uuid, parse_uuid
from tidelog.errors import InvalidTopic, KafkaStorageError, TopicAlreadyExists

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from tidelog.env.files import FileSystem

CATALOGUE_FILE: Final = "tidelog.topics.json"
CATALOGUE_VERSION: Final = 1
METADATA_TOPIC: Final = "__cluster_metadata"
"""Kafka's own log of its cluster, which no log manager touches."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as this data directory knows it.

    ``partitions`` maps each partition number to the ``directory.id`` that holds it; ``config``
    holds the settings that differ from the defaults, under Kafka's names. ``revision`` counts the
    changes: where the catalogues of two directories differ, the higher one is the later one.
    """

    name: str
    topic_id: UUID
    partitions: Mapping[int, UUID]
    config: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the topic's entry in the catalogue file."""
        entry: dict[str, Any] = {
            "name": self.name,
            "id": format_uuid(self.topic_id),
            "partitions": {
                str(number): format_uuid(directory_id)
                for number, directory_id in sorted(self.partitions.items())
            },
            "config": dict(sorted(self.config.items())),
        }
        return {**entry, "revision": self.revision} if self.revision else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Topic:
        """Read one entry of the catalogue file; raise ValueError or KeyError where it is none."""
        return cls(
            name=str(entry["name"]),
            topic_id=parse_uuid(entry["id"]),
            partitions={
                int(number): parse_uuid(directory_id)
                for number, directory_id in entry["partitions"].items()
            },
            config={str(key): str(value) for key, value in entry["config"].items()},
            revision=int(entry.get("revision", 0)),
        )

    def changed(
        self,
        *,
        partitions: Mapping[int, UUID] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        """Return the topic with other partitions or settings, as a later revision."""
        return replace(
            self,
            partitions=self.partitions if partitions is None else partitions,
            config=self.config if config is None else config,
            revision=self.revision + 1,
        )


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All topics of one data directory; a change makes a new value, written whole.

    ``deleted`` holds the ids of topics that are gone while a directory of theirs may be left: such
    a directory is no topic to be adopted.
    """

    topics: Mapping[str, Topic] = field(default_factory=dict)
    deleted: frozenset[UUID] = frozenset()

    def with_topic(self, topic: Topic) -> Catalogue:
        """Add a topic.

        Raises TopicAlreadyExists where the name is taken, InvalidTopic where it differs from
        another one only by dots for underscores, which metric names do not tell apart. Source:
        Kafka Topic.hasCollision.
        """
        if topic.name in self.topics:
            raise TopicAlreadyExists(f"topic {topic.name} exists")
        plain = topic.name.replace(".", "_")
        for name in self.topics:
            if name.replace(".", "_") == plain:
                raise InvalidTopic(
                    f"topic {topic.name} collides with {name}: their metrics have the same name"
                )
        return replace(self, topics={**self.topics, topic.name: topic})

    def replacing(self, topic: Topic) -> Catalogue:
        """Put a topic in the place of the one of its name."""
        return replace(self, topics={**self.topics, topic.name: topic})

    def without(self, name: str) -> Catalogue:
        """Take a topic away, and note that it was deleted."""
        topics = dict(self.topics)
        gone = topics.pop(name)
        return replace(self, topics=topics, deleted=self.deleted | {gone.topic_id})

    def merged(self, other: Catalogue) -> Catalogue:
        """Return what two directories know together; a deletion and a later revision win."""
        deleted = self.deleted | other.deleted
        topics: dict[str, Topic] = {}
        for topic in (*self.topics.values(), *other.topics.values()):
            known = topics.get(topic.name)
            if topic.topic_id in deleted or (known and known.revision >= topic.revision):
                continue
            topics[topic.name] = topic
        return Catalogue(topics, deleted)

    def adopting(self, found: Iterable[Topic]) -> Catalogue:
        """Add partitions and topics that lie in the directory but are not listed here."""
        topics = dict(self.topics)
        for topic in found:
            known = topics.get(topic.name)
            if known is None:
                topics[topic.name] = topic
            else:
                partitions = {**topic.partitions, **known.partitions}
                topics[topic.name] = replace(known, partitions=partitions)
        return replace(self, topics=topics)


def read_catalogue(fs: FileSystem, data_dir: str) -> Catalogue:
    """Read the catalogue; an absent file is an empty catalogue.

    Raises:
        KafkaStorageError: the file does not read; nothing is guessed from half a catalogue.
    """
    path = os.path.join(data_dir, CATALOGUE_FILE)
    try:
        content = json.loads(fs.read(path))
        if content["version"] != CATALOGUE_VERSION:
            raise KafkaStorageError(
                f"{path} has version {content['version']}; this tidelog reads {CATALOGUE_VERSION}"
            )
        topics = [Topic.from_json(entry) for entry in content["topics"]]
        deleted = frozenset(parse_uuid(text) for text in content.get("deleted", ()))
    except FileNotFoundError:
        return Catalogue()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KafkaStorageError(
            f"{path} does not read: {_reason(error)}; without it"
            " topics are adopted from their directories, and their settings are lost"
        ) from error
    by_name = {topic.name: topic for topic in topics}
    if len(by_name) != len(topics):
        raise KafkaStorageError(f"{path} names a topic twice")
    return Catalogue(by_name, deleted)


def _reason(error: Exception) -> str:
    """Say why a catalogue does not read; a KeyError says no more than the name it misses."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def write_catalogue(fs: FileSystem, data_dir: str, catalogue: Catalogue) -> None:
    """Replace the catalogue durably: a reader sees the old one or the new one, never a part."""
    content: dict[str, Any] = {
        "version": CATALOGUE_VERSION,
        "topics": [topic.as_json() for _, topic in sorted(catalogue.topics.items())],
    }
    if catalogue.deleted:
        content["deleted"] = sorted(map(format_uuid, catalogue.deleted))
    text = json.dumps(content, indent=2) + "\n"
    replace_file(fs, os.path.join(data_dir, CATALOGUE_FILE), text.encode())
