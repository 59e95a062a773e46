"""The directories of partitions, and the ids that topics and directories get.

Only some entries of a data directory are live partitions: others are deleted, moved or foreign.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, RESERVED_DIRECTORY_IDS
from tidelog.env.files import WRONG_KIND, is_gone
from tidelog.errors import InvalidArgument, InvalidTopic, KafkaStorageError
from tidelog.log.topic_id import PARTITION_METADATA_FILE, write_partition_metadata
from tidelog.segment.filenames import (
    LOG_SUFFIX,
    REMOTE_INDEX_CACHE,
    TopicPartition,
    check_topic_name,
    is_future_directory,
    is_log_file,
    is_suffixed_directory,
    log_directory_name,
    parse_segment_file,
    parse_topic_partition,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from random import Random
    from uuid import UUID

    from tidelog.env.files import FileSystem


def make_partition_directory(fs: FileSystem, path: str, topic_id: UUID) -> None:
    """Make the directory of an empty partition, with its topic's id; the caller syncs its name."""
    fs.make_directory(path)
    write_partition_metadata(fs, os.path.join(path, PARTITION_METADATA_FILE), topic_id)


def is_partition_directory(names: Iterable[str]) -> bool:
    """Return whether a directory with entries of these ``names`` is one of a partition."""
    for name in names:
        found = parse_segment_file(name)
        if name == PARTITION_METADATA_FILE or (found is not None and found.kind == LOG_SUFFIX):
            return True
    return False


def check_data_directory(fs: FileSystem, path: str) -> None:
    """Raise InvalidArgument for the directory of one partition; ``path`` exists."""
    if is_partition_directory(fs.list(path)):
        above = os.path.dirname(path.rstrip("/")) or "."
        raise InvalidArgument(
            f"{path} is the directory of one partition; name the data directory above it, {above}"
        )


class Surveyed(NamedTuple):
    """The directories in a data directory: live partitions, in order, and others by name.

    ``foreign`` maps each directory that is not one partition's alone to the reason.
    """

    live: list[TopicPartition]
    foreign: dict[str, str]


class PartitionLinks:
    """Finds symbolic links that give the directory of a partition a second name.

    A log that is opened under both names is corrupted, so neither tidelog nor anybody else may
    open the link. A link to a directory that has no other name in a data directory is fine.

    Args:
        fs: the disk.
        data_dirs: the data directories of this process.
        is_writer: links into the data directories of other processes are foreign, too. To read
            through them does no harm.
    """

    def __init__(
        self, fs: FileSystem, data_dirs: Iterable[str], *, is_writer: bool = False
    ) -> None:
        self._fs = fs
        self._is_writer = is_writer
        self._data_dirs = tuple(data_dirs)
        self._by_target: dict[str, list[str]] = {}
        """The links in the data directories by what they lead to, as of the last look."""

    def why_foreign(self, path: str) -> str | None:
        """Return why the directory of a partition must not be used; None if it may be."""
        if not self._fs.is_link(path):
            return None
        target = self._fs.real_path(path)
        above, name = os.path.split(target)
        is_one = partition_of(name) is not None or is_kept_apart(name)
        if is_one and self._is_data_directory(above):
            return f"it is a link to the directory {target} of a partition"
        if path not in self._by_target.get(target, ()):
            self._by_target = self._look()
        others = [other for other in self._by_target.get(target, ()) if other != path]
        return f"it is a link to {target}, as is {others[0]}" if others else None

    def check(self, path: str) -> None:
        """Raise KafkaStorageError if the directory of a partition must not be used."""
        reason = self.why_foreign(path)
        if reason is not None:
            raise KafkaStorageError(f"{path} is left alone: {reason}")

    def _is_data_directory(self, path: str) -> bool:
        if path in self._real_data_dirs:
            return True
        return self._is_writer and not is_gone(self._fs, os.path.join(path, META_PROPERTIES_FILE))

    @cached_property
    def _real_data_dirs(self) -> set[str]:
        return set(map(self._fs.real_path, self._data_dirs))

    def _look(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for data_dir in dict.fromkeys(self._data_dirs):
            with suppress(OSError, KafkaStorageError):  # it may be offline
                for name in sorted(self._fs.list(data_dir)):
                    path = os.path.join(data_dir, name)
                    if partition_of(name) is not None and self._fs.is_link(path):
                        found.setdefault(self._fs.real_path(path), []).append(path)
        return found


def survey(
    fs: FileSystem,
    path: str,
    *,
    listed: Container[str] = (),
    without: Container[str] = (),
    links: PartitionLinks | None = None,
    names: Iterable[str] | None = None,
) -> Surveyed:
    """Return what the directories in a data directory are.

    A directory that is not ``listed`` in a catalogue is a partition only if it holds a log: any
    other could be anybody's. Directories that wait for deletion, incomplete copies and strays are
    neither live nor foreign; those named in ``without`` are not looked at. ``links`` are those of
    all data directories of the process; None: there is no other. ``names``: what the directory
    holds, if known. Raises FileNotFoundError or NotADirectoryError if it does not exist.
    """
    links = PartitionLinks(fs, [path]) if links is None else links
    live, foreign = [], {}
    for name in fs.list(path) if names is None else names:
        if name in without or is_kept_apart(name):
            continue
        if not is_directory(fs, os.path.join(path, name)):
            continue
        key = partition_of(name)
        if key is None:
            foreign[name] = "its name is not <topic>-<partition>"
        elif (reason := links.why_foreign(os.path.join(path, name))) is not None:
            foreign[name] = reason
        elif name in listed or _holds_log(fs, os.path.join(path, name)):
            live.append(key)
        else:
            foreign[name] = "it does not hold a log"
    return Surveyed(sorted(live), dict(sorted(foreign.items())))


def live_partitions(fs: FileSystem, path: str) -> list[TopicPartition]:
    """Return the partitions whose directories lie in a data directory, in order.

    As ``survey``, but an empty directory with the name of a partition is one: it is not opened.
    """
    names = frozenset(fs.list(path))
    return survey(fs, path, listed=names, names=names).live


def find_copies(fs: FileSystem, path: str) -> Iterator[tuple[TopicPartition, str]]:
    """Yield each copy of a move in a data directory, with its path; raises OSError."""
    for name in sorted(filter(is_future_directory, fs.list(path))):
        yield parse_topic_partition(name), os.path.join(path, name)


def partition_of(name: str) -> TopicPartition | None:
    """Return the partition whose directory has this name; None if no partition's has."""
    try:
        key = parse_topic_partition(name)
        check_topic_name(key.topic)
    except InvalidTopic:
        return None
    return key if name == log_directory_name(*key) else None


def lies_twice(first: str, second: str) -> KafkaStorageError:
    """Return the error of a partition with two directories, if it is not known which one counts.

    Source: Kafka LogManager.loadLog, which does not start then.
    """
    return KafkaStorageError(
        f"{os.path.basename(first)} lies both in {os.path.dirname(first)} and in"
        f" {os.path.dirname(second)}, as after a failure while one was replacing the other; delete"
        " one of them"
    )


def is_kept_apart(name: str) -> bool:
    """Return whether a directory of this name is Kafka's or tidelog's, but no live partition."""
    return name == REMOTE_INDEX_CACHE or is_suffixed_directory(name)


def _holds_log(fs: FileSystem, path: str) -> bool:
    try:
        return is_partition_directory(fs.list(path))
    except FileNotFoundError:
        return False
    except (OSError, KafkaStorageError) as error:
        if not isinstance(_cause(error), PermissionError):
            raise
        return False


def is_directory(fs: FileSystem, path: str) -> bool:
    """Return whether this is a directory, or a link to one; False if it is gone by now."""
    try:
        return fs.stat(path).is_directory
    except FileNotFoundError:
        return False
    except (OSError, KafkaStorageError) as error:
        cause = _cause(error)
        if not isinstance(cause, OSError) or cause.errno not in WRONG_KIND:
            raise
        return False  # such as a link to itself


def _cause(error: Exception) -> BaseException | None:
    """Return the error of the disk; one that was opened to be read only wraps it."""
    return error.__cause__ if isinstance(error, KafkaStorageError) else error


def random_id(rng: Random) -> UUID:
    """Return a random (version 4) id, none of the reserved ones, whose text begins with no dash.

    Source: Kafka Uuid.randomUuid.
    """
    made = uuid.UUID(int=rng.getrandbits(128), version=4)
    is_awkward = made in RESERVED_DIRECTORY_IDS or format_uuid(made).startswith("-")
    return random_id(rng) if is_awkward else made


def log_bytes(fs: FileSystem, directory: str) -> int:
    """Return the bytes of all ``.log`` files of a partition directory; 0 if it is gone."""
    total = 0
    try:
        for name in filter(is_log_file, fs.list(directory)):
            total += fs.stat(os.path.join(directory, name)).size_bytes
    except FileNotFoundError:
        return total
    return total
