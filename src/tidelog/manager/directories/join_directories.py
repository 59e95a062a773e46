"""Makes data directories that were begun apart those of one owner, so that one service opens them.

Only ``meta.properties`` changes, which names the cluster and node that a directory belongs to.
Kafka has no such operation: its directories are formatted together.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.datadir.catalogue import CATALOGUE_FILE, METADATA_TOPIC, check_new_names
from tidelog.datadir.deletion_marks import read_catalogue_in_force
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, read_meta_properties
from tidelog.errors import InvalidArgument, InvalidTopic
from tidelog.manager.directories.log_dir import LogDir
from tidelog.readonly.read_only_directory import ReadOnlyDirectory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_topic import ReadOnlyTopic

_UNCHANGED: Final = "nothing was changed"


class Joined(NamedTuple):
    """A data directory that belongs to the others now; ``was_changed``: it did not before."""

    path: str
    cluster_id: str | None
    node_id: int | None
    was_changed: bool


def join_directories(
    paths: Sequence[str], *, fs: FileSystem, rng: Random, is_kafka_allowed: bool = False
) -> list[Joined]:
    """Give all directories the cluster and node of the first; return each as it is then.

    Each is changed by one durable rename, so a call that was cut off can be repeated.

    Args:
        paths: absolute paths of data directories; all of a set that belongs together already.
        fs: the disk.
        rng: for the id of a directory that has none.
        is_kafka_allowed: whether a directory that a Kafka broker has written may be among them.

    Raises:
        DirectoryLocked: a process writes to one of them.
        InvalidArgument: they cannot be joined, which the error explains; nothing was changed.
        KafkaStorageError: a disk failed, or a catalogue cannot be read.
    """
    for path in paths:
        if not fs.exists(path) or not fs.stat(path).is_directory:
            raise InvalidArgument(f"{path} is not a directory; {_UNCHANGED}")
    if len(set(paths)) < max(len(paths), 2):
        raise InvalidArgument(f"two or more different directories are joined; {_UNCHANGED}")
    with ExitStack() as stack:
        if not is_kafka_allowed:
            for path in paths:
                _refuse_kafka(fs, path)
        dirs: list[LogDir] = []
        for path in paths:
            like = dirs[0].meta if dirs else None
            one = LogDir(path, fs=fs, rng=rng, like=like, has_all_logs=False)
            stack.callback(one.close, clean=False)
            dirs.append(one)
        _check_apart(fs, dirs)
        meta = dirs[0].meta
        return [Joined(one.path, meta.cluster_id, meta.node_id, one.join(meta)) for one in dirs]


def _refuse_kafka(fs: FileSystem, path: str) -> None:
    """Raise InvalidArgument for a directory that a broker has formatted or written."""
    meta = read_meta_properties(fs, os.path.join(path, META_PROPERTIES_FILE))
    looked = ReadOnlyDirectory(path, fs=fs)
    looked.check_catalogue()
    has_metadata = any(key.topic == METADATA_TOPIC for key in looked.found)
    # Java writes the date above its properties; tidelog writes no comment.
    is_formatted = meta is not None and bool(meta.comments)
    is_listed = fs.exists(os.path.join(path, CATALOGUE_FILE))
    if (
        has_metadata
        or (is_formatted and not is_listed)
        or any(topic.is_adopted for topic in looked.topics.values())
    ):
        raise InvalidArgument(
            f"{path} is the directory of a Kafka broker, which would not start on it under another"
            f" cluster.id, and would delete topics that its cluster does not know; {_UNCHANGED}"
            " (--kafka-too joins it all the same)"
        )


def _check_apart(fs: FileSystem, dirs: Sequence[LogDir]) -> None:
    """Raise InvalidArgument unless what the directories hold can stand side by side."""
    ids = {one.directory_id: one.path for one in dirs}
    if len(ids) < len(dirs):
        raise InvalidArgument(
            f"two directories have the same directory.id: one is a copy of the other; {_UNCHANGED}"
        )
    deleted: set[UUID] = set()
    for one in dirs:
        deleted |= read_catalogue_in_force(fs, one.path).deleted
    known: dict[str, tuple[ReadOnlyTopic, str]] = {}
    for one in dirs:
        _check_whole(fs, one, ids)
        for topic in ReadOnlyDirectory(one.path, fs=fs).topics.values():
            if topic.topic_id in deleted:
                raise InvalidArgument(
                    f"topic {topic.name} of {one.path} was deleted in another of the directories;"
                    f" {_UNCHANGED}"
                )
            _check_new(topic, one.path, known)
            known[topic.name] = (topic, one.path)


def _check_whole(fs: FileSystem, one: LogDir, ids: dict[UUID, str]) -> None:
    """Raise InvalidArgument if a directory is one of a set of which another is not given."""
    for topic in read_catalogue_in_force(fs, one.path).topics.values():
        if not ids.keys() >= set(topic.partitions.values()):
            raise InvalidArgument(
                f"topic {topic.name} of {one.path} has partitions in a directory that is not given:"
                f" give all that belong together; {_UNCHANGED}"
            )


def _check_new(
    topic: ReadOnlyTopic, path: str, known: dict[str, tuple[ReadOnlyTopic, str]]
) -> None:
    """Raise InvalidArgument if a topic cannot stand beside those of the other directories."""
    other, elsewhere = known.get(topic.name, (None, ""))
    if other is None:
        try:
            check_new_names([topic.name], known)
        except InvalidTopic as error:
            raise InvalidArgument(f"{error}; {_UNCHANGED}") from error
        return
    is_same = topic.topic_id is not None and topic.topic_id == other.topic_id
    if not is_same or set(topic.partitions) & set(other.partitions):
        raise InvalidArgument(
            f"topic {topic.name} is in {elsewhere} and in {path}: delete it in one of them, or copy"
            f" its records to a topic of another name first; {_UNCHANGED}"
        )
