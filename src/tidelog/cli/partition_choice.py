"""The partitions a command line selects: those of a data directory, or one partition directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tidelog.datadir.partition_directories import is_partition_directory, live_partitions
from tidelog.errors import UnknownTopicOrPartition
from tidelog.segment.filenames import log_directory_name, parse_topic_partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.env.files import FileSystem


class Place(NamedTuple):
    """One partition directory; sorts by topic, then by number."""

    topic: str
    partition: int
    path: str


def find_places(
    fs: FileSystem, directory: str, topics: Sequence[str] = (), partition: int | None = None
) -> list[Place]:
    """Return the partitions of ``topics`` (all, if none is named) under ``directory``, sorted.

    Raises:
        UnknownTopicOrPartition: there are no partitions, or none of a topic that is named.
        FileNotFoundError, NotADirectoryError: ``directory`` is not a directory.
        InvalidTopic: a partition directory is not named ``<topic>-<partition>``.
    """
    directory = os.path.abspath(directory)
    if is_partition_directory(fs.list(directory)):
        places = [Place(*parse_topic_partition(os.path.basename(directory)), directory)]
    else:
        places = [
            Place(*key, os.path.join(directory, log_directory_name(*key)))
            for key in live_partitions(fs, directory)
        ]
    chosen = [
        place
        for place in places
        if (not topics or place.topic in topics) and partition in {None, place.partition}
    ]
    missing = [name for name in topics if name not in {place.topic for place in chosen}]
    if missing or not chosen:
        raise UnknownTopicOrPartition(_explain(directory, places, missing, partition))
    return chosen


def _explain(directory: str, places: list[Place], missing: list[str], partition: int | None) -> str:
    if not places:
        return f"{directory} has no partitions, which are directories named <topic>-<partition>"
    what = f"topic {', '.join(missing)}" if missing else "such partition"
    number = "" if partition is None else f" with a partition {partition}"
    known = ", ".join(sorted({place.topic for place in places}))
    return f"no {what}{number} in {directory}; it has {known}"
