"""A data directory as a whole: what it says of its partitions, against those that are there.

Owns topic ids, the catalogue and the lines of the checkpoints. Must not know what is in a log.
Kafka notices a wrong topic id when a leader is elected, and the other things never.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.checkpoint_file import read_checkpoint
from tidelog.codec.metadata_files import (
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    format_uuid,
    read_meta_properties,
    read_partition_metadata,
)
from tidelog.datadir.catalogue import CATALOGUE_FILE, Catalogue, read_catalogue
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES, HIGH_WATERMARK_FILE
from tidelog.datadir.partition_directories import live_partitions
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.explain.verify.findings import Finding, damage, unusual
from tidelog.segment.filenames import TopicPartition, log_directory_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from tidelog.env.files import FileSystem

_OTHER_TOPIC = (
    "find out which topic's records these are: if they are this one's, write its id into the file;"
    " else move the partition elsewhere, for no broker loads it here"
)
_LOST = (
    "bring the directory back from a copy or a replica before the log manager starts, which would"
    " begin it anew and empty"
)


class Located(NamedTuple):
    """A finding with the partition that it is about; None: it is about all."""

    key: TopicPartition | None
    finding: Finding


def check_directory(fs: FileSystem, data_dir: str) -> Iterator[Located]:
    """Yield what the files of a data directory say of partitions that is not so.

    What is wrong within a partition's directory is for ``LogVerifier``. Raises OSError.
    """
    there = live_partitions(fs, data_dir)
    catalogue = Catalogue()
    try:
        catalogue = read_catalogue(fs, data_dir)
    except KafkaStorageError as error:
        remedy = "correct the file, or delete it: topics are then adopted from their directories"
        path = os.path.join(data_dir, CATALOGUE_FILE)
        yield Located(None, damage(path, 0, str(error), remedy))
    yield from _check_ids(_topic_ids(fs, data_dir, there), data_dir, catalogue)
    lost = _lost(fs, data_dir, catalogue, there)
    for key in lost:
        path = os.path.join(data_dir, CATALOGUE_FILE)
        what = f"{key} belongs here, but its directory is gone"
        yield Located(key, damage(path, None, what, _LOST))
    yield from _check_lines(fs, data_dir, {*there, *lost})


def _topic_ids(
    fs: FileSystem, data_dir: str, there: list[TopicPartition]
) -> dict[TopicPartition, UUID]:
    """Return the id in each partition's file, where there is one that reads."""
    found = {}
    for key in there:
        try:
            topic_id = read_partition_metadata(fs, _metadata_path(data_dir, key))
        except (KafkaStorageError, InvalidArgument):
            continue  # the check of the partition tells
        if topic_id is not None:
            found[key] = topic_id
    return found


def _check_ids(
    ids: Mapping[TopicPartition, UUID], data_dir: str, catalogue: Catalogue
) -> Iterator[Located]:
    """Yield each partition whose topic id is not the catalogue's, or not that of most others."""
    by_topic: dict[str, dict[TopicPartition, UUID]] = defaultdict(dict)
    for key, topic_id in ids.items():
        by_topic[key.topic][key] = topic_id
    for topic, found in by_topic.items():
        known = catalogue.topics.get(topic)
        if known is not None:
            right, says = known.topic_id, f"{CATALOGUE_FILE} says"
        else:
            ranked = Counter(found.values()).most_common(2)
            is_even = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
            right, says = ranked[0][0], "another partition has" if is_even else "the others have"
        for key, topic_id in found.items():
            if topic_id != right:
                what = f"the topic id is {format_uuid(topic_id)}, {says} {format_uuid(right)}"
                found_here = damage(_metadata_path(data_dir, key), None, what, _OTHER_TOPIC)
                yield Located(key, found_here)


def _lost(
    fs: FileSystem, data_dir: str, catalogue: Catalogue, there: list[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions that the catalogue puts into this directory, and that are not there."""
    try:
        meta = read_meta_properties(fs, os.path.join(data_dir, META_PROPERTIES_FILE))
    except (KafkaStorageError, InvalidArgument):
        return []
    if meta is None or meta.directory_id is None:
        return []
    placed = {
        TopicPartition(topic.name, number)
        for topic in catalogue.topics.values()
        for number, directory_id in topic.partitions.items()
        if directory_id == meta.directory_id
    }
    return sorted(placed.difference(there))


def _check_lines(fs: FileSystem, data_dir: str, known: set[TopicPartition]) -> Iterator[Located]:
    """Yield the lines of checkpoints that name a partition whose directory is gone."""
    for name in CHECKPOINT_FILES:
        path = os.path.join(data_dir, name)
        try:
            lines = read_checkpoint(fs, path)
        except (KafkaStorageError, InvalidArgument):
            continue  # the check of each partition tells
        for topic, number in sorted(lines):
            key, offset = TopicPartition(topic, number), lines[topic, number]
            if key in known:
                continue
            what = f"a line names {key} with offset {offset}, but its directory is gone"
            remedy = "none needed if the topic was deleted: the next writer drops the line"
            if name == HIGH_WATERMARK_FILE and offset > 0:
                remedy += f". Else its {offset} offsets are lost: bring the directory back"
            yield Located(key, unusual(path, None, what, remedy))


def _metadata_path(data_dir: str, key: TopicPartition) -> str:
    return os.path.join(data_dir, log_directory_name(*key), PARTITION_METADATA_FILE)
