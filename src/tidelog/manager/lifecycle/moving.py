"""A partition moves to another directory: copied beside, caught up, swapped in.

Owns the copy, the moment of the swap and its order on disk. Must not know why a partition moves.
Kafka: ``ReplicaManager.alterReplicaLogDirs``, ``ReplicaAlterLogDirsThread`` and
``LogManager.replaceCurrentWithFutureLog``.

The swap is committed by the catalogue, which then names the new directory. In Kafka a crash
between the two renames leaves two directories, and an operator decides; here the start does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.errors import (
    InvalidArgument,
    InvalidReplicaAssignment,
    KafkaError,
    KafkaStorageError,
    UnexpectedAppendOffset,
    UnknownTopicOrPartition,
)
from tidelog.log.log_reads import FetchIsolation
from tidelog.manager.lifecycle.creation import get_or_create_log
from tidelog.manager.lifecycle.topic_deletion import async_delete, put_away
from tidelog.manager.log_registry import parent_of
from tidelog.segment.filenames import log_directory_name, log_future_directory_name

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.manager.directories.live_dirs import LiveDir
    from tidelog.manager.parts import Parts
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20
NEAR_BYTES: Final = 4 << 20
"""With so little left to copy, appends wait for the rest."""
_SAMPLE_ID: Final = "0" * 32
_FAR: Final = (1 << 31) - 1


def move(parts: Parts, key: TopicPartition, path: str) -> bool:
    """Begin to move a partition to the directory ``path``; False if it lies there already.

    A partition that does not exist yet will be made there.

    Raises:
        InvalidTopic: the name of the copy would be too long.
        InvalidReplicaAssignment: the directory takes no new logs.
        LogDirNotFound: it is none of ours.
        KafkaStorageError: it, or another one, is offline.
    """
    log_future_directory_name(*key, _SAMPLE_ID)
    if not parts.dirs.is_online(path):
        raise KafkaStorageError(f"{path} is offline")
    if parts.dirs.is_cordoned(path):
        raise InvalidReplicaAssignment(f"{path} is cordoned: it takes no new logs")
    with parts.creation:
        current, future = parts.logs.current(key), parts.logs.future(key)
        if current is not None and parent_of(current) == path:
            return False
        if future is not None:
            if parent_of(future) == path:
                return False
            stop(parts, key)
        parts.preferred[key] = path
        if current is None:
            return True
        if parts.dirs.failures:
            raise KafkaStorageError(f"offline: {', '.join(parts.dirs.failures)}; no moves now")
        made = get_or_create_log(
            parts,
            key,
            is_new=False,
            is_future=True,
            topic_id=current.topic_id,
            target_directory_id=None,
        )
        made.truncate_fully_and_start_at(current.log_start_offset)
        resume(parts, key)
    return True


def stop(parts: Parts, key: TopicPartition) -> None:
    """Give a move up; the copy goes."""
    if async_delete(parts, key, is_future=True) is not None and parts.cleaner is not None:
        parts.cleaner.manager.resume([key])


def resume(parts: Parts, key: TopicPartition) -> None:
    """Copy, a piece a task, until the partition has moved; cleaning of it waits meanwhile."""
    if parts.cleaner is not None:
        parts.cleaner.manager.abort_and_pause(key)
    _schedule(parts, key)


def _schedule(parts: Parts, key: TopicPartition) -> None:
    parts.machine.scheduler.schedule(f"move-{key.topic}-{key.partition}", lambda: step(parts, key))


def step(parts: Parts, key: TopicPartition) -> None:
    """Copy one piece, or do the swap when little is left; then let the next task go on."""
    partition, future = parts.logs.partition(key), parts.logs.future(key)
    if partition is None or future is None:
        return
    try:
        current = partition.log
        _align(current, future)
        if _left_bytes(current, future) > NEAR_BYTES:
            _copy_piece(current, future)
            _schedule(parts, key)
            return
        with partition.lock:
            while future.log_end_offset < current.log_end_offset:
                _copy_piece(current, future)
        replace_current_with_future(parts, key)
    except KafkaError as error:
        _log.error("move-failed topic=%s partition=%d reason=%s", *key, error)
        if parts.logs.future(key) is not None:
            _give_up(parts, key)


def replace_current_with_future(parts: Parts, key: TopicPartition) -> None:
    """Put the copy in the place of a partition's log, which is deleted later, not closed now.

    Raises KafkaStorageError if one of the two is missing, or the disk fails.
    """
    with parts.creation:
        partition, future = parts.logs.partition(key), parts.logs.future(key)
        if partition is None or future is None:
            raise KafkaStorageError(f"{key.topic}-{key.partition} lacks a log, or its copy")
        with partition.lock:
            current = partition.log
            source, target = parts.home_of(current), parts.home_of(future)
            if future.log_end_offset < current.log_end_offset:
                raise InvalidArgument(f"{future.directory} is not as long as {current.directory}")
            _swap(parts, key, current, future, target)
            partition.use(future)
            parts.logs.remove_future(key)
            parts.watch(future)
    if parts.cleaner is not None:
        parts.cleaner.manager.move_checkpoint(key, source.path, target.path)
        parts.cleaner.manager.resume([key])
    parts.write_checkpoints(source)
    parts.write_checkpoints(target)
    _log.info("partition-moved topic=%s partition=%d to=%s", *key, target.path)


def _swap(parts: Parts, key: TopicPartition, current: Log, future: Log, target: LiveDir) -> None:
    """Make the copy durable, commit, rename."""
    future.flush(force=True)
    topic_id = current.topic_id
    if topic_id is None:
        raise UnknownTopicOrPartition(f"{current.directory} belongs to no topic")
    parts.topics.place(key.topic, topic_id, key.partition, target.directory_id)
    future.rename_directory(log_directory_name(*key))
    try:
        put_away(parts, key, current)
    except KafkaStorageError:
        current.close_handlers()
        raise


def _give_up(parts: Parts, key: TopicPartition) -> None:
    try:
        stop(parts, key)
    except KafkaStorageError as error:
        _log.error("move-not-cleaned topic=%s partition=%d reason=%s", *key, error)


def _align(current: Log, future: Log) -> None:
    """Let the copy hold nothing that the log does not: either may have been cut since."""
    if future.log_end_offset > current.log_end_offset:
        future.truncate_to(current.log_end_offset)
    if future.log_end_offset < current.log_start_offset:
        future.truncate_fully_and_start_at(current.log_start_offset)
    future.update_high_watermark(min(current.high_watermark, future.log_end_offset))
    future.maybe_increment_log_start_offset(min(current.log_start_offset, future.high_watermark))


def _left_bytes(current: Log, future: Log) -> int:
    """Return about how many bytes the copy lacks."""
    end = future.log_end_offset
    behind = [part for part in current.segments if part.base_offset >= end]
    if end >= current.log_end_offset:
        return 0
    floor = current.segments.floor(end)
    partly = floor.size_bytes if floor is not None and floor not in behind else 0
    return sum(part.size_bytes for part in behind) + partly


def _copy_piece(current: Log, future: Log) -> None:
    """Append the next batches to the copy; raise KafkaStorageError if there are none."""
    start = future.log_end_offset
    with current.read(start, PIECE_BYTES, isolation=FetchIsolation.LOG_END) as found:
        data = found.read()
    if not data:
        raise KafkaStorageError(f"{current.directory} has no records at {start}, below its end")
    try:
        future.append_as_follower(data, _FAR)
    except UnexpectedAppendOffset as error:
        # The log starts inside of its first batch, which comes whole.
        if future.log_end_offset != future.log_start_offset:
            raise
        future.truncate_fully_and_start_at(error.first_offset, start)
        future.append_as_follower(data, _FAR)
