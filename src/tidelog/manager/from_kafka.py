"""Taking data directories over from a broker of Kafka, with what its metadata names.

A directory of Kafka's opens as it is; what its topics are is then read from ``__cluster_metadata``
each time. Here ids, partitions and settings become those of the catalogue, also of topics that
tidelog handed over and that were changed, deleted or created again by Kafka meanwhile.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.datadir.catalogue import METADATA_TOPIC, Catalogue, write_catalogue
from tidelog.datadir.cluster_metadata.broker_settings import formatted, is_default
from tidelog.datadir.deletion_marks import read_catalogue_in_force
from tidelog.datadir.effective_config import without_tiers
from tidelog.datadir.known_setting import ConfigSource
from tidelog.datadir.partition_directories import live_partitions
from tidelog.datadir.uncatalogued_topics import adopt, readable_topic_id
from tidelog.errors import CommitPending, KafkaStorageError
from tidelog.readonly.cluster_metadata import find_broker_settings
from tidelog.segment.filenames import TopicPartition, log_directory_name
from tidelog.staging.journal_names import list_journals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
    from tidelog.env.files import FileSystem
    from tidelog.manager.directories.log_dirs import LogDirs


class TakenOver(NamedTuple):
    """A topic as the catalogue has it now; ``before`` as it had it, None if it is new there.

    ``topic`` is None if Kafka deleted it.
    """

    name: str
    topic: Topic | None
    before: Topic | None


def take_over(
    dirs: LogDirs,
    *,
    fs: FileSystem,
    rng: Random,
    server_properties: Mapping[str, str] | None = None,
) -> list[TakenOver]:
    """Write what the metadata in locked directories names into their catalogues; return it.

    ``server_properties`` are those of the broker; without them settings that nothing else names
    stay unknown, and nothing is deleted by them.

    Raises:
        CommitPending: a transaction is committed and not applied.
        KafkaStorageError: there is no metadata that can be used, or a disk failed or is full. Some
            directories may be taken over then; repeat it.
    """
    before, ids = Catalogue(), {}
    for one in dirs:
        with dirs.failing(one.path, "reading the topics"):
            if list_journals(fs, one.path):
                raise CommitPending(
                    f"{one.path} holds transactions that are not applied yet: see tidelog staged"
                    " list"
                )
            before = before.merged(read_catalogue_in_force(fs, one.path))
            ids.update(_ids_on_disk(fs, one.path))
    settings = find_broker_settings(
        [one.path for one in dirs],
        fs=fs,
        topic_ids=set(ids.values()),
        server_properties=server_properties,
    )
    if settings.image is None:
        paths = ", ".join(one.path for one in dirs)
        raise KafkaStorageError(f"there is no {METADATA_TOPIC}-0 in {paths} that can be used")
    after = _without_deleted(before, settings, ids, {one.directory_id for one in dirs})
    for one in dirs:
        home_id = one.directory_id
        with dirs.failing(one.path, "reading the topics"):
            after = adopt(fs, one.path, after, directory_id=home_id, rng=rng, links=dirs.links)
    after = _with_settings(after, settings)
    for one in dirs:
        with dirs.failing(one.path, "writing the topics"):
            if read_catalogue_in_force(fs, one.path) != after:
                write_catalogue(fs, one.path, after)
    names = sorted({*before.topics, *after.topics})
    return [TakenOver(name, after.topics.get(name), before.topics.get(name)) for name in names]


def _ids_on_disk(fs: FileSystem, path: str) -> dict[TopicPartition, UUID]:
    """Return the topic ids of the partitions in a directory that have one."""
    found = {}
    for key in live_partitions(fs, path):
        topic_id = readable_topic_id(fs, os.path.join(path, log_directory_name(*key)))
        if topic_id is not None:
            found[TopicPartition(*key)] = topic_id
    return found


def _without_deleted(
    catalogue: Catalogue,
    settings: BrokerSettings,
    ids: Mapping[TopicPartition, UUID],
    homes: set[UUID],
) -> Catalogue:
    """Leave out the topics that Kafka deleted: none of their partitions is there.

    Topics with partitions in directories other than ``homes`` stay: nobody has looked there.
    """
    there = {(key.topic, topic_id) for key, topic_id in ids.items()}
    topics = {
        name: topic
        for name, topic in catalogue.topics.items()
        if settings.knows(name, topic.topic_id)
        or (name, topic.topic_id) in there
        or not homes.issuperset(topic.partitions.values())
    }
    return replace(catalogue, topics=topics)


def _with_settings(catalogue: Catalogue, settings: BrokerSettings) -> Catalogue:
    for topic in catalogue.topics.values():
        if settings.knows(topic.name, topic.topic_id):
            config = _config(topic, settings)
            if config != topic.config:
                catalogue = catalogue.replacing(topic.changed(config=config))
    return catalogue


def _config(topic: Topic, settings: BrokerSettings) -> dict[str, str]:
    """Return the settings of a topic that the metadata knows.

    Those of an adopted topic that decide what is deleted stay, unless a record names them: nothing
    becomes unknown here. A birth value that was handed over to the broker does not become a setting
    of the topic's own when it comes back. What was not handed over, about its archive, stays: the
    log would lose what only the archive has.
    """
    config, born = {}, {}
    if topic.is_adopted:
        config = {key: topic.config[key] for key in DELETION_SETTINGS if key in topic.config}
    else:
        _, left_out = without_tiers(topic.config)
        config = {key: topic.config[key] for key in left_out}
        born = {key: one.value for key, one in topic.inherited.items() if key not in topic.config}
    for key, setting in settings.of_topic(topic.name, topic.topic_id).items():
        is_own = setting.source is ConfigSource.TOPIC
        decides = topic.is_adopted and key in DELETION_SETTINGS
        if key in born and formatted(key, born[key]) == setting.value:
            continue
        if is_own or decides or key in born or not is_default(key, setting.value):
            config[key] = setting.value
    return config
