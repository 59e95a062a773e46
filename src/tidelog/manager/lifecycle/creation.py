"""New logs: in which directory each goes, and how it gets there.

Owns the choice and the order of the steps. Must not know topics' settings. Kafka:
``LogManager.getOrCreateLog``, ``nextLogDirs`` and ``createLogDirectory``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.datadir.offset_checkpoints import LOG_FILES
from tidelog.datadir.partition_directories import make_partition_directory
from tidelog.errors import InconsistentTopicId, InvalidArgument, KafkaStorageError
from tidelog.log.directory_guard import NO_SPACE
from tidelog.manager.log_registry import parent_of
from tidelog.segment.filenames import log_directory_name, log_future_directory_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.log.log import Log
    from tidelog.manager.directories.live_dirs import LiveDir
    from tidelog.manager.parts import Parts
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)


def next_directories(parts: Parts, counts: dict[str, int] | None = None) -> list[LiveDir]:
    """Return the directories that a new log may go to, the one with the fewest logs first.

    ``counts`` are the logs by directory, if the caller has planned some that do not exist yet.
    Cordoned directories are left out, unless all are. Source: Kafka LogManager.nextLogDirs.
    """
    live = list(parts.dirs)
    if len(live) == 1:
        return live
    open_to_new = [one for one in live if not parts.dirs.is_cordoned(one.path)]
    if not open_to_new:
        return live[:1]
    known = parts.logs.count_by_directory() if counts is None else counts
    return sorted(open_to_new, key=lambda one: known.get(one.path, 0))


def spread(parts: Parts, partitions: int) -> list[LiveDir]:
    """Return a directory for each partition of a new topic, as if each were made in turn."""
    counts = parts.logs.count_by_directory()
    homes = []
    for _ in range(partitions):
        home = next_directories(parts, counts)[0]
        counts[home.path] = counts.get(home.path, 0) + 1
        homes.append(home)
    return homes


def get_or_create_log(
    parts: Parts,
    key: TopicPartition,
    *,
    is_new: bool,
    is_future: bool,
    topic_id: UUID | None,
    target_directory_id: UUID | None,
) -> Log:
    """Return the log of a partition, made if there is none; see ``LogManager``."""
    with parts.creation:
        known = parts.logs.future(key) if is_future else parts.logs.current(key)
        if known is not None:
            _check_id(known, topic_id)
            return known
        if not is_new and parts.dirs.failures:
            raise KafkaStorageError(
                f"{key.topic}-{key.partition} may lie in a directory that is offline:"
                f" {', '.join(parts.dirs.failures)}"
            )
        homes = _choose(parts, key, target_directory_id, is_future=is_future)
        log = _create_in_first(parts, key, homes, topic_id, is_future=is_future)
        if is_future:
            parts.logs.add_future(key, log)
        else:
            parts.serve(key, log)
        parts.preferred.pop(key, None)
        return log


def create_log(
    parts: Parts, key: TopicPartition, home: LiveDir, topic_id: UUID | None, name: str
) -> Log:
    """Make an empty log in the directory ``name`` of ``home``, durably; nobody serves it yet."""
    path = os.path.join(home.path, name)
    fs = parts.machine.fs
    try:
        forget_lines(parts, home, key)
        if topic_id is None:
            fs.make_directory(path)
        else:
            make_partition_directory(fs, path, topic_id)
        fs.sync_directory(home.path)
    except OSError as error:
        if error.errno not in NO_SPACE:
            parts.dirs.take_offline(home.path, error)
        raise KafkaStorageError(f"creating {path}: {error}") from error
    log = parts.factory.create(key, path, topic_id)
    _log.info(
        "Created log for partition %s-%d in %s with properties %s.",
        *(*key, path, log.config.to_properties()),
    )
    return log


def forget_lines(parts: Parts, home: LiveDir, key: TopicPartition) -> None:
    """Remove the lines of a partition from all checkpoints of a directory, durably."""
    if parts.cleaner is None:
        home.checkpoints.forget([key])
    else:
        home.checkpoints.forget([key], files=LOG_FILES)
        parts.cleaner.manager.drop_checkpoint(home.path, key)


def _choose(
    parts: Parts, key: TopicPartition, target_directory_id: UUID | None, *, is_future: bool
) -> Sequence[LiveDir]:
    preferred = parts.preferred.get(key)
    if is_future:
        if preferred is None:
            raise InvalidArgument(f"nobody asked to move {key.topic}-{key.partition}")
        current = parts.logs.current(key)
        if current is not None and parent_of(current) == preferred:
            raise InvalidArgument(f"{key.topic}-{key.partition} lies in {preferred} already")
    if preferred is not None:
        home = parts.dirs.get(preferred)
        if home is None:
            raise KafkaStorageError(f"{preferred} is offline")
        return [home]
    target = parts.dirs.with_id(target_directory_id)
    return next_directories(parts) if target is None else [target]


def _create_in_first(
    parts: Parts,
    key: TopicPartition,
    homes: Sequence[LiveDir],
    topic_id: UUID | None,
    *,
    is_future: bool,
) -> Log:
    """Make the log in the first directory that works."""
    tried = []
    for home in homes:
        name = log_directory_name(*key)
        if is_future:
            unique = UUID(int=parts.machine.rng.getrandbits(128), version=4).hex
            name = log_future_directory_name(*key, unique)
        try:
            log = create_log(parts, key, home, topic_id, name)
        except KafkaStorageError as error:
            tried.append(f"{home.path}: {error}")
            continue
        if not is_future and topic_id is not None:
            parts.topics.place(key.topic, topic_id, key.partition, home.directory_id)
        return log
    raise KafkaStorageError(f"no directory takes {key.topic}-{key.partition}; {'; '.join(tried)}")


def _check_id(log: Log, topic_id: UUID | None) -> None:
    if None not in {topic_id, log.topic_id} and topic_id != log.topic_id:
        raise InconsistentTopicId(f"{log.directory} has topic id {log.topic_id}, not {topic_id}")
