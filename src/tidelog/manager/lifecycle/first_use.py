"""Loading one log when it is first asked for, in a process that needs few of many.

Kafka's ``LogManager`` loads every log of every directory; a commit of a few records must not.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.datadir.partition_directories import is_directory
from tidelog.datadir.uncatalogued_topics import readable_topic_id
from tidelog.errors import KafkaStorageError
from tidelog.log.topic_id import is_other_topic
from tidelog.manager.lifecycle.partition_loader import take_in
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.datadir.catalogue import Topic
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.creator import LogCreator
    from tidelog.manager.lifecycle.log_opener import LogOpener
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.partition import Partition

_log = logging.getLogger(__name__)


class FirstUseLoader(ManagerPart):
    """Loads, recovers or creates the log of a partition that the catalogue lists.

    ``watcher`` is notified of how far recoveries are and what they cut.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        opener: LogOpener,
        creator: LogCreator,
        watcher: LoadWatcher,
    ) -> None:
        super().__init__(shared)
        self._opener: Final = opener
        self._creator: Final = creator
        self._watcher: Final = watcher

    def load(self, name: str, number: int, watcher: LoadWatcher | None = None) -> Partition:
        """Load one log and serve it; ``watcher`` is notified in place of the usual one.

        Raises:
            UnknownTopicOrPartition: a directory that is not open here holds it.
            InconsistentTopicId: the files are those of another topic of the same name.
            KafkaStorageError: the disk failed.
        """
        key = TopicPartition(name, number)
        with self._registry.change_lock:
            self._registry.check_open()
            known = self._registry.partition(key)
            if known is not None:
                return known
            topic = self._topics.get(name)  # it may have been deleted meanwhile
            topic.home_of(number)
            log_dir = self._place(key, topic)
            topic = self._topics.get(name)
            self._prepare(log_dir, key)
            life = self._registry.life(key)
            self._creator.make_directories(topic, [number], is_new=life.is_new)
            path = log_dir.path_of(*key)
            used_watcher = watcher or self._watcher
            is_retry = life.may_be_half_recovered
            load = partial(self._opener.load, log_dir, key, path, used_watcher, is_retry=is_retry)
            return take_in(self.shared, key, log_dir, topic.topic_id, load)

    def is_missing(self, key: TopicPartition) -> bool:
        """Return whether the log of a partition is not there, so that ``load`` would create it.

        Raises as ``load``.
        """
        with self._registry.change_lock:
            if self._registry.partition(key) is not None:
                return False
            return not self._is_there(self._place(key, self._topics.get(key.topic)), key)

    def _place(self, key: TopicPartition, topic: Topic) -> LogDir:
        """Return the directory of a log; record in the catalogue if it is not the one named there.

        So does the start of a service. A new, empty log would take its place otherwise. Raises
        UnknownTopicOrPartition and KafkaStorageError.
        """
        home = self._log_dirs.with_id(topic.partitions[key.partition])
        if home is None:
            todo = "choose a partition of this one, or start a service over both"
            raise self._log_dirs.not_here(key, topic.partitions[key.partition], todo)
        if self._is_there(home, key):
            return home
        elsewhere = [one for one in self._log_dirs if self._is_of(topic, one, key)]
        if len(elsewhere) > 1:
            paths = ", ".join(one.path for one in elsewhere)
            raise KafkaStorageError(f"{key} lies in more than one directory: {paths}")
        if elsewhere:
            place = partial(self._topics.place, *key, elsewhere[0].directory_id)
            self._log_dirs.despite_failures(place)
            return elsewhere[0]
        return home

    def _is_of(self, topic: Topic, log_dir: LogDir, key: TopicPartition) -> bool:
        """Return whether a directory has a log of a partition that may be the topic's."""
        path = log_dir.path_of(*key)
        with self._log_dirs.failing(log_dir.path, f"looking for {key}"):
            is_log = is_directory(self._machine.fs, path) and not self._log_dirs.links.why_foreign(
                path
            )
            found = readable_topic_id(self._machine.fs, path) if is_log else None
            return is_log and not is_other_topic(found, topic.topic_id)

    def _is_there(self, log_dir: LogDir, key: TopicPartition) -> bool:
        """Return whether a directory has the log of a partition, or the copy that becomes it."""
        with self._log_dirs.failing(log_dir.path, f"looking for {key}"):
            if self._machine.fs.exists(log_dir.path_of(*key)):
                return True
        return bool(self._creator.copies.within(log_dir, key))

    def _prepare(self, log_dir: LogDir, key: TopicPartition) -> None:
        """Mark the directory as being changed, and finish a move that the catalogue has decided.

        A crash between the catalogue and the renaming leaves only the copy.
        """
        current = log_dir.path_of(*key)
        with self._log_dirs.failing(log_dir.path, f"loading {key}"):
            self._log_dirs.links.check(current)
            log_dir.begin_change()
            if self._machine.fs.exists(current):
                return
            for future in self._creator.copies.within(log_dir, key)[:1]:
                self._machine.fs.rename(future, current)
                # Appends follow: a power cut must not take them back to a name that no start loads.
                self._machine.fs.sync_directory(log_dir.path)
                _log.info("future-log-promoted directory=%s", current)
