"""Reconciling the logs found at start with the catalogue.

Kafka: parts of ``LogManager.loadLog`` and ``recoverAbandonedFutureLogs``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.manager.lifecycle.deleter import is_full
from tidelog.manager.lifecycle.lost_offsets import warn_of_lost_end
from tidelog.segment.filenames import TopicPartition, log_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.lifecycle.creator import LogCreator
    from tidelog.manager.lifecycle.deleter import LogDeleter
    from tidelog.manager.lifecycle.deletion_queue import DeletionQueue
    from tidelog.manager.lifecycle.loading import FoundLog, LoadedLogs
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.manager.topics.topics import Topics

_log = logging.getLogger(__name__)


class Reconciler:
    """Takes loaded logs into service: which of two is a partition's, which are not any topic's."""

    def __init__(
        self,
        log_dirs: LogDirs,
        *,
        topics: Topics,
        registry: LogRegistry,
        creator: LogCreator,
        deleter: LogDeleter,
        queue: DeletionQueue,
    ) -> None:
        self._log_dirs = log_dirs
        self._topics = topics
        self._registry = registry
        self._creator = creator
        self._deleter = deleter
        self._queue = queue

    def reconcile(self, loaded: LoadedLogs, is_stray: Callable[[Log], bool] | None) -> None:
        """Serve what was loaded, create what is missing, and bring the catalogues up to date.

        Raises KafkaStorageError for a partition that lies in two directories, where no catalogue
        says which one is meant.
        """
        for path in loaded.to_delete:
            self._queue.add(path)
        current = self._without_failed(loaded.current)
        current = [one for one in current if not self._put_aside(one, is_stray)]
        futures = [
            one
            for one in self._without_failed(loaded.future)
            if not self._promote(one, current) and not self._put_aside(one, is_stray)
        ]
        current = [one for one in current if not self._leave_out(one)]
        for found in self._without_replaced(current):
            if warn_of_lost_end(found.log_dir.checkpoints, found.key, found.log):
                self._registry.lost.add(found.key)
            self._registry.serve(found.key, found.log)
            self._note_place(found)
        for found in self._longest(futures):
            self._registry.add_future(found.key, found.log)
        for topic in self._topics.all().values():
            self._creator.create_missing(topic)
        try:
            self._topics.write_where_needed()
            self._topics.forget_deleted()
        except KafkaStorageError as error:
            if not is_full(error):
                raise
            # The next change writes them. Until then what is known now is found at each start.
            paths = ", ".join(one.path for one in self._log_dirs)
            _log.warning("topics-not-written directory=%s reason=%s", paths, error)

    def _without_failed(self, found: Sequence[FoundLog]) -> list[FoundLog]:
        """Leave out logs whose directory has failed while others were loaded."""
        kept = []
        for one in found:
            if self._log_dirs.get(one.log_dir.path) is one.log_dir:
                kept.append(one)
            else:
                one.log.close_handlers()
        return kept

    def _put_aside(self, found: FoundLog, is_stray: Callable[[Log], bool] | None) -> bool:
        """Rename a log that belongs to no topic: deleted ones are deleted, others kept as stray."""
        key, log = found.key, found.log
        if self._topics.is_deleted(log.topic_id):
            self._deleter.put_away(key, log)
            return True
        known = self._topics.all().get(key.topic)
        is_other = known is not None and log.topic_id not in {None, known.topic_id}
        if is_other or (is_stray is not None and is_stray(log)):
            _log.warning("log-stray directory=%s topic_id=%s", log.directory, log.topic_id)
            self._deleter.put_away(key, log, is_stray=True)
            return True
        return False

    def _leave_out(self, found: FoundLog) -> bool:
        """Close a log without an id whose topic was not adopted, since its id cannot be read."""
        if found.key.topic in self._topics:
            return False
        error = KafkaStorageError(f"the id of topic {found.key.topic} cannot be read")
        _log.error("log-not-loaded directory=%s reason=%s", found.log.directory, error)
        found.log_dir.is_in_doubt = True
        found.log.close_handlers()
        self._registry.failed[found.key] = error
        return True

    def _promote(self, found: FoundLog, current: list[FoundLog]) -> bool:
        """Finish a move that the catalogue has already decided."""
        recorded = self._topics.recorded_home(*found.key)
        is_there = any(one.key == found.key and one.log_dir is found.log_dir for one in current)
        if recorded != found.log_dir.directory_id or is_there:
            return False
        found.log.rename_directory(log_directory_name(*found.key))
        _log.info("future-log-promoted directory=%s", found.log.directory)
        current.append(found)
        return True

    def _without_replaced(self, current: Sequence[FoundLog]) -> list[FoundLog]:
        """Of two logs of a partition keep the one that the catalogue names."""
        by_key: dict[TopicPartition, list[FoundLog]] = {}
        for found in current:
            by_key.setdefault(found.key, []).append(found)
        kept = []
        for key, rivals in by_key.items():
            chosen = rivals[0]
            if len(rivals) > 1:
                chosen = _named(self._topics.recorded_home(*key), rivals)
            kept.append(chosen)
            for other in rivals:
                if other is not chosen:
                    self._deleter.put_away(key, other.log)
        return kept

    def _longest(self, copies: Sequence[FoundLog]) -> list[FoundLog]:
        """Of several copies of a partition keep the one that has most; the others are deleted.

        A move that could not be cancelled for good leaves one, or a directory that is not
        configured for a while. Where the log itself is not in service they stay: one of them may be
        all that is left.
        """
        by_key: dict[TopicPartition, list[FoundLog]] = {}
        for found in copies:
            by_key.setdefault(found.key, []).append(found)
        kept = []
        for key, rivals in by_key.items():
            chosen = max(rivals, key=lambda one: one.log.log_end_offset)
            kept.append(chosen)
            for other in rivals:
                if other is chosen:
                    continue
                text = "future-log-superseded directory=%s by=%s"
                _log.warning(text, other.log.directory, chosen.log.directory)
                if self._registry.partition(key) is None:
                    other.log_dir.is_in_doubt = True
                    other.log.close_handlers()
                else:
                    self._deleter.put_away(key, other.log)
        return kept

    def _note_place(self, found: FoundLog) -> None:
        """Record in the catalogue where the log lies, and in the log to which topic it belongs."""
        topic = self._topics.get(found.key.topic)
        if found.log.topic_id is None:
            found.log.assign_topic_id(topic.topic_id)
        home = self._log_dirs.get(os.path.dirname(found.log.directory))
        if home is not None and topic.partitions.get(found.key.partition) != home.directory_id:
            key = found.key
            self._topics.place(key.topic, topic.topic_id, key.partition, home.directory_id)


def _named(home_id: UUID | None, rivals: Sequence[FoundLog]) -> FoundLog:
    for found in rivals:
        if found.log_dir.directory_id == home_id:
            return found
    first, second = rivals[0].log.directory, rivals[1].log.directory
    raise KafkaStorageError(
        f"{os.path.basename(first)} lies both in {os.path.dirname(first)} and in"
        f" {os.path.dirname(second)}, as after a failure while one was replacing the other; delete"
        " one of them"
    )
