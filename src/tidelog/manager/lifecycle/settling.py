"""What was found at start, put in its place.

Owns which of two logs of a partition is the right one, what becomes of copies in the making, and
that every topic has its logs. Must not know how logs are loaded. Kafka: parts of
``LogManager.loadLog`` and ``recoverAbandonedFutureLogs``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.manager.lifecycle import moving
from tidelog.manager.lifecycle.creation import create_log
from tidelog.manager.lifecycle.lost_offsets import tell_lost_end, tell_lost_log
from tidelog.manager.lifecycle.topic_deletion import put_away
from tidelog.manager.log_registry import parent_of
from tidelog.segment.filenames import TopicPartition, log_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.log.log import Log
    from tidelog.manager.lifecycle.loading import Found, LoadedLogs
    from tidelog.manager.parts import Parts

_log = logging.getLogger(__name__)


def settle(parts: Parts, loaded: LoadedLogs, is_stray: Callable[[Log], bool] | None) -> None:
    """Take what was loaded into service, and bring the catalogues up to date.

    Raises KafkaStorageError for a partition that lies in two directories, where no catalogue says
    which one is meant.
    """
    for path in loaded.doomed:
        parts.doomed.add(path)
    current = _without_lost(parts, loaded.current)
    current = [one for one in current if not _put_aside(parts, one, is_stray)]
    futures = [
        one
        for one in _without_lost(parts, loaded.future)
        if not _promote(parts, one, current) and not _put_aside(parts, one, is_stray)
    ]
    chosen = _without_replaced(parts, current)
    for found in chosen:
        if tell_lost_end(found.home.checkpoints, found.key, found.log):
            parts.lost.add(found.key)
        parts.serve(found.key, found.log)
        _take_into_catalogue(parts, found)
    for found in futures:
        parts.logs.add_future(found.key, found.log)
    for topic in parts.topics.all().values():
        make_missing(parts, topic)
    parts.topics.write_where_needed()
    parts.topics.forget_deleted()


def make_missing(parts: Parts, topic: Topic) -> None:
    """Make the logs that a topic should have and has not, where the catalogue says.

    A log whose directory is offline is not made a second time.
    """
    for number, home_id in sorted(topic.partitions.items()):
        key = TopicPartition(topic.name, number)
        home = parts.dirs.with_id(home_id)
        if home is None or parts.logs.partition(key) is not None:
            continue
        if tell_lost_log(home.checkpoints, key, home.path):
            parts.lost.add(key)
        log = create_log(parts, key, home, topic.topic_id, log_directory_name(*key))
        parts.serve(key, log)


def resume_moves(parts: Parts) -> None:
    """Go on with the moves that the last process began.

    After an unclean end a copy keeps only what was flushed: of what was not, any part may be
    missing, also in the middle.
    """
    for key, log in parts.logs.futures().items():
        if parts.logs.partition(key) is not None:
            if not parts.home_of(log).log_dir.was_clean:
                log.truncate_to(max(log.recovery_point, log.log_start_offset))
            moving.resume(parts, key)
        else:
            _log.warning("future-log-abandoned topic=%s partition=%d", *key)


def _without_lost(parts: Parts, found: Sequence[Found]) -> list[Found]:
    """Leave out logs whose directory has failed while others were loaded."""
    kept = []
    for one in found:
        if parts.dirs.get(one.home.path) is one.home:
            kept.append(one)
        else:
            one.log.close_handlers()
    return kept


def _put_aside(parts: Parts, found: Found, is_stray: Callable[[Log], bool] | None) -> bool:
    """Rename a log that is not a topic's: deleted ones go, others are kept as strays."""
    key, log = found.key, found.log
    if parts.topics.is_deleted(log.topic_id):
        put_away(parts, key, log)
        return True
    known = parts.topics.all().get(key.topic)
    is_other = known is not None and log.topic_id not in {None, known.topic_id}
    if is_other or (is_stray is not None and is_stray(log)):
        _log.warning("log-stray directory=%s topic_id=%s", log.directory, log.topic_id)
        put_away(parts, key, log, is_stray=True)
        return True
    return False


def _promote(parts: Parts, found: Found, current: list[Found]) -> bool:
    """Finish a move of which the catalogue already says that it is done."""
    recorded = parts.topics.recorded_home(*found.key)
    is_there = any(one.key == found.key and one.home is found.home for one in current)
    if recorded != found.home.directory_id or is_there:
        return False
    found.log.rename_directory(log_directory_name(*found.key))
    _log.info("future-log-promoted directory=%s", found.log.directory)
    current.append(found)
    return True


def _without_replaced(parts: Parts, current: Sequence[Found]) -> list[Found]:
    """Of two logs of a partition keep the one that the catalogue names."""
    by_key: dict[TopicPartition, list[Found]] = {}
    for found in current:
        by_key.setdefault(found.key, []).append(found)
    kept = []
    for key, rivals in by_key.items():
        chosen = rivals[0] if len(rivals) == 1 else _named(parts.topics.recorded_home(*key), rivals)
        kept.append(chosen)
        for other in rivals:
            if other is not chosen:
                put_away(parts, key, other.log)
    return kept


def _named(home_id: UUID | None, rivals: Sequence[Found]) -> Found:
    for found in rivals:
        if found.home.directory_id == home_id:
            return found
    first, second = rivals[0].log.directory, rivals[1].log.directory
    raise KafkaStorageError(
        f"{os.path.basename(first)} lies both in {os.path.dirname(first)} and in"
        f" {os.path.dirname(second)}, as after a failure while one was to replace the other; delete"
        " one of them"
    )


def _take_into_catalogue(parts: Parts, found: Found) -> None:
    """Let the catalogue say where the log lies, and the log to which topic it belongs."""
    topic = parts.topics.get(found.key.topic)
    if found.log.topic_id is None:
        found.log.assign_topic_id(topic.topic_id)
    home = parts.dirs.get(parent_of(found.log))
    if home is not None and topic.partitions.get(found.key.partition) != home.directory_id:
        parts.topics.place(found.key.topic, topic.topic_id, found.key.partition, home.directory_id)
