"""Deleting topics and logs: renamed to ``-delete`` at once, removed later.

Kafka: ``LogManager.asyncDelete``.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from tidelog.archive.claim_file import note_deleted
from tidelog.datadir.partition_directories import find_copies, random_id
from tidelog.datadir.uncatalogued_topics import readable_topic_id
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.log.directory_guard import is_passing, lacks_space
from tidelog.log.loading.cut_files import is_cut_name, is_newer
from tidelog.mailbox.look import Look
from tidelog.manager.lifecycle.deletion_queue import remove_directory
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import (
    TopicPartition,
    is_delete_directory,
    log_delete_directory_name,
    log_stray_directory_name,
)
from tidelog.segment.undo import undone_on_error
from tidelog.staging.abandoned import abandoned_files
from tidelog.staging.journal_names import is_unfinished_name
from tidelog.staging.manifest_names import MANIFESTS
from tidelog.staging.ready import ReadyFiles
from tidelog.staging.ready_expiry import LEFTOVER_MS, is_expiry_new, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterator, Sequence
    from contextlib import AbstractContextManager
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.deletion_queue import DeletionQueue
    from tidelog.manager.manager_part import Shared

_log = logging.getLogger(__name__)


class LogDeleter(ManagerPart):
    """Deletes logs. Its methods take the registry's ``change_lock``."""

    def __init__(self, shared: Shared, queue: DeletionQueue) -> None:
        super().__init__(shared)
        machine, self._queue = shared.machine, queue
        self._manifests = Look(
            *(machine.fs, ReadyFiles),
            lambda files, states: sweep(files, states, machine.clock.now_ms()),
        )
        self.is_unfinished = False
        """Whether the directory of a deleted topic could not be renamed; a later pass does it."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its logs.

        It is deleted from the moment that the catalogues say so; a start after a crash finishes the
        rest. Raises UnknownTopicOrPartition for an unknown topic and for one of which a directory
        that is not open here holds a part, KafkaStorageError if that directory is offline: nothing
        has changed then.

        Once it is deleted no log of it is in service, though a disk fails: the error of that disk
        is raised at the end.

        On a disk too full for a new catalogue the topic is marked as deleted, and its logs are
        deleted at once: that makes room. KafkaStorageError if there is no room for the mark.
        """
        with self._registry.change_lock:
            topic = self._topics.get(name)
            log_dirs = {}
            for number, home_id in sorted(topic.partitions.items()):
                log_dir = self._log_dirs.with_id(home_id)
                if log_dir is None:
                    key, todo = TopicPartition(name, number), f"open all of them to delete {name}"
                    raise self._log_dirs.not_here(key, home_id, todo)
                log_dirs[log_dir.path] = log_dir
            for log_dir in log_dirs.values():
                with self._failing(log_dir, "deleting a topic"):
                    log_dir.begin_change()
            failures: list[KafkaStorageError] = []
            try:
                removed = self._delete_from_catalogue(topic, list(log_dirs), failures)
            except BaseException:
                if name not in self._topics:  # an interrupt: it is deleted all the same
                    self._abandon(topic)
                raise
            self._registry.bell.ring()
            # What is left does no harm: the next topic of the name, or start, removes it.
            for path, keys in removed.items():
                with _going_on(name, failures):
                    self._forget(self._log_dirs.get(path), keys)
            if not failures and not self.is_unfinished:
                with _going_on(name, failures):
                    self._note_in_claims({topic.topic_id})
                    self._topics.forget_deleted(topic.topic_id)
            for error in failures:
                if not is_passing(error):
                    raise error

    def _delete_from_catalogue(
        self, topic: Topic, data_dirs: Sequence[str], failures: list[KafkaStorageError]
    ) -> dict[str, list[TopicPartition]]:
        """Delete a topic and rename its directories; return its partitions by data directory."""
        try:
            self._topics.delete(topic.name)
        except KafkaStorageError as error:
            if not lacks_space(error):
                raise
            self._topics.delete_by_marks(topic.name, data_dirs)
            _log.warning("topic-deleted-at-once topic=%s reason=%s", topic.name, error)
            removed = self._take_out_all(topic, failures)
            self._queue.delete_all()
            return removed
        return self._take_out_all(topic, failures)

    def _abandon(self, topic: Topic) -> None:
        """Take all logs of a deleted topic out of service; their directories go later."""
        self.is_unfinished = True
        for number in topic.partitions:
            key = TopicPartition(topic.name, number)
            self._registry.forget_failure(key)
            for is_future in (True, False):
                self._close_out(key, is_future=is_future)

    def _take_out_all(
        self, topic: Topic, failures: list[KafkaStorageError]
    ) -> dict[str, list[TopicPartition]]:
        """Rename the directories of a topic; return its partitions by data directory.

        All of its logs are out of service then: what could not be renamed is in ``failures``.
        """
        removed: dict[str, list[TopicPartition]] = {}
        for number, home_id in sorted(topic.partitions.items()):
            key = TopicPartition(topic.name, number)
            with _going_on(topic.name, failures):
                future = self._take_out_deleted(key, is_future=True)
                if future is not None:
                    removed.setdefault(future.data_dir, []).append(key)
            home = self._log_dirs.with_id(home_id)
            self._registry.forget_failure(key)
            with _going_on(topic.name, failures):
                if self._take_out_deleted(key) is None:
                    self.rename_unopened(key, home)
            if home is not None:
                removed.setdefault(home.path, []).append(key)
        for log_dir in self._log_dirs:
            with _going_on(topic.name, failures), self._failing(log_dir, "deleting a topic"):
                self._rename_unopened_copies(log_dir, {topic.topic_id})
                self._rename_left_logs(log_dir, topic)
        self.is_unfinished |= bool(failures)
        return removed

    def _rename_left_logs(self, log_dir: LogDir, topic: Topic) -> None:
        """Rename logs of a topic that moves have left in a directory and could not rename."""
        fs = self._machine.fs
        for number, home_id in topic.partitions.items():
            path = log_dir.path_of(topic.name, number)
            if home_id == log_dir.directory_id or fs.is_link(path) or not fs.exists(path):
                continue
            if readable_topic_id(fs, path) == topic.topic_id:
                log_dir.begin_change()
                self._rename_away(TopicPartition(topic.name, number), log_dir, path)

    def _take_out_deleted(self, key: TopicPartition, *, is_future: bool = False) -> Log | None:
        """Take out a log whose topic was deleted: it leaves the service whatever fails."""
        try:
            return self._take_out(key, is_future=is_future)
        except KafkaStorageError:
            self._close_out(key, is_future=is_future)
            raise

    def _close_out(self, key: TopicPartition, *, is_future: bool) -> None:
        """Take a log out of service and close it; its directory stays for now."""
        log = self._unregister(key, is_future=is_future)
        if log is not None:
            log.close_handlers()

    @contextmanager
    def undoing_creation(
        self, topic: Topic, numbers: Collection[int] | None = None
    ) -> Iterator[None]:
        """Undo the creation of a topic if the body, which creates its logs, finds the disk full.

        With ``numbers`` only these partitions were added, and are removed again.
        """
        try:
            yield
        except KafkaStorageError as error:
            if is_passing(error):
                self._undo_creation(topic, numbers)
            raise

    def _undo_creation(self, topic: Topic, numbers: Collection[int] | None) -> None:
        """Delete a topic, or partitions of it; log why if they are still listed."""
        try:
            if numbers is None:
                self.delete_topic(topic.name)
            else:
                self._remove_partitions(topic, numbers)
        except KafkaStorageError as error:
            if topic.name in self._topics:
                _log.warning("creation-not-undone topic=%s reason=%s", topic.name, error)

    def _remove_partitions(self, topic: Topic, numbers: Collection[int]) -> None:
        """Remove partitions of a topic, their directories first.

        After a crash in between, the next start creates the directories of what the catalogue has.
        Partitions that it still has after an error have failed, or are in service.
        """
        keys = [TopicPartition(topic.name, number) for number in sorted(numbers)]
        try:
            for key in keys:
                if self._take_out(key) is None:
                    self.rename_unopened(key, self._log_dirs.with_id(topic.partitions[key[1]]))
            self._topics.shrink(topic.name, numbers)
        except KafkaStorageError as error:
            for key in keys:
                if self._registry.partition(key) is None:
                    self._registry.fail(key, error)
            raise
        for key in keys:
            self._registry.forget_failure(key)

    def remove_copy(self, key: TopicPartition) -> None:
        """Take the open copy of a move, if there is one, out of service, and let it be deleted.

        Raises KafkaStorageError.
        """
        with self._registry.change_lock:
            copy = self._take_out(key, is_future=True)
            if copy is not None:
                self._forget(self._log_dirs.of(copy), [key])
                self._registry.bell.ring()

    def _take_out(self, key: TopicPartition, *, is_future: bool = False) -> Log | None:
        """Take an open log out of the registry and rename its directory."""
        registry = self._registry
        present = registry.future(key) if is_future else registry.current(key)
        if present is not None:
            self._log_dirs.of(present)  # raises for a directory that is offline
        log = self._unregister(key, is_future=is_future)
        if log is not None:
            self.put_away(key, log)
        return log

    def _unregister(self, key: TopicPartition, *, is_future: bool) -> Log | None:
        """Take a log out of the registry; a partition ends, and is no longer cleaned."""
        if is_future:
            return self._registry.remove_future(key)
        removed = self._registry.remove(key)
        if removed is None:
            return None
        removed.end(UnknownTopicOrPartition(f"{key} was deleted"))
        self._cleaning.manager.abort(key)
        return removed.held_log

    def put_away(self, key: TopicPartition, log: Log, *, is_stray: bool = False) -> None:
        """Rename a log's directory to ``-delete``, to be deleted, or to ``-stray``, to be kept."""
        if log.needs_reopening:  # what is put away need not be made whole
            log.close_handlers()
            log_dir = self._log_dirs.of(log)
            with self._failing(log_dir, f"deleting {key}"):
                self._rename_away(key, log_dir, log.directory, is_stray=is_stray)
            return
        if is_stray:
            log.rename_directory(log_stray_directory_name(*key, self._unique()), goes_on=False)
            log.close_handlers()
            return
        try:
            log.rename_directory(log_delete_directory_name(*key, self._unique()), goes_on=False)
        except KafkaStorageError:
            log.close_handlers()
            raise
        self._queue.add(log.directory, log)

    # What earlier processes left

    def finish_deleted_topics(self) -> None:
        """Delete what is left of topics whose deletion an earlier process did not finish."""
        with self._registry.change_lock:
            for log_dir in self._log_dirs:
                with self._failing(log_dir, "deleting what is left of topics"):
                    keys = self._topics.deleted_partitions(log_dir.path)
                    if keys:
                        log_dir.begin_change()
                    self._forget(log_dir, keys)
                    for key in keys:
                        self.rename_unopened(key, log_dir)
                    self._rename_unopened_copies(log_dir, self._topics.deleted)
            self._note_in_claims(self._topics.deleted)
            self._topics.forget_deleted()

    def _note_in_claims(self, topic_ids: Collection[UUID]) -> None:
        """Let what archives topics know that they are deleted, before that is forgotten here."""
        for log_dir in self._log_dirs if topic_ids else ():
            with self._failing(log_dir, "noting the deletion of topics"):
                note_deleted(self._machine.fs, log_dir.path, topic_ids)

    def finish_if_unfinished(self) -> None:
        """Rename the directories of deleted topics that could not be renamed before.

        Catalogues of changes that failed are replaced first, where that did not work before.
        """
        with self._registry.change_lock:
            self._topics.write_where_not_undone()
            if self.is_unfinished:
                self.finish_deleted_topics()
                self.is_unfinished = False

    def delete_leftovers(self, log_dir: LogDir) -> None:
        """Delete the queue's directories, and ``-delete`` ones that others left long enough ago."""
        self._queue.delete_all()
        due_ms = self._machine.clock.now_ms() - self._queue.delay_ms
        fs = self._machine.fs
        with self._failing(log_dir, "deleting what was renamed"):
            for name in fs.list(log_dir.path):
                path = os.path.join(log_dir.path, name)
                if is_delete_directory(name) and _is_old_directory(fs, path, due_ms):
                    remove_directory(fs, path)

    def delete_staged_files(self, retention_ms: int) -> None:
        """Delete staged files that were not written to for ``retention_ms``: abandoned ones.

        So are the manifests of processes that waited for a commit and have ended, and journals that
        were not written to their ends.
        """
        for log_dir in self._log_dirs:
            with self._registry.change_lock:  # nothing is being committed
                self._delete_staged_in(log_dir, retention_ms)

    def _delete_staged_in(self, log_dir: LogDir, retention_ms: int) -> None:
        fs, now_ms = self._machine.fs, self._machine.clock.now_ms()
        try:
            self._manifests.look(log_dir.path, fs.list(log_dir.path))
            abandoned = abandoned_files(fs, log_dir.path, now_ms - retention_ms)
        except OSError as error:
            self._log_dirs.note_error(log_dir.path, error)
            return
        is_new = partial(is_expiry_new, fs, now_ms=now_ms)
        self._delete_old(log_dir, MANIFESTS.is_left, LEFTOVER_MS, is_new)
        self._delete_old(log_dir, is_unfinished_name, LEFTOVER_MS)
        self._delete_old(log_dir, abandoned.__contains__, retention_ms)

    def delete_cut_files(self, retention_ms: int) -> None:
        """Delete what recoveries cut ``retention_ms`` ago; -1: nothing.

        The files of a newer release are left alone.
        """
        fs = self._machine.fs
        for log_dir in self._log_dirs if retention_ms >= 0 else ():
            self._delete_old(log_dir, is_cut_name, retention_ms, lambda path: is_newer(fs, path))

    def _delete_old(
        self,
        log_dir: LogDir,
        is_meant: Callable[[str], bool],
        retention_ms: int,
        is_spared: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Delete the files of some kind that were not written to for ``retention_ms``."""
        fs, now_ms = self._machine.fs, self._machine.clock.now_ms()
        try:
            for name in filter(is_meant, fs.list(log_dir.path)):
                path = os.path.join(log_dir.path, name)
                # Another process may commit or delete a staged file meanwhile.
                with suppress(FileNotFoundError):
                    age_ms = now_ms - fs.stat(path).mtime_ms
                    if age_ms >= retention_ms and not is_spared(path):
                        fs.delete(path)
                        _log.info("old-file-deleted path=%s age_ms=%d", path, age_ms)
        except OSError as error:
            self._log_dirs.note_error(log_dir.path, error)

    def _rename_unopened_copies(self, log_dir: LogDir, topic_ids: Container[UUID]) -> None:
        """Rename the ``-future`` directories of topics, none of them open, to ``-delete``."""
        fs = self._machine.fs
        for key, source in find_copies(fs, log_dir.path):
            if readable_topic_id(fs, source) not in topic_ids:
                continue
            log_dir.begin_change()
            self._rename_away(key, log_dir, source)

    def remove_unopened_copy(self, key: TopicPartition, log_dir: LogDir, path: str) -> None:
        """Rename a ``-future`` directory that is not open to ``-delete``, durably.

        Its checkpoint lines are removed. Raises KafkaStorageError.
        """
        with self._failing(log_dir, f"cancelling the move of {key}"):
            log_dir.begin_change()
            self._rename_away(key, log_dir, path)
        self._forget(log_dir, [key])

    def rename_unopened(self, key: TopicPartition, log_dir: LogDir | None) -> None:
        """Rename the directory of a log that is not open to ``-delete``, durably."""
        if log_dir is None:
            return
        fs = self._machine.fs
        source = log_dir.path_of(*key)
        with self._failing(log_dir, f"deleting {key}"):
            if fs.exists(source) or fs.is_link(source):
                self._rename_away(key, log_dir, source)

    def _rename_away(
        self, key: TopicPartition, log_dir: LogDir, source: str, *, is_stray: bool = False
    ) -> None:
        """Rename a directory to ``-delete``, durably, for later deletion; or to ``-stray``.

        An OSError is undone.
        """
        fs = self._machine.fs
        name_of = log_stray_directory_name if is_stray else log_delete_directory_name
        target = os.path.join(log_dir.path, name_of(*key, self._unique()))
        with undone_on_error(source) as undo:
            fs.rename(source, target)
            undo.callback(fs.rename, target, source)
            # Else a power cut could bring the log back after its checkpoint lines are gone.
            fs.sync_directory(log_dir.path)
        if not is_stray:
            self._queue.add(target)

    def _forget(self, log_dir: LogDir | None, keys: Sequence[TopicPartition]) -> None:
        """Remove the checkpoint lines of partitions, durably."""
        if log_dir is not None and keys:
            with self._failing(log_dir, "removing checkpoint lines"):
                self._cleaning.forget_lines(log_dir, keys)

    def _unique(self) -> str:
        return random_id(self._machine.rng).hex

    def _failing(self, log_dir: LogDir, doing: str) -> AbstractContextManager[None]:
        """Raise an OSError of the body as KafkaStorageError; a full disk stays online."""
        return self._log_dirs.failing(log_dir.path, doing)


@contextmanager
def _going_on(topic: str, failures: list[KafkaStorageError]) -> Iterator[None]:
    """Add an error of the body to ``failures`` instead of raising it."""
    try:
        yield
    except KafkaStorageError as error:
        _log.warning("topic-deletion-put-off topic=%s reason=%s", topic, error)
        failures.append(error)


def _is_old_directory(fs: FileSystem, path: str, changed_until_ms: int) -> bool:
    """Whether this is a directory, or a link to one, last changed at that time or before."""
    try:
        found = fs.stat(path)
    except FileNotFoundError:  # a link to nothing, or deleted meanwhile
        return False
    return found.is_directory and found.mtime_ms <= changed_until_ms
