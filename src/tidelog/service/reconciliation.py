"""Reconciling the logs found at start with the catalogue.

Kafka: parts of ``LogManager.loadLog`` and ``recoverAbandonedFutureLogs``.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidelog.datadir.partition_directories import lies_twice
from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import is_passing, lacks_resources
from tidelog.log.topic_id import is_other_topic
from tidelog.manager.lifecycle.log_closer import close_log
from tidelog.manager.lifecycle.partition_loader import take_in
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import TopicPartition, log_directory_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.errors import TidelogError
    from tidelog.manager.lifecycle.creator import LogCreator
    from tidelog.manager.lifecycle.deleter import LogDeleter
    from tidelog.manager.lifecycle.deletion_queue import DeletionQueue
    from tidelog.manager.manager_part import Shared
    from tidelog.service.loading import FoundLog, LoadedLogs

_log = logging.getLogger(__name__)


class Reconciler(ManagerPart):
    """Takes loaded logs into service: which of two is a partition's, which are not any topic's."""

    def __init__(
        self,
        shared: Shared,
        *,
        creator: LogCreator,
        deleter: LogDeleter,
        queue: DeletionQueue,
    ) -> None:
        super().__init__(shared)
        self._creator = creator
        self._deleter = deleter
        self._queue = queue

    def reconcile(self, loaded: LoadedLogs) -> None:
        """Serve what was loaded, create what is missing, and bring the catalogues up to date.

        A log whose disk fails or is full meanwhile is left out and noted in the registry as failed;
        the others are served.

        Raises KafkaStorageError for a partition that lies in two directories, where no catalogue
        says which one is meant; and if file descriptors or memory ran out.
        """
        for path in loaded.to_delete:
            self._queue.add(path)
        current = self._without_failed(loaded.current)
        current = [one for one in current if not self._put_aside(one)]
        futures = [
            one
            for one in self._without_failed(loaded.future)
            if not self._promote(one, current) and not self._put_aside(one)
        ]
        for found in self._without_replaced([one for one in current if self._is_known(one)]):
            with self._unless_failing(found):
                self._serve(found)
        for found in self._longest(futures):
            is_uncut = not found.log_dir.was_clean
            self._registry.add_future(found.key, found.log, is_uncut=is_uncut)
        for topic in self._topics.all().values():
            self._creator.create_missing(topic, on_failure=self._not_created)
        self._write_topics()

    def _write_topics(self) -> None:
        """Bring the catalogues up to date, except on a full disk."""
        try:
            self._log_dirs.despite_failures(self._topics.write_where_needed)
            if not self._deleter.is_unfinished:
                self._log_dirs.despite_failures(self._topics.forget_deleted)
        except KafkaStorageError as error:
            if not is_passing(error):
                raise
            # The next change writes them. Until then what is known now is found at each start.
            paths = ", ".join(one.path for one in self._log_dirs)
            _log.warning("topics-not-written directory=%s reason=%s", paths, error)

    @contextmanager
    def _unless_failing(self, found: FoundLog) -> Iterator[None]:
        """Leave a log out if its disk fails, or is full, in the body."""
        try:
            yield
        except KafkaStorageError as error:
            self._leave_out(found, error)

    def _leave_out(self, found: FoundLog, error: TidelogError) -> None:
        """Close a log that is not served; raise the error if it says nothing about a disk."""
        self._close(found, error)
        self._registry.fail(found.key, error)

    @staticmethod
    def _close(found: FoundLog, error: TidelogError) -> None:
        if lacks_resources(error):
            raise error
        _log.error("log-not-loaded directory=%s reason=%s", found.log.directory, error)
        found.log_dir.doubted.add(found.log.directory)
        found.log.close_handlers()

    def _not_created(self, keys: Sequence[TopicPartition], error: KafkaStorageError) -> None:
        """Take note of missing partitions that could not be created."""
        if lacks_resources(error):
            raise error
        for key in keys:
            _log.error("log-not-created topic=%s partition=%d reason=%s", *key, error)
            self._registry.fail(key, error)

    def _serve(self, found: FoundLog) -> None:
        topic = self._topics.get(found.key.topic)
        self._note_place(found, topic)
        take_in(self.shared, found.key, found.log_dir, topic.topic_id, lambda: found.log)

    def _without_failed(self, found: Sequence[FoundLog]) -> list[FoundLog]:
        """Leave out logs whose directory has failed while others were loaded."""
        kept = []
        for one in found:
            if self._log_dirs.get(one.log_dir.path) is one.log_dir:
                kept.append(one)
            else:
                one.log.close_handlers()
        return kept

    def _put_aside(self, found: FoundLog) -> bool:
        """Rename a log that belongs to no topic: deleted ones are deleted, others kept as stray."""
        key, log = found.key, found.log
        if self._topics.is_deleted(log.topic_id):
            try:
                self._deleter.put_away(key, log)
            except KafkaStorageError as error:
                self._close(found, error)
                self._deleter.is_unfinished = True
            return True
        known = self._topics.all().get(key.topic)
        if known is not None and is_other_topic(log.topic_id, known.topic_id):
            _log.warning("log-stray directory=%s topic_id=%s", log.directory, log.topic_id)
            try:
                self._deleter.put_away(key, log, is_stray=True)
            except KafkaStorageError as error:
                self._close(found, error)
                # Without its cause: only a start knows it from the log of the topic.
                self._registry.fail(key, KafkaStorageError(str(error)))
            return True
        return False

    def _is_known(self, found: FoundLog) -> bool:
        """Leave out a log without an id whose topic was not adopted, since its id is unreadable."""
        if found.key.topic in self._topics:
            return True
        error = KafkaStorageError(f"the id of topic {found.key.topic} cannot be read")
        self._leave_out(found, error)
        return False

    def _promote(self, found: FoundLog, current: list[FoundLog]) -> bool:
        """Finish a move that the catalogue has already decided."""
        recorded = self._topics.recorded_home(*found.key)
        is_there = any(one.key == found.key and one.log_dir is found.log_dir for one in current)
        if recorded != found.log_dir.directory_id or is_there:
            return False
        with self._unless_failing(found):
            found.log.rename_directory(log_directory_name(*found.key))
            _log.info("future-log-promoted directory=%s", found.log.directory)
            current.append(found)
        return True

    def _without_replaced(self, current: Sequence[FoundLog]) -> list[FoundLog]:
        """Of two logs of a partition keep the one that the catalogue names.

        The other is deleted only if the catalogue beside it names the same place and it is no
        longer, as after a move, or if it never had a record, as after a creation that failed there:
        it may hold records of its own otherwise.
        """
        kept = []
        for key, rivals in _by_key(current).items():
            error = self._why_not_there(key, rivals)
            if error is not None:
                for found in rivals:
                    self._leave_out(found, error)
                continue
            chosen = rivals[0]
            if len(rivals) > 1:
                chosen = _named(self._topics.recorded_home(*key), rivals)
            kept.append(chosen)
            for other in (one for one in rivals if one is not chosen):
                home_id = chosen.log_dir.directory_id
                has_left = self._topics.has_left(key, other.log_dir.path, home_id)
                is_longer = other.log.log_end_offset > chosen.log.log_end_offset
                if is_longer or (other.log.log_end_offset and not has_left):
                    raise _rivalry(chosen, other)
                self._put_away_for(chosen, other)
        return kept

    def _why_not_there(self, key: TopicPartition, found: Sequence[FoundLog]) -> TidelogError | None:
        """Return an error if the catalogue names a log that was not found.

        Another one may be what a move has left behind: older, and without what was appended since.
        """
        home_id = self._topics.recorded_home(*key)
        if home_id is None or any(one.log_dir.directory_id == home_id for one in found):
            return None
        if self._log_dirs.with_id(home_id) is None:
            if not self._log_dirs.failures:
                return None
            offline = ", ".join(self._log_dirs.failures)
            return KafkaStorageError(f"{key} lies in a directory that is offline: {offline}")
        return self._registry.life(key).error

    def _put_away_for(self, chosen: FoundLog, other: FoundLog) -> None:
        """Delete a log in favour of another one of the partition, which is online.

        Where that fails the next start does it.
        """
        if self._log_dirs.get(chosen.log_dir.path) is not chosen.log_dir:
            self._close(other, self._log_dirs.offline_error(chosen.log_dir.path))
            return
        try:
            self._deleter.put_away(other.key, other.log)
        except KafkaStorageError as error:
            self._close(other, error)

    def _longest(self, copies: Sequence[FoundLog]) -> list[FoundLog]:
        """Of several copies of a partition keep the one that has most; the others are deleted.

        A move that could not be cancelled for good leaves one, or a directory that is not
        configured for a while. Where the log itself is not in service they stay: one of them may be
        all that is left.
        """
        kept = []
        for key, rivals in _by_key(copies).items():
            chosen = max(rivals, key=lambda one: one.log.log_end_offset)
            kept.append(chosen)
            for other in (one for one in rivals if one is not chosen):
                text = "future-log-superseded directory=%s by=%s"
                _log.warning(text, other.log.directory, chosen.log.directory)
                if self._registry.partition(key) is None:
                    self._keep_aside(other)
                else:
                    self._put_away_for(chosen, other)
        return kept

    @staticmethod
    def _keep_aside(found: FoundLog) -> None:
        """Close a copy that is not used now; where that fails the next start recovers it.

        The next start also recovers it after an unclean end: a flush now makes nothing whole that
        was not flushed then.
        """
        if close_log(found.log) is not None or not found.log_dir.was_clean:
            found.log_dir.doubted.add(found.log.directory)

    def _note_place(self, found: FoundLog, topic: Topic) -> None:
        """Record in the catalogue where the log lies."""
        home = self._log_dirs.get(found.log.data_dir)
        if home is not None and topic.partitions.get(found.key.partition) != home.directory_id:
            key = found.key
            place = partial(self._topics.place, *key, home.directory_id)
            self._log_dirs.despite_failures(place)


def _by_key(found: Sequence[FoundLog]) -> dict[TopicPartition, list[FoundLog]]:
    by_key: dict[TopicPartition, list[FoundLog]] = {}
    for one in found:
        by_key.setdefault(one.key, []).append(one)
    return by_key


def _named(home_id: UUID | None, rivals: Sequence[FoundLog]) -> FoundLog:
    for found in rivals:
        if found.log_dir.directory_id == home_id:
            return found
    raise _rivalry(rivals[0], rivals[1])


def _rivalry(one: FoundLog, other: FoundLog) -> KafkaStorageError:
    return lies_twice(one.log.directory, other.log.directory)
