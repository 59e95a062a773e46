"""The directories of partitions, and the ids that topics and directories get.

Only some entries of a data directory are live partitions: others are deleted, moved or foreign.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from tidelog.codec.metadata_files import (
    PARTITION_METADATA_FILE,
    RESERVED_DIRECTORY_IDS,
    format_uuid,
    write_partition_metadata,
)
from tidelog.errors import InvalidTopic
from tidelog.segment.filenames import (
    check_topic_name,
    is_log_file,
    log_directory_name,
    parse_topic_partition,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from random import Random
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.segment.filenames import TopicPartition


def make_partition_directory(fs: FileSystem, path: str, topic_id: UUID) -> None:
    """Make the directory of an empty partition, with its topic's id; the caller syncs its name."""
    fs.make_directory(path)
    write_partition_metadata(fs, os.path.join(path, PARTITION_METADATA_FILE), topic_id)


def is_partition_directory(names: Iterable[str]) -> bool:
    """Say whether a directory with entries of these ``names`` is one of a partition."""
    return any(is_log_file(name) or name == PARTITION_METADATA_FILE for name in names)


def live_partitions(
    fs: FileSystem, path: str, *, without: Container[str] = ()
) -> list[TopicPartition]:
    """Return the partitions whose directories lie in a data directory, in order.

    Left out are those that wait for deletion, incomplete copies and strays, and directories
    named in ``without``, which are not looked at. Raises FileNotFoundError or NotADirectoryError
    where there is no such directory.
    """
    names = [name for name in fs.list(path) if name not in without]
    return sorted(key for name in names if (key := _live_partition(fs, path, name)))


def _live_partition(fs: FileSystem, path: str, name: str) -> TopicPartition | None:
    try:
        key = parse_topic_partition(name)
        check_topic_name(key.topic)
    except InvalidTopic:
        return None
    is_live = name == log_directory_name(*key) and is_directory(fs, os.path.join(path, name))
    return key if is_live else None


def is_directory(fs: FileSystem, path: str) -> bool:
    """Say whether this is a directory; an entry that is gone by now is none."""
    try:
        return fs.stat(path).is_directory
    except FileNotFoundError:
        return False


def random_id(rng: Random) -> UUID:
    """Return a random (version 4) id, none of the reserved ones, whose text begins with no dash.

    Source: Kafka Uuid.randomUuid.
    """
    made = uuid.UUID(int=rng.getrandbits(128), version=4)
    is_awkward = made in RESERVED_DIRECTORY_IDS or format_uuid(made).startswith("-")
    return random_id(rng) if is_awkward else made
