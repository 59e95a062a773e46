"""New logs: in which directory each is created, and in which order the steps become durable.

Kafka: ``LogManager.getOrCreateLog``, ``nextLogDirs`` and ``createLogDirectory``.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidelog.datadir.partition_directories import make_partition_directory, random_id
from tidelog.errors import (
    InvalidArgument,
    KafkaStorageError,
)
from tidelog.manager.lifecycle.deletion_queue import remove_directory
from tidelog.manager.lifecycle.known_copies import KnownCopies
from tidelog.manager.lifecycle.lost_offsets import check_not_archived, warn_of_lost_log
from tidelog.manager.lifecycle.partition_loader import take_in
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import (
    TopicPartition,
    log_directory_name,
    log_future_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.deleter import LogDeleter
    from tidelog.manager.lifecycle.log_opener import LogOpener
    from tidelog.manager.manager_part import Shared

    OnFailure = Callable[[Sequence[TopicPartition], KafkaStorageError], None]

_log = logging.getLogger(__name__)


@contextmanager
def _raising_first(
    fail: Callable[[TopicPartition, KafkaStorageError], None],
) -> Iterator[OnFailure]:
    """Pass errors of disks to ``fail``, so that others continue; raise the first at the end."""
    errors: list[KafkaStorageError] = []

    def note(keys: Sequence[TopicPartition], error: KafkaStorageError) -> None:
        errors.append(error)
        for key in keys:
            fail(key, error)

    yield note
    if errors:
        raise errors[0]


class LogCreator(ManagerPart):
    """Creates logs. Its methods take the registry's ``change_lock``."""

    def __init__(self, shared: Shared, *, opener: LogOpener, deleter: LogDeleter) -> None:
        super().__init__(shared)
        self._opener = opener
        self._deleter = deleter
        self.copies = KnownCopies(shared.machine.fs, shared.log_dirs)
        """The copies that moves make, open or left behind."""

    def cancel_move(self, key: TopicPartition) -> None:
        """Delete the copy of a move of which no log is open.

        Raises:
            InvalidArgument: there is no such copy, or the catalogue already names its directory:
                opening the log finishes that move.
            KafkaStorageError: the disk failed.
        """
        home_id = self._topics.get(key.topic).partitions.get(key.partition)
        with self._registry.change_lock:
            copies = self.copies.of(key)
            if not copies:
                raise InvalidArgument(f"{key} is not being moved")
            for log_dir, path in copies:
                current = log_dir.path_of(*key)
                with self._log_dirs.failing(log_dir.path, f"looking for {key}"):
                    is_there = self._machine.fs.exists(current)
                if log_dir.directory_id == home_id and not is_there:
                    raise InvalidArgument(
                        f"the move of {key} to {log_dir.path} is decided: opening it finishes it"
                    )
                self._deleter.remove_unopened_copy(key, log_dir, path)

    # Choosing a directory

    def choose_directories(
        self,
        partitions: int,
        *,
        is_spread: bool,
        topic: Topic | None = None,
        path: str | None = None,
    ) -> list[LogDir]:
        """Return a directory for each of ``partitions`` new partitions of a topic.

        All lie in one, where the topic already is or else the one with the fewest logs, so that one
        transaction can write all of them. ``is_spread``: each goes where the fewest logs are.
        ``path``: all lie in this directory. Raises LogDirNotFound, KafkaStorageError if that, or
        every directory, is offline, InvalidReplicaAssignment if it gets no new logs.
        """
        if path is not None:
            return [self.home_at(path)] * partitions
        if topic is not None and not is_spread:
            home = self._log_dirs.with_id(topic.partitions[max(topic.partitions)])
            if home is not None and not self._log_dirs.is_cordoned(home.path):
                return [home] * partitions
        open_to_new = self._directories_for_new()
        counts = self._count_by_directory() if len(open_to_new) > 1 else {}
        chosen = []
        for _ in range(partitions if is_spread else 1):
            log_dir = min(open_to_new, key=lambda one: counts.get(one.path, 0))
            counts[log_dir.path] = counts.get(log_dir.path, 0) + 1
            chosen.append(log_dir)
        return chosen if is_spread else chosen * partitions

    def home_at(self, path: str) -> LogDir:
        """Return the directory that new logs are to be created in; errors as for its ``path``."""
        dirs = self._log_dirs
        return dirs.open_to_new(path) if len(dirs) > 1 else dirs.online(path)

    def _count_by_directory(self) -> dict[str, int]:
        """Return how many logs each directory has: those that the catalogue lists, and copies."""
        topics = self._topics.all().values()
        homes = Counter(home for topic in topics for home in topic.partitions.values())
        copies = Counter(copy.data_dir for copy in self._registry.futures().values())
        return {one.path: homes[one.directory_id] + copies[one.path] for one in self._log_dirs}

    def _directories_for_new(self) -> list[LogDir]:
        """Return the directories that a new log may be created in.

        Cordoned directories are left out, unless all are. Raises KafkaStorageError if all are
        offline. Source: Kafka LogManager.nextLogDirs.
        """
        self._log_dirs.check_any()
        live = list(self._log_dirs)
        uncordoned = [one for one in live if not self._log_dirs.is_cordoned(one.path)]
        return uncordoned or live[:1]

    # Creating

    def check_free(self, topic: str, numbers: Iterable[int]) -> None:
        """Raise KafkaStorageError if something lies where new partitions are to be created.

        What lies in another data directory counts, too: it would be a second log of the partition.
        What deleted topics have left there is taken away first; anything else stays as it is.
        """
        self._deleter.finish_if_unfinished()
        names = [log_directory_name(topic, number) for number in numbers]
        if self._present(names) is not None:
            self._deleter.finish_deleted_topics()
        present = self._present(names)
        if present is not None:
            self._log_dirs.links.check(present)
            raise KafkaStorageError(
                f"{present} is left alone: it is in the way of a new partition of topic {topic};"
                " move it away"
            )

    def _present(self, names: Iterable[str]) -> str | None:
        """Return the path of an entry of one of these names in a data directory, if there is one.

        They are looked up one by one, as a directory may have many thousand others.
        """
        fs = self._machine.fs
        for log_dir in list(self._log_dirs):
            with self._log_dirs.failing(log_dir.path, "creating logs"):
                for name in names:
                    path = os.path.join(log_dir.path, name)
                    if fs.is_link(path) or fs.exists(path):
                        return path
        return None

    def lacks(self, topic: Topic) -> bool:
        """Return whether directories of a topic are missing, as after a creation that was stopped.

        Raises the error of a disk.
        """
        with self._registry.change_lock, _raising_first(_ignore) as on_failure:
            return bool(self._missing(topic, sorted(topic.partitions), on_failure))

    def make_directories(
        self, topic: Topic, numbers: Iterable[int], *, is_new: bool = False
    ) -> list[TopicPartition]:
        """Create the missing directories of partitions, durably; return the partitions created.

        One whose data directory is offline is not created a second time. Records that readers saw
        and that are gone with a directory are logged and counted, unless the partitions are new.
        Raises the first error of a disk when those of the others are there.
        """
        with _raising_first(_ignore) as on_failure:
            return self._make_missing(topic, numbers, on_failure, is_new=is_new)

    def _make_missing(
        self, topic: Topic, numbers: Iterable[int], on_failure: OnFailure, *, is_new: bool
    ) -> list[TopicPartition]:
        created = []
        missing = self._missing(topic, numbers, on_failure)
        if not is_new:
            missing = self._not_elsewhere(missing, on_failure)
        for path, found in missing.items():
            log_dir = self._log_dirs.get(path)
            if log_dir is None:
                continue
            args = log_dir, found, topic.topic_id, on_failure
            keys = found if is_new else self._not_archived(*args)
            for key in keys:
                # Lines of a new partition are those of an earlier one of its name.
                is_known = is_new or key in self._registry.lost
                if not is_known and warn_of_lost_log(log_dir.checkpoints, key, path):
                    self._registry.lost.add(key)
            if not keys:
                continue
            names = [log_directory_name(*key) for key in keys]
            try:
                self._make(log_dir, keys, names, topic.topic_id)
            except KafkaStorageError as error:
                on_failure(keys, error)
                continue
            for key in keys:
                _log_created(key, log_dir.path_of(*key), topic.config)
            created += keys
        return created

    def _missing(
        self, topic: Topic, numbers: Iterable[int], on_failure: OnFailure
    ) -> dict[str, list[TopicPartition]]:
        """Return partitions whose directory is not there, by the data directory of each."""
        missing: dict[str, list[TopicPartition]] = {}
        for number in numbers:
            key = TopicPartition(topic.name, number)
            log_dir = self._log_dirs.with_id(topic.partitions[number])
            if log_dir is None:
                continue
            try:
                is_there = self._is_there(log_dir, key)
            except KafkaStorageError as error:
                on_failure([key], error)
                continue
            if not is_there:
                missing.setdefault(log_dir.path, []).append(key)
        return missing

    def _not_archived(
        self,
        log_dir: LogDir,
        keys: Sequence[TopicPartition],
        topic_id: UUID,
        on_failure: OnFailure,
    ) -> list[TopicPartition]:
        """Leave out partitions whose lost logs an archive has; see ``check_not_archived``."""
        left = []
        for key in keys:
            try:
                what = f"reading the claim of the archive of {key}"
                with self._log_dirs.failing(log_dir.path, what):
                    check_not_archived(self._machine.fs, log_dir.path, key, topic_id)
            except KafkaStorageError as error:
                on_failure([key], error)
            else:
                left.append(key)
        return left

    def _not_elsewhere(
        self, missing: dict[str, list[TopicPartition]], on_failure: OnFailure
    ) -> dict[str, list[TopicPartition]]:
        """Leave out partitions whose log may lie in a directory that is offline.

        A new, empty log would be taken for it when that directory is back. So does Kafka.
        """
        new = {key for keys in missing.values() for key in keys if self._registry.life(key).is_new}
        if known := [key for keys in missing.values() for key in keys if key not in new]:
            try:
                self._log_dirs.check_online(", ".join(map(str, known[:3])))
            except KafkaStorageError as error:
                on_failure(known, error)
                return {path: [key for key in keys if key in new] for path, keys in missing.items()}
        return missing

    def create_new(self, topic: Topic, numbers: Collection[int], *, opened: bool) -> None:
        """Create the directories of new partitions, and their logs if they are to be ``opened``."""
        if opened:
            self._registry.expect_new(TopicPartition(topic.name, number) for number in numbers)
            self.create_missing(topic, numbers)
        else:
            self.make_directories(topic, sorted(numbers), is_new=True)

    def create_missing(
        self,
        topic: Topic,
        new: Iterable[int] | None = None,
        *,
        on_failure: OnFailure | None = None,
    ) -> None:
        """Create, open and serve the logs that a topic should have and has not.

        ``new`` are partitions that never existed before; None: all, of which none is new. One whose
        data directory is offline is left out, and so is one whose log is there but could not be
        loaded. ``on_failure`` is called with the partitions that a failing or full disk kept from
        being created; None: they are noted in the registry as failed, and the first error is raised
        when the logs of the other disks are served.
        """
        life = self._registry.life
        if on_failure is None:
            with _raising_first(self._registry.fail) as noting:
                self.create_missing(topic, new, on_failure=noting)
            return
        there = [at for at in topic.partitions if not life(TopicPartition(topic.name, at)).error]
        wanted = sorted(there if new is None else new)
        for key in self._make_missing(topic, wanted, on_failure, is_new=new is not None):
            log_dir = self._log_dirs.with_id(topic.partitions[key.partition])
            if log_dir is None:
                continue
            path = log_dir.path_of(*key)
            open_log = partial(self._opener.create, key, path, topic.topic_id)
            try:
                take_in(self.shared, key, log_dir, topic.topic_id, open_log)
            except KafkaStorageError as error:
                on_failure([key], error)

    def _is_there(self, log_dir: LogDir, key: TopicPartition) -> bool:
        if self._registry.partition(key) is not None:
            return True
        with self._log_dirs.failing(log_dir.path, f"looking for {key}"):
            return self._machine.fs.exists(log_dir.path_of(*key))

    def _make(
        self,
        log_dir: LogDir,
        keys: Sequence[TopicPartition],
        names: Sequence[str],
        topic_id: UUID | None,
    ) -> None:
        """Create directories in one data directory, with one sync of it for all of them.

        Their checkpoint lines go first: a line that an earlier partition of the name left would
        truncate the new log.
        """
        fs, what = self._machine.fs, ", ".join(names[:3])
        paths = [os.path.join(log_dir.path, name) for name in names]
        try:
            with self._log_dirs.failing(log_dir.path, f"creating {what}"):
                for path in paths:
                    self._log_dirs.links.check(path)
                log_dir.begin_change()
                self._cleaning.forget_lines(log_dir, keys)
                for path in paths:
                    if topic_id is None:
                        fs.make_directory(path)
                    else:
                        make_partition_directory(fs, path, topic_id)
                # Before any record is acknowledged: flushes of a log sync its files, not its name.
                fs.sync_directory(log_dir.path)
        except BaseException:
            log_dir.doubt_names()  # what was made before it is found there, and used
            raise

    def create_copy(self, key: TopicPartition, log_dir: LogDir, topic_id: UUID | None) -> Log:
        """Create and register the empty log to which a move copies; raise KafkaStorageError."""
        name = log_future_directory_name(*key, random_id(self._machine.rng).hex)
        path = os.path.join(log_dir.path, name)
        with self._registry.change_lock:
            self._registry.check_open()
            self.copies.note(key, path)
            try:
                self._make(log_dir, [key], [name], topic_id)
                copy = self._opener.create(key, path, topic_id)
            except KafkaStorageError:
                self._remove_unfinished(path)
                raise
            _log_created(key, path, copy.config.to_properties())
            self._registry.add_future(key, copy)
            return copy

    def _remove_unfinished(self, path: str) -> None:
        """Delete what the creation of a copy that failed has left, unless the disk failed.

        The next start would take it for the copy of a move that was refused.
        """
        log_dir = self._log_dirs.get(os.path.dirname(path))
        if log_dir is None:
            return
        try:
            remove_directory(self._machine.fs, path)
        except OSError as error:
            _log.warning("log-not-deleted directory=%s reason=%s", path, error)


def _log_created(key: TopicPartition, directory: str, properties: Mapping[str, str]) -> None:
    """Log a creation, with the settings that differ from their defaults."""
    text = "Created log for partition %s in %s with properties %s"
    _log.info(text, key, directory, dict(properties))


def _ignore(_key: TopicPartition, _error: KafkaStorageError) -> None:
    """Leave a partition as it is: its next use tries to create it again."""
