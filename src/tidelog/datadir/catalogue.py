"""The topics of a data directory: one small durable file, ``tidelog.topics.json``.

It holds each topic's name, id, partitions and settings. Kafka keeps these in the metadata of the
cluster; a directory that Kafka wrote has no such file, so its topics are adopted from directory
names and ``partition.metadata``.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.checkpoint_file import read_if_there, replace_file
from tidelog.codec.one_line import Drawing, shortened
from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.datadir.birth import read_birth
from tidelog.datadir.effective_config import TopicSettings
from tidelog.datadir.versioned_file import MALFORMED
from tidelog.errors import (
    CorruptFile,
    InvalidConfig,
    InvalidTopic,
    KafkaStorageError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.records.batch import INT32_MAX
from tidelog.segment.filenames import check_topic_name, log_directory_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
    from tidelog.datadir.known_setting import KnownSetting
    from tidelog.env.files import FileSystem

CATALOGUE_FILE: Final = "tidelog.topics.json"
CATALOGUE_VERSION: Final = 3
"""The newest form, with birth values. Version 2 says that settings are unknown, version 1 does not.
A file is written in the oldest form that can say all of it, so that older releases read it."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""Kafka's own log of its cluster, which no log manager touches."""

_READABLE_VERSIONS: Final = (1, 2, CATALOGUE_VERSION)
NOTHING_KNOWN: Final[Mapping[str, KnownSetting]] = MappingProxyType({})
_KEPT: Final = 2
"""Parsed catalogues: of a mirror's source and target. All directories of a service have one."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True, repr=False)
class Topic(TopicSettings):
    """One topic as this data directory knows it.

    ``partitions`` maps each partition number to the ``directory.id`` that holds it; ``config``
    holds the settings that differ from the defaults, under Kafka's names. ``revision`` counts the
    changes: where the catalogues of two directories differ, the higher one is the later one.
    ``is_adopted``: the topic was found in the directory, as Kafka leaves it, without its settings;
    only those in ``config`` and ``given`` are known. ``given`` comes from outside the catalogue and
    is never written into it: the settings of the broker that wrote the topic, as read when the
    directory was opened; of a topic without ``birth`` the retention in the file of the service.
    """

    name: str
    topic_id: UUID
    partitions: Mapping[int, UUID]
    config: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0
    is_adopted: bool = False
    birth: Mapping[str, str] | None = None
    given: Mapping[str, KnownSetting] = field(default_factory=dict, compare=False)
    _entry: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _drawing: Drawing | None = field(default=None, init=False, repr=False, compare=False)

    def _told(self) -> str:
        config = shortened(dict(self.config))
        return f"{self.name!r}: partitions={len(self.partitions)}, config={config}"

    def conflicts(self, defaults: LogConfig) -> tuple[str, ...]:
        """Return why the topic's settings and ``defaults`` do not go together; empty if they do."""
        inherited = {name: setting.value for name, setting in self.inherited.items()}
        try:
            defaults.with_overrides(inherited | dict(self.config))
        except InvalidConfig as error:
            return tuple(f"topic {self.name}: {problem}" for problem in error.problems)
        return ()

    def inheriting(
        self, settings: BrokerSettings, of_file: Mapping[str, KnownSetting] = NOTHING_KNOWN
    ) -> Topic:
        """Return the topic with what is known from outside the catalogue; see ``given``."""
        if self.is_adopted:
            return replace(self, given=settings.of_topic(self.name, self.topic_id))
        return self if self.birth is not None else replace(self, given=of_file)

    def home_of(self, number: int) -> UUID:
        """Return the id of the directory that has a partition; raise UnknownTopicOrPartition."""
        home = self.partitions.get(number)
        if home is None:
            raise UnknownTopicOrPartition(f"topic {self.name} has no partition {number}")
        return home

    def defaults_of(self, defaults: LogConfig) -> LogConfig:
        """Return what holds for the settings that the topic does not set itself.

        The settings of a broker are left out if they contradict ``defaults``.
        """
        inherited = {name: one.value for name, one in self.inherited.items()}
        try:
            return defaults.with_overrides(inherited)
        except InvalidConfig:
            if not self.is_adopted:
                raise
            return defaults

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
        if self.is_adopted:
            entry["adopted"] = True
        if self.birth is not None:
            entry["birth"] = dict(sorted(self.birth.items()))
        return {**entry, "revision": self.revision} if self.revision else entry

    @property
    def entry(self) -> bytes:
        """The topic's entry as the file has it, with its indent.

        It is made once: each change of a catalogue writes all of its topics.
        """
        if self._entry is not None:
            return self._entry
        made = textwrap.indent(json.dumps(self.as_json(), indent=2), " " * 4).encode()
        object.__setattr__(self, "_entry", made)
        return made

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Topic:
        """Read one entry of the catalogue file.

        Raises ValueError, KeyError, TypeError or AttributeError for an entry of another form, and
        InvalidTopic for a name that Kafka does not allow: names become paths.
        """
        name = entry["name"]
        if not isinstance(name, str):
            raise TypeError(f"the topic name {name!r} is not text")
        check_topic_name(name)
        # Most partitions name the same directory.
        directory_ids = {text: parse_uuid(text) for text in set(entry["partitions"].values())}
        return cls(
            name=name,
            topic_id=parse_uuid(entry["id"]),
            partitions={
                _partition_number(number): directory_ids[directory_id]
                for number, directory_id in entry["partitions"].items()
            },
            config={str(key): str(value) for key, value in entry["config"].items()},
            revision=int(entry.get("revision", 0)),
            is_adopted=bool(entry.get("adopted", False)),
            birth=read_birth(entry["birth"]) if "birth" in entry else None,
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


def check_new_names(names: Iterable[str], known: Collection[str]) -> None:
    """Raise unless topics may have these names beside the ``known`` ones, and each other.

    Raises TopicAlreadyExists where a name is taken, InvalidTopic where it differs from another one
    only by dots for underscores, which metric names do not distinguish. Source: Kafka
    Topic.hasCollision.
    """
    added: set[str] = set()
    of_metrics: dict[str, str] | None = None
    for name in names:
        if name in known or name in added:
            raise TopicAlreadyExists(f"topic {name} exists")
        added.add(name)
        of_metric = name.replace(".", "_")
        if "_" not in of_metric:
            continue  # only a name with one of the two may collide, and all are many
        if of_metrics is None:
            of_metrics = {other.replace(".", "_"): other for other in known}
        other = of_metrics.setdefault(of_metric, name)
        if other != name:
            raise InvalidTopic(f"topic {name} collides with {other}: their metrics have one name")


def _partition_number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > INT32_MAX:
        raise ValueError(f"{text!r} is not a partition number")
    return int(text)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All topics of one data directory; a change makes a new value, written whole.

    ``deleted`` holds the ids of deleted topics that may still have a directory: such a directory is
    not adopted as a topic.
    """

    topics: Mapping[str, Topic] = field(default_factory=dict)
    deleted: frozenset[UUID] = frozenset()

    def with_topics(self, topics: Sequence[Topic]) -> Catalogue:
        """Add topics; errors as of ``check_new_names``."""
        check_new_names([topic.name for topic in topics], self.topics)
        return replace(self, topics={**self.topics, **{topic.name: topic for topic in topics}})

    def home_of(self, key: tuple[str, int]) -> UUID | None:
        """Return the id of the directory of a partition; None for one that is not listed."""
        topic = self.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def of(self, name: str) -> Catalogue:
        """Return what it says of one topic."""
        topic = self.topics.get(name)
        return replace(self, topics={} if topic is None else {name: topic})

    def directory_names(self) -> set[str]:
        """Return the names of the directories of all partitions."""
        return {
            log_directory_name(topic.name, number)
            for topic in self.topics.values()
            for number in topic.partitions
        }

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

    def inheriting(
        self, settings: BrokerSettings, of_file: Mapping[str, KnownSetting] = NOTHING_KNOWN
    ) -> Catalogue:
        """Return the catalogue with what is known from outside of it; see ``Topic.given``."""
        topics = {n: topic.inheriting(settings, of_file) for n, topic in self.topics.items()}
        return replace(self, topics=topics)

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

    Equal bytes are parsed once: all directories of a service have them, and a program beside it
    reads them for each call. That size and time are equal would not do, as the file may be replaced
    within one tick of the clock.

    Raises:
        KafkaStorageError: the file is unreadable; half a catalogue is not used.
    """
    path = catalogue_path(data_dir)
    data = read_if_there(fs, path)
    try:
        return Catalogue() if data is None else _parsed(data)
    except MALFORMED as error:
        raise CorruptFile(
            f"{path} cannot be read: {_reason(error)}; without it"
            " topics are adopted from their directories, and their settings are lost"
        ) from error
    except KafkaStorageError as error:
        raise KafkaStorageError(f"{path} {error}") from error


def catalogue_path(data_dir: str) -> str:
    """Return the path of the catalogue of a data directory."""
    return os.path.join(data_dir, CATALOGUE_FILE)


@lru_cache(_KEPT)
def _parsed(data: bytes) -> Catalogue:
    content = json.loads(data)
    if content["version"] not in _READABLE_VERSIONS:
        raise KafkaStorageError(
            f"has version {content['version']}; this tidelog reads up to {CATALOGUE_VERSION}"
        )
    topics = {entry["name"]: Topic.from_json(entry) for entry in content["topics"]}
    if len(topics) != len(content["topics"]):
        raise ValueError("it names a topic twice")
    deleted = frozenset(parse_uuid(text) for text in content.get("deleted", ()))
    return Catalogue(topics, deleted)


def _reason(error: Exception) -> str:
    """Say why a catalogue cannot be read; a KeyError says no more than the name it misses."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _version(catalogue: Catalogue) -> int:
    topics = catalogue.topics.values()
    if any(topic.birth is not None for topic in topics):
        return CATALOGUE_VERSION
    return 2 if any(topic.is_adopted for topic in topics) else 1


def write_catalogue(fs: FileSystem, data_dir: str, catalogue: Catalogue) -> None:
    """Replace the catalogue durably: a reader sees the old one or the new one, never a part."""
    replace_file(fs, catalogue_path(data_dir), pack_catalogue(catalogue))


def pack_catalogue(catalogue: Catalogue) -> bytes:
    """Return the bytes of the file, copied once: each change of a topic writes all of them."""
    entries = [catalogue.topics[name].entry for name in sorted(catalogue.topics)]
    head = b'{\n  "version": %d,\n  "topics": [' % _version(catalogue)
    tail = b"\n  ]" if entries else b"]"
    if catalogue.deleted:
        deleted = json.dumps(sorted(map(format_uuid, catalogue.deleted)), indent=2)
        tail += b',\n  "deleted": %b' % deleted.replace("\n", "\n  ").encode()
    parts = entries or [b""]
    parts[0] = head + (b"\n" if entries else b"") + parts[0]
    parts[-1] += tail + b"\n}\n"
    return b",\n".join(parts)
