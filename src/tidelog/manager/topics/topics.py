"""The topics of several data directories, each of which keeps all of them in its catalogue.

Kafka keeps topics in its cluster metadata; LogManager asks its ``ConfigRepository``.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final

from tidelog.codec.one_line import first_names
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.birth import birth_values, unlike_birth
from tidelog.datadir.catalogue import (
    Catalogue,
    Topic,
    check_new_names,
    read_catalogue,
    write_catalogue,
)
from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
from tidelog.datadir.deletion_marks import (
    delete_mark,
    mark_deleted,
    marked_topics,
    without_marked,
)
from tidelog.datadir.known_setting import ConfigSource, KnownSetting
from tidelog.datadir.merged_catalogues import OwnCatalogue, merged_catalogues
from tidelog.datadir.uncatalogued_topics import (
    adopt,
    by_unknown_settings,
    deleted_partitions,
    log_adopted,
)
from tidelog.errors import (
    CommitPending,
    InvalidConfig,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.log.directory_guard import NO_RESOURCES
from tidelog.manager.topics.topic_checks import altered_config, following, new_topic
from tidelog.readonly.cluster_metadata import find_broker_settings
from tidelog.segment.filenames import TopicPartition, check_topic_type

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from random import Random
    from uuid import UUID

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.env.files import FileSystem
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.directories.log_dirs import LogDirs

_log = logging.getLogger(__name__)


class Topics:
    """All topics; every change is durable in all online directories before a method returns.

    ``_lock`` guards the catalogue and its files. A directory whose catalogue cannot be read is
    taken offline, as is one where it cannot be written though the disk is not full.
    """

    def __init__(
        self,
        dirs: LogDirs,
        config: BrokerConfig,
        *,
        fs: FileSystem,
        rng: Random,
    ) -> None:
        self.defaults = config.log_defaults
        self._of_file = _retention_of_file(config)
        self._server_properties = config.server_properties
        self._broker_settings = BrokerSettings()
        self.overrides: Mapping[str, str] = {}
        """Settings that take precedence over a topic's own, until the process ends."""
        self.reserved: dict[str, UUID] = {}
        """Topics that a committed transaction has still to create."""
        self.pinned: Collection[UUID] = ()
        """Topics whose deletion must not be forgotten: a committed transaction writes to them."""
        self._dirs: Final = dirs
        self._fs: Final = fs
        self._rng: Final = rng
        self._lock = RLock()
        self._written: dict[str, Catalogue] = {}
        self._marked: dict[str, frozenset[UUID]] = {}
        self._configs: dict[str, tuple[object, LogConfig]] = {}
        self._recorded = Catalogue()
        self._read_from: dict[str, Catalogue] = {}
        self._catalogue = self._read()
        self._tell_unlike_birth(config)
        for one in dirs:
            one.checkpoints.is_placed_here = partial(self._is_home, one.directory_id)

    def __contains__(self, name: str) -> bool:
        return name in self._catalogue.topics

    def has(self, key: TopicPartition) -> bool:
        """Return whether a topic has this partition."""
        return self._catalogue.home_of(key) is not None

    def all(self) -> dict[str, Topic]:
        """Return every topic by name."""
        return dict(self._catalogue.topics)

    def get(self, name: str) -> Topic:
        """Return one topic.

        Raises:
            UnknownTopicOrPartition: there is none.
            KafkaStorageError: none is known, but it may lie in a directory that is offline.
            InvalidArgument: the name is not text.
        """
        check_topic_type(name)
        found = self._catalogue.topics.get(name)
        if found is None:
            self._dirs.check_online(f"topic {name}")
            raise UnknownTopicOrPartition(f"there is no topic {name}")
        return found

    @property
    def deleted(self) -> Collection[UUID]:
        """The ids of topics whose deletion may not be complete."""
        return self._catalogue.deleted

    def is_deleted(self, topic_id: UUID | None) -> bool:
        """Say whether this was the id of a topic that was deleted."""
        return topic_id in self._catalogue.deleted

    def _is_home(self, directory_id: UUID, key: tuple[str, int]) -> bool:
        return self._catalogue.home_of(key) == directory_id

    def recorded_home(self, name: str, partition: int) -> UUID | None:
        """Return the directory that the files named for a partition when they were read."""
        return self._recorded.home_of((name, partition))

    def has_left(self, key: TopicPartition, data_dir: str, home: UUID) -> bool:
        """Say whether the file of ``data_dir``, as it was read, says that ``home`` has a partition.

        It does once a move from there is decided.
        """
        read = self._read_from.get(data_dir)
        return read is not None and read.home_of(key) == home

    def config_of(self, name: str) -> LogConfig:
        """Return the settings in force for a topic; the defaults where there is no such topic."""
        known = self._catalogue.topics.get(name)
        if known is None:
            return self.defaults.with_overrides(self.overrides)
        cached = self._configs.get(name)
        given = (self.defaults, known, known.inherited, self.overrides)
        if cached is None or cached[0] != given:
            config = known.config_in_force(self.defaults, self.overrides)
            cached = self._configs[name] = (given, config)
        return cached[1]

    @property
    def delete_delay_ms(self) -> int:
        """How long files stay that are renamed to be deleted."""
        return self.defaults.with_overrides(self.overrides).file_delete_delay_ms

    def log_unknown_settings(self) -> None:
        """Log the topics of which settings about deletion are unknown."""
        found = by_unknown_settings(self._catalogue.topics.values())
        for unknown, names in found.items():
            if unknown:
                _log.warning(
                    "topic-settings-unknown count=%d unknown=%s topic=%s",
                    *(len(names), unknown, first_names(names)),
                )

    def elsewhere(self) -> dict[UUID, list[TopicPartition]]:
        """Return the partitions whose data directory is not in use, by its id."""
        in_use = {one.directory_id for one in self._dirs}
        found: dict[UUID, list[TopicPartition]] = {}
        for name, topic in sorted(self._catalogue.topics.items()):
            for number, home in topic.partitions.items():
                if home not in in_use:
                    found.setdefault(home, []).append(TopicPartition(name, number))
        return found

    def log_elsewhere(self) -> None:
        """Log the partitions whose data directory is not in use."""
        for home, keys in self.elsewhere().items():
            names = first_names(list(dict.fromkeys(key.topic for key in keys)))
            text = "partitions-elsewhere count=%d directory_id=%s topic=%s"
            _log.warning(text, len(keys), format_uuid(home), names)

    def config_with(
        self,
        name: str,
        overrides: Mapping[str, str],
        server_properties: Mapping[str, str] | None = None,
    ) -> LogConfig:
        """Return the settings of a topic with further overrides, for one operation.

        ``server_properties`` stand for those of the broker that wrote the topic. Raises
        UnknownTopicOrPartition.
        """
        topic = self.get(name)
        if server_properties is not None:
            topic = topic.inheriting(replace(self._broker_settings, static=server_properties))
        return topic.config_in_force(self.defaults, {**self.overrides, **overrides})

    def reconfigure(self, config: BrokerConfig) -> None:
        """Replace the settings that stand for what topics do not set.

        Raises InvalidConfig, with nothing changed, for defaults that contradict a topic's own
        settings. (A contradiction that was there at start is not new.)
        """
        with self._lock:
            settings = replace(self._broker_settings, static=config.server_properties)
            of_file = _retention_of_file(config)
            changed = self._catalogue.inheriting(settings, of_file)
            problems = [
                problem
                for name, topic in sorted(changed.topics.items())
                if not self._catalogue.topics[name].conflicts(self.defaults)
                for problem in topic.conflicts(config.log_defaults)
            ]
            if problems:
                raise InvalidConfig(tuple(problems))
            self._broker_settings, self._catalogue = settings, changed
            self._of_file = of_file
            if config.log_defaults != self.defaults:
                self._tell_unlike_birth(config)
            self.defaults = config.log_defaults

    def check_new(self, new: Mapping[str, UUID]) -> None:
        """Raise unless topics of these names and ids may be created, all of them.

        Raises CommitPending where a committed transaction has still to create one of a name,
        otherwise as ``check_new_names``, for which such topics exist already.
        """
        with self._lock:
            for name, topic_id in new.items():
                if self.reserved.get(name, topic_id) != topic_id:
                    raise CommitPending(f"a committed transaction is to create topic {name}")
            known: AbstractSet[str] = self._catalogue.topics.keys()
            if reserved := self.reserved.keys() - new.keys():
                known = known | reserved
            check_new_names(new, known)

    def known_as(self, topic: Topic) -> Topic | None:
        """Return the topic of this name, if it has the same settings and number of partitions."""
        known = self._catalogue.topics.get(topic.name)
        if known is None or dict(known.config) != dict(topic.config):
            return None
        return known if len(known.partitions) == len(topic.partitions) else None

    def planned(
        self,
        name: str,
        topic_id: UUID,
        homes: Sequence[UUID],
        config: Mapping[str, str],
        birth: Mapping[str, str] | None = None,
    ) -> Topic:
        """Return a topic to be added; see ``new_topic``.

        ``homes`` are the ids of its partitions' directories. ``birth``: its birth values; None: by
        the settings of this process.
        """
        born = birth_values(self.defaults) if birth is None else birth
        return new_topic(name, topic_id, homes, config, born, defaults=self.defaults)

    def add(self, topics: Sequence[Topic]) -> None:
        """Add new topics, all with one write of the catalogue; errors as of ``check_new``."""
        with self._lock:
            self.check_new({topic.name: topic.topic_id for topic in topics})
            self._write(self._catalogue.with_topics(topics))

    def alter(
        self,
        name: str,
        settings: Mapping[str, str],
        unset: Collection[str] = (),
        follow: Collection[str] = (),
    ) -> Topic:
        """Change settings of a topic; raise InvalidConfig, or UnknownTopicOrPartition."""
        with self._lock:
            topic = self.get(name)
            followed = replace(topic, birth=following(topic, follow)) if follow else topic
            config = altered_config(followed, settings, unset, defaults=self.defaults)
            return self._replace(followed.changed(config=config))

    def extend(self, name: str, homes: Sequence[UUID]) -> Topic:
        """Add partitions after the last, each in the directory of that id; see ``new_topic``."""
        with self._lock:
            topic = self.get(name)
            first = max(topic.partitions) + 1
            added = dict(enumerate(homes, start=first))
            return self._replace(topic.changed(partitions={**topic.partitions, **added}))

    def shrink(self, name: str, numbers: Collection[int]) -> None:
        """Undo an ``extend`` by the partitions of these numbers."""
        with self._lock:
            topic = self.get(name)
            kept = {at: home for at, home in topic.partitions.items() if at not in numbers}
            self._replace(topic.changed(partitions=kept))

    def place(self, name: str, partition: int, home: UUID) -> None:
        """Note where a partition lies; no catalogue has the topic of Kafka's own metadata.

        The directory that gets it is written last. A crash in between leaves no directory that a
        command, which opens it alone, would append to: all others name a later place already.
        """
        with self._lock:
            topic = self._catalogue.topics.get(name)
            if topic is not None and topic.partitions.get(partition) != home:
                partitions = {**topic.partitions, partition: home}
                self._replace(topic.changed(partitions=partitions), last=home)

    def is_placed(self, name: str, partition: int, home: UUID) -> bool:
        """Say whether the file of every directory in use is known to place a partition here."""
        with self._lock:
            written = [self._written.get(one.path) for one in self._dirs]
            return all(
                one is not None and one.home_of((name, partition)) == home for one in written
            )

    def restore_place(self, name: str, partition: int, home: UUID) -> None:
        """Undo a ``place`` that failed half-way, in some of the files but not in others.

        The topic becomes a later revision than the one that may have been written. The directory
        that keeps the partition is written last, as by ``place``.
        """
        with self._lock:
            topic = self._catalogue.topics[name]
            partitions = {**topic.partitions, partition: home}
            self._replace(topic.changed(partitions=partitions).changed(), last=home)

    def delete(self, name: str) -> None:
        """Take a topic away; what is left of its directories is deleted, not adopted."""
        with self._lock:
            self._write(self._catalogue.without(name))
            self._configs.pop(name, None)

    def delete_by_marks(self, name: str, data_dirs: Sequence[str]) -> None:
        """Take a topic away on a full disk; the next catalogue to be written lacks it.

        Raises KafkaStorageError if there is not even room for a mark in each of these directories;
        nothing has changed then.
        """
        with self._lock:
            topic_id = self.get(name).topic_id
            for path in data_dirs:
                self._marked[path] = self._marked.get(path, frozenset()) | {topic_id}
                try:
                    mark_deleted(self._fs, path, topic_id)
                except OSError as error:
                    self._dirs.note_error(path, error)
                    for marked in data_dirs:
                        self._delete_marks(marked, frozenset({topic_id}))
                    raise KafkaStorageError(f"deleting {name} in {path}: {error}") from error
            self._catalogue = self._catalogue.without(name)
            self._configs.pop(name, None)

    def _delete_marks(self, path: str, topic_ids: frozenset[UUID]) -> None:
        """Delete marks of topics, as far as the disk allows; the rest at the next chance."""
        marked = self._marked.get(path, frozenset())
        for topic_id in marked & topic_ids:
            with suppress(OSError):
                delete_mark(self._fs, path, topic_id)
                marked -= {topic_id}
        self._marked[path] = marked

    def deleted_partitions(self, data_dir: str) -> list[TopicPartition]:
        """Return the partitions in a directory whose topic was deleted."""
        return list(deleted_partitions(self._fs, data_dir, self._catalogue))

    def forget_deleted(self, topic_id: UUID | None = None) -> None:
        """Forget a deleted topic, or all, once no directory of it can be left."""
        with self._lock:
            gone = self._catalogue.deleted if topic_id is None else {topic_id}
            kept = self._catalogue.deleted - (gone - set(self.pinned))
            if kept != self._catalogue.deleted and not self._dirs.failures:
                self._write(Catalogue(self._catalogue.topics, kept))

    def write_where_needed(self) -> None:
        """Bring the files of all directories up to date."""
        with self._lock:
            self._write(self._catalogue)

    def write_where_not_undone(self) -> None:
        """Write the catalogue if some directory may still have that of a change that failed."""
        with self._lock:
            if any(one.path not in self._written for one in self._dirs):
                self._write(self._catalogue)

    def _read(self) -> Catalogue:
        read: list[LogDir] = []
        for one in self._dirs:
            try:
                catalogue = read_catalogue(self._fs, one.path)
                marked = self._marked[one.path] = marked_topics(self._fs, one.path)
            except (OSError, KafkaStorageError) as error:
                self._dirs.not_read("topics", one.path, error)
                continue
            self._written[one.path] = catalogue
            self._read_from[one.path] = without_marked(catalogue, marked)
            read.append(one)
        known = [
            OwnCatalogue(one.path, one.directory_id, self._read_from[one.path]) for one in read
        ]
        merged = self._recorded = merged_catalogues(self._fs, known, is_writer=True)
        adopted: list[tuple[str, set[str]]] = []
        for one in read:
            try:
                before = merged
                merged = adopt(
                    self._fs,
                    one.path,
                    before,
                    directory_id=one.directory_id,
                    rng=self._rng,
                    links=self._dirs.links,
                )
                adopted.append((one.path, merged.topics.keys() - before.topics.keys()))
            except (OSError, KafkaStorageError) as error:
                self._dirs.not_read("topics", one.path, error)
        merged = self._inheriting(merged)
        for path, names in adopted:
            log_adopted(path, [merged.topics[name] for name in names])
        return merged

    def _inheriting(self, catalogue: Catalogue) -> Catalogue:
        """Return the catalogue with what is known from outside of it."""
        ids = {topic.topic_id for topic in catalogue.topics.values() if topic.is_adopted}
        if ids:
            self._broker_settings = find_broker_settings(
                [one.path for one in self._dirs],
                fs=self._fs,
                topic_ids=ids,
                server_properties=self._server_properties,
            )
        return catalogue.inheriting(self._broker_settings, self._of_file)

    def _tell_unlike_birth(self, config: BrokerConfig) -> None:
        """Log, once per topic, the given settings that differ from its birth values."""
        born = birth_values(config.log_defaults)
        given = {name: value for name, value in born.items() if name in config.given}
        for name, topic in sorted(self._catalogue.topics.items()) if given else ():
            others = {key: value for key, value in given.items() if key not in topic.config}
            unlike = [
                f"{key}={ours}, not {theirs}"
                for key, ours, theirs in unlike_birth(topic.inherited, others)
            ]
            if unlike:
                _log.warning("topic-settings-of-birth topic=%s kept=%s", name, "; ".join(unlike))

    def _replace(self, changed: Topic, *, last: UUID | None = None) -> Topic:
        """Write a topic in place of the one of its name; see ``_write``."""
        self._write(self._catalogue.replacing(changed), last=last)
        return changed

    def _write(self, catalogue: Catalogue, *, last: UUID | None = None) -> None:
        """Write the catalogue where it differs from what stands there, then take it as ours.

        If a directory cannot be written, or an interrupt comes, it and those before it get back
        what they had. ``last`` is the id of the directory to be written last.
        """
        replaced: list[tuple[str, Catalogue]] = []
        try:
            for one in sorted(self._dirs, key=lambda one: one.directory_id == last):
                before = self._written.get(one.path)
                if before != catalogue:
                    replaced.append((one.path, self._catalogue if before is None else before))
                    self._write_one(one.path, catalogue, replaced)
            self._catalogue = catalogue
        except BaseException:
            self._restore(replaced)
            raise
        for one in self._dirs:
            self._delete_marks(one.path, self._marked.get(one.path, frozenset()))

    def _write_one(
        self, path: str, catalogue: Catalogue, replaced: list[tuple[str, Catalogue]]
    ) -> None:
        """Write it to a directory, the last of ``replaced`` unless the file is as it was."""
        try:
            write_catalogue(self._fs, path, catalogue)
        except OSError as error:
            if error.errno not in NO_RESOURCES:  # else perhaps in place, and only not synced
                replaced.pop()
            self._dirs.note_error(path, error)
            raise KafkaStorageError(f"writing the topics of {path}: {error}") from error
        self._written[path] = catalogue

    def _restore(self, replaced: Sequence[tuple[str, Catalogue]]) -> None:
        """Write what stood in directories before; one where that fails is left to the next write.

        Until then either may stand there.
        """
        for path, catalogue in replaced:
            self._written.pop(path, None)
            try:
                write_catalogue(self._fs, path, catalogue)
            except OSError as error:
                _log.warning("topics-not-restored directory=%s reason=%s", path, error)
                self._dirs.note_error(path, error)
            else:
                self._written[path] = catalogue


def _retention_of_file(config: BrokerConfig) -> Mapping[str, KnownSetting]:
    """Return the retention of topics without birth values, if the service's file names one."""
    if not config.is_retention_in_file:
        return {}
    value = str(config.log_defaults.retention_ms)
    return {"retention.ms": KnownSetting(value, ConfigSource.STATIC)}
