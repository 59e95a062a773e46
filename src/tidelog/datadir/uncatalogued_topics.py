"""Topics that lie in a data directory without being in its catalogue, as Kafka leaves them.

Their partitions are known by the names of directories, their ids by ``partition.metadata``. Kafka
keeps topics in the metadata of the cluster instead.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from tidelog.codec.one_line import first_names
from tidelog.datadir.catalogue import METADATA_TOPIC, Topic
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.datadir.partition_directories import live_partitions, random_id, survey
from tidelog.errors import KafkaStorageError
from tidelog.log.topic_id import PARTITION_METADATA_FILE, is_other_topic, read_partition_metadata
from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random
    from uuid import UUID

    from tidelog.datadir.catalogue import Catalogue
    from tidelog.datadir.partition_directories import PartitionLinks
    from tidelog.env.files import FileSystem
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)


def adopt(
    fs: FileSystem,
    data_dir: str,
    catalogue: Catalogue,
    *,
    directory_id: UUID,
    rng: Random,
    links: PartitionLinks | None = None,
) -> Catalogue:
    """Return ``catalogue`` with every live partition of the directory in it; changes no file.

    The settings of a topic so found are unknown: Kafka keeps them elsewhere. Directories that are
    not partitions are named in a warning and left alone. ``links``: see ``survey``.

    A topic whose partitions have no id on disk gets a new one, which is the topic's from the moment
    one of its logs is loaded. Of a topic that is known, partitions with another id are strays, and
    left out, with a warning; of others they are adopted all the same, and loading their logs fails
    with that error. A topic whose id is on disk but cannot be read is left out, with a warning:
    with another id its logs would be strays once the file is restored.
    """
    listed = catalogue.directory_names()
    found: dict[str, list[int]] = {}
    deleted = set(deleted_partitions(fs, data_dir, catalogue))
    surveyed = survey(fs, data_dir, without=listed, links=links)
    for name, reason in surveyed.foreign.items():
        _log.warning(
            "foreign-directory-ignored directory=%s reason=%s", os.path.join(data_dir, name), reason
        )
    for key in surveyed.live:
        if key in deleted or key.topic == METADATA_TOPIC:
            continue
        if not _is_stray(fs, data_dir, key, catalogue.topics.get(key.topic)):
            found.setdefault(key.topic, []).append(key.partition)
    topics = []
    for name, numbers in found.items():
        known = catalogue.topics.get(name)
        try:
            topic_id = known.topic_id if known else _topic_id(fs, data_dir, name, numbers)
        except KafkaStorageError as error:
            reason = str(error)
            _log.warning(
                "topic-not-adopted directory=%s topic=%s reason=%s", data_dir, name, reason
            )
            continue
        partitions = dict.fromkeys(numbers, directory_id)
        config = INTERNAL_SETTINGS.get(name, NO_SETTINGS)
        topics.append(
            Topic(name, topic_id or random_id(rng), partitions, dict(config), is_adopted=True)
        )
    return catalogue.adopting(topics)


def _is_stray(fs: FileSystem, data_dir: str, key: TopicPartition, known: Topic | None) -> bool:
    """Return whether an unlisted partition is of another topic than the known one of its name."""
    if known is None:
        return False
    path = os.path.join(data_dir, log_directory_name(*key))
    topic_id = readable_topic_id(fs, path)
    if not is_other_topic(topic_id, known.topic_id):
        return False
    # The topic would get a partition that it never had, and that no log can be loaded for.
    _log.warning("log-stray directory=%s topic_id=%s", path, topic_id)
    return True


def log_adopted(data_dir: str, topics: Iterable[Topic]) -> None:
    """Log the topics that were not known: Kafka wrote them, or the catalogue was lost.

    A broker's directory has thousands: they share a line where the same settings are unknown.
    """
    for unknown, names in by_unknown_settings(topics).items():
        # That a topic is new here matters less than that settings of it are unknown.
        _log.log(
            logging.WARNING if unknown else logging.INFO,
            "topic-adopted directory=%s count=%d unknown=%s topic=%s",
            *(data_dir, len(names), unknown or "none", first_names(names)),
        )


def by_unknown_settings(topics: Iterable[Topic]) -> dict[str, list[str]]:
    """Return the names of topics, sorted, by the settings that are unknown of them."""
    found: dict[str, list[str]] = {}
    for topic in sorted(topics, key=lambda one: one.name):
        found.setdefault(",".join(topic.unknown_settings), []).append(topic.name)
    return found


def deleted_partitions(
    fs: FileSystem, data_dir: str, catalogue: Catalogue
) -> Iterator[TopicPartition]:
    """Yield the partitions of deleted topics whose directories are still there."""
    if not catalogue.deleted:
        return
    for key in live_partitions(fs, data_dir):
        path = os.path.join(data_dir, log_directory_name(*key))
        if readable_topic_id(fs, path) in catalogue.deleted:
            yield key


def readable_topic_id(fs: FileSystem, directory: str) -> UUID | None:
    """Return the topic id in a partition's directory; None without one, or if it is damaged.

    Damage is logged. It concerns this partition, not the directories beside it.
    """
    try:
        return read_partition_metadata(fs, os.path.join(directory, PARTITION_METADATA_FILE))
    except KafkaStorageError as error:
        _log.warning("topic-id-unreadable directory=%s reason=%s", directory, error)
        return None


def _topic_id(fs: FileSystem, data_dir: str, name: str, numbers: list[int]) -> UUID | None:
    """Return the first id that a partition of the topic has on disk.

    Raises KafkaStorageError if there is none but one that is damaged.
    """
    damage = None
    for number in numbers:
        path = os.path.join(data_dir, f"{name}-{number}", PARTITION_METADATA_FILE)
        try:
            topic_id = read_partition_metadata(fs, path)
        except KafkaStorageError as error:
            damage = error
            continue
        if topic_id is not None:
            return topic_id
    if damage is not None:
        raise damage
    return None
