"""What the catalogues of several data directories say together.

Every directory of a process has the topics of all. Their files differ where one was away, or a
crash came between two of them. Kafka has one copy, in the metadata of its cluster.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import CATALOGUE_FILE, Catalogue, Topic
from tidelog.errors import InconsistentTopicId, KafkaStorageError
from tidelog.log.topic_id import is_other_topic, topic_id_or_none
from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from tidelog.env.files import FileSystem

_log = logging.getLogger(__name__)


class OwnCatalogue(NamedTuple):
    """What one data directory says of topics, those that are marked as deleted left out."""

    path: str
    directory_id: UUID | None
    catalogue: Catalogue


def merged_catalogues(
    fs: FileSystem,
    read: Sequence[OwnCatalogue],
    *,
    is_writer: bool = False,
) -> Catalogue:
    """Return the union of what the directories that were read know.

    Of two topics of one name, neither of them deleted, it is the one that has logs; if both have
    some, a writer gets InconsistentTopicId. It would rename one of them to a stray, maybe that of
    today: an older copy of a disk may have the later revision.

    A topic is left out that none of the directories of its partitions has: a process that opened
    them alone has deleted it since, and perhaps made it again. (Where one of them was not read it
    may be there.) Equal catalogues, which are one object, are taken once.
    """
    distinct = {id(one.catalogue): one for one in read}.values()
    if len(distinct) == 1:
        return read[0].catalogue
    merged = Catalogue()
    by_id = {one.directory_id: one for one in read if one.directory_id is not None}
    deleted = {gone for one in distinct for gone in one.catalogue.deleted}
    for one in distinct:
        topics = {}
        for name, topic in one.catalogue.topics.items():
            homes = [by_id.get(home) for home in set(topic.partitions.values())]
            if homes and not any(at is None or _has_topic(fs, at, topic) for at in homes):
                _log.info("topic-outdated directory=%s topic=%s", one.path, name)
                continue
            topics[name] = topic
            known = merged.topics.get(name)
            if known is None or known.topic_id == topic.topic_id:
                continue
            if {known.topic_id, topic.topic_id} & deleted:
                continue
            there, here = _log_of(fs, by_id, known), _log_of(fs, by_id, topic)
            if there and here and is_writer:
                raise InconsistentTopicId(_two_topics(known, there, topic, here))
            if there and here == "":
                del topics[name]
            elif here and there == "":
                merged = merged.replacing(topic)
        merged = merged.merged(replace(one.catalogue, topics=topics))
    return merged


def _log_of(fs: FileSystem, by_id: Mapping[UUID, OwnCatalogue], topic: Topic) -> str | None:
    """Return the path of a log of this topic, by its id; empty: there is none, None: unknown."""
    none: str | None = ""
    for number, home_id in topic.partitions.items():
        home = by_id.get(home_id)
        if home is None:
            none = None
            continue
        path = os.path.join(home.path, log_directory_name(topic.name, number))
        try:
            if fs.exists(path) and topic_id_or_none(fs, path) == topic.topic_id:
                return path
        except (OSError, KafkaStorageError):  # the opening of the log says why
            none = None
    return none


def _two_topics(one: Topic, its_path: str, other: Topic, others_path: str) -> str:
    return (
        f"two topics are named {one.name}: {its_path} has the id {format_uuid(one.topic_id)}, and"
        f" {others_path} has {format_uuid(other.topic_id)}. A disk that was restored from an older"
        " copy may have such. Move the partitions of one of the two out of the data directories"
    )


def _has_topic(fs: FileSystem, home: OwnCatalogue, topic: Topic) -> bool:
    """Whether a directory has this topic, or may have: what it had is lost or unreadable."""
    known = home.catalogue.topics.get(topic.name)
    if known is not None and known.topic_id == topic.topic_id:
        return True
    try:
        if not fs.exists(os.path.join(home.path, CATALOGUE_FILE)):
            return True
        for number, home_id in topic.partitions.items():
            path = os.path.join(home.path, log_directory_name(topic.name, number))
            if home_id != home.directory_id or not fs.exists(path):
                continue
            if not is_other_topic(topic_id_or_none(fs, path), topic.topic_id):
                return True
    except (OSError, KafkaStorageError) as error:
        text = "topic-not-looked-for directory=%s topic=%s reason=%s"
        _log.warning(text, home.path, topic.name, error)
        return True
    return False
