"""Rescues what can be read of broken data directories into a new one.

The new directory is made beside its place and renamed once it is complete, so that nothing
unfinished has its name. Its logs are opened once before that: recovery builds all indexes,
transaction indexes and producer snapshots from the batches. Kafka has no such tool.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.deletion_settings import NEVER_DELETED
from tidelog.datadir.catalogue import CATALOGUE_FILE, Topic
from tidelog.datadir.deletion_marks import read_catalogue_in_force
from tidelog.datadir.least_epoch import LeastEpoch, greatest_epoch, write_least_epoch
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE
from tidelog.datadir.partition_directories import (
    make_partition_directory,
    random_id,
)
from tidelog.errors import InvalidConfig, InvariantError, KafkaStorageError
from tidelog.log.leader_epoch import later_epoch
from tidelog.log.loading.load_watch import LoadWatcher
from tidelog.manager.directories.log_dir import check_outside
from tidelog.manager.directories.new_directory import NewDirectory
from tidelog.manager.log_manager import LogManager
from tidelog.manager.producer_ids import FILE_NAME as PRODUCER_IDS_FILE
from tidelog.manager.producer_ids import begin_apart, read_reserved, write_reserved
from tidelog.manager.rescue.left_out_entries import left_out_entries
from tidelog.manager.rescue.namesakes import Namesakes
from tidelog.manager.rescue.new_log import NewLog
from tidelog.manager.rescue.partition_copy import BrokenPartition, PartitionCopy
from tidelog.manager.rescue.rescued_partition import LeftOut, Rescued, RescuedPartition
from tidelog.readonly.missing.salvage import find_cut_files
from tidelog.readonly.read_files import StorageErrors, reading
from tidelog.segment.filenames import TopicPartition, log_directory_name
from tidelog.staging.finished import FINISHED_FILE, add_finished, read_finished

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from tidelog.datadir.metadata_files import MetaProperties
    from tidelog.env.files import FileSystem
    from tidelog.env.machine import Machine
    from tidelog.log.loading.load_watch import Loss
    from tidelog.manager.rescue.failing_files import FailingFiles
    from tidelog.manager.rescue.partition_copy import OnRead
    from tidelog.readonly.missing.salvage import CutFile
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_topic import ReadOnlyTopic

BESIDE: Final = ".rescuing"
"""What follows the name of the new directory while it is made."""
_MOST_ABSENT: Final = 10_000
"""Numbers of partitions in a row that are made though nothing was found of them. A name may hold
any number: of more, none is made."""


class _NoLoss(LoadWatcher):
    """Ends the opening of the new logs if that would cut something off."""

    def losing(self, loss: Loss) -> None:
        """Raise: what was copied must stay."""
        raise InvariantError(f"{loss.path} was copied, and does not load: {loss.reason}")


class Rescue:
    """One rescue from a source, opened to be read only, into ``target``, an absolute path.

    Args:
        source: the broken directories.
        disk: what the source is read through.
        target: where there is nothing, or an empty directory.
        machine: the disk of the target, time and random numbers.
        on_read: called after each piece that was copied.
    """

    def __init__(
        self,
        source: ReadOnlyDirectory,
        disk: FailingFiles,
        target: str,
        machine: Machine,
        *,
        on_read: OnRead = lambda *_: None,
    ) -> None:
        self._source = source
        self._disk = disk
        self._target = target
        self._machine = machine
        self._fs: FileSystem = machine.fs
        self._on_read = on_read
        self._defaults = BrokerConfig(log_dirs=(target,)).log_defaults
        self._entries: list[LeftOut] = []

    def run(self) -> Rescued:
        """Make the new directory; return what is in it and what is not.

        Raises:
            InvalidArgument: there is something at the target, or in its place beside it; it lies in
                the source.
            DirectoryLocked: another rescue is making it.
            KafkaStorageError: the source cannot be listed, descriptors or memory were short, or the
                disk of the target failed or is full; the target is as it was. Call it again.
        """
        with StorageErrors(self._target), NewDirectory(self._fs, self._target, BESIDE) as made:
            check_outside(self._source, self._fs, self._target)
            made.begin(self._source.name, what="a rescue", continues=False)
            beside = made.path
            directory_id = made.identified(self._machine.rng, like=self._identity())
            self._carry_ids(beside)
            namesakes = Namesakes(self._source)
            topics = [
                self._topic(topic, directory_id, namesakes.ids.get(topic.name))
                for topic in self._source.topics.values()
            ]
            cuts = self._cuts(topics, namesakes)
            done = [
                self._copy(beside, topic, number, cuts.get((topic.name, number), ()), namesakes)
                for topic in topics
                for number in topic.partitions
            ]
            reported = {what.path for one in done for what in one.left_out}
            self._entries += left_out_entries(self._source, self._disk, reported)
            deleted = self._deleted_meanwhile()
            for one in done:
                if one.topic in deleted:
                    one.excuse("its topic was deleted meanwhile")
            starts = {(one.topic, one.partition): one.log_start_offset for one in done}
            ends = {(one.topic, one.partition): one.log_end_offset for one in done}
            made.describe(topics, starts, ends)
            self._open_once(beside, done)
            # What could not be read may have been in epochs of which nothing is left.
            least = later_epoch(greatest_epoch(self._fs, beside), self._machine.rng)
            write_least_epoch(self._fs, beside, LeastEpoch(least, is_closed=False))
            if self._disk.shortage is not None:
                raise self._disk.shortage  # what was left out for it may be whole
            # Only now: an unfinished copy would pass for all that could be read.
            made.put_in_place()
        return Rescued(tuple(done), tuple(self._entries))

    def _identity(self) -> MetaProperties | None:
        """Return the first identity that names a cluster or a node; report it if there is none."""
        for part in self._source.parts:
            if part.meta is not None and not part.meta.is_nameless:
                return part.meta
        path = os.path.join(self._source.paths[0], META_PROPERTIES_FILE)
        reason = "it names no cluster and no node: the new directory is of a cluster of its own"
        self._entries.append(LeftOut(path, None, 0, 0, None, None, reason, False))
        return None

    def _carry_ids(self, target: str) -> None:
        """Let the new directory know which ids were given out, and what was committed by ids."""
        self._carry_producer_ids(target)
        self._carry_transactions(target)
        if not self._fs.exists(os.path.join(target, PRODUCER_IDS_FILE)):
            begin_apart(self._fs, target, self._machine.rng)  # it is not known

    def _carry_producer_ids(self, target: str) -> None:
        """Copy what says which ids of producers were used, of the first directory that has it."""
        for part in self._source.parts:
            try:
                known = read_reserved(self._source.fs, part.path)
            except KafkaStorageError as error:
                self._leave_out_file(os.path.join(part.path, PRODUCER_IDS_FILE), error)
                continue
            if known is not None:
                write_reserved(self._fs, target, known)
                return

    def _carry_transactions(self, target: str) -> None:
        """Let the new directory know what was committed in any of them: it has all topics."""
        for part in self._source.parts:
            try:
                known = read_finished(reading(self._source.fs), part.path)
            except KafkaStorageError as error:
                self._leave_out_file(os.path.join(part.path, FINISHED_FILE), error)
                continue
            add_finished(self._fs, target, known.values())

    def _leave_out_file(self, path: str, error: Exception) -> None:
        self._entries.append(LeftOut(path, None, 0, 0, None, None, str(error), True))

    def _topic(self, topic: ReadOnlyTopic, directory_id: UUID, known: UUID | None) -> Topic:
        """Return a topic as it is to be; what is unknown about deletion deletes nothing."""
        config, birth, _ = topic.settings_of_copy()
        try:
            self._defaults.with_overrides({**birth, **config})
        except InvalidConfig as error:
            reason = f"settings of topic {topic.name} are invalid, and it is kept for ever: {error}"
            path = self._source.paths[0]
            self._entries.append(LeftOut(path, None, 0, 0, None, None, reason, False))
            config, birth = dict(NEVER_DELETED), {}
        numbers = {*topic.partitions, *topic.missing}
        for absent in self._source.absent(topic.name):
            if len(absent.numbers) <= _MOST_ABSENT:
                numbers.update(absent.numbers)
        owner = self._source.sharing_ids.get(topic.name)
        topic_id = known if owner is None else None
        if owner is not None:
            reason = f"the id of topic {topic.name}, which is that of {owner}: it gets a new one"
            path = self._source.paths[0]
            self._entries.append(LeftOut(path, None, 0, 0, None, None, reason, False))
        topic_id = topic_id or random_id(self._machine.rng)
        partitions = dict.fromkeys(sorted(numbers), directory_id)
        return Topic(topic.name, topic_id, partitions, config, birth=birth)

    def _cuts(
        self, topics: Sequence[Topic], namesakes: Namesakes
    ) -> dict[tuple[str, int], list[CutFile]]:
        """Return what recoveries cut off, by partition; report what belongs to none."""
        keys = {(topic.name, number) for topic in topics for number in topic.partitions}
        found: dict[tuple[str, int], list[CutFile]] = {}
        for cut in find_cut_files(self._source):
            is_apart = namesakes.is_apart(cut)
            key = (cut.topic or "", cut.partition)
            if cut.error is None and key in keys and not is_apart:
                found.setdefault(key, []).append(cut)
                continue
            reason = "it was cut off a partition that is not here"
            if is_apart:
                reason = f"it was cut off another topic named {cut.topic}, which has another id"
            reason = reason if cut.error is None else str(cut.error)
            what = cut.path, None, cut.stored_bytes, 0, None, None, reason, True
            self._entries.append(LeftOut(*what))
        return found

    def _copy(
        self,
        beside: str,
        topic: Topic,
        number: int,
        cuts: Sequence[CutFile],
        namesakes: Namesakes,
    ) -> RescuedPartition:
        """Copy one partition, durably."""
        fs, key = self._fs, TopicPartition(topic.name, number)
        directory = os.path.join(beside, log_directory_name(*key))
        make_partition_directory(fs, directory, topic.topic_id)
        broken = BrokenPartition(self._source, self._disk, key, cuts, namesakes)
        config = self._defaults.with_overrides({**(topic.birth or {}), **topic.config})
        log = NewLog(fs, directory, config.segment_size_bytes)
        copy = PartitionCopy(broken, reading(self._source.fs), log, self._on_read)
        copy.run()
        fs.sync_directory(directory)
        return copy.done

    def _deleted_meanwhile(self) -> set[str]:
        """Return the topics that a writer has deleted since the source was opened."""
        listed = {name: one for name, one in self._source.topics.items() if one.is_listed}
        known = set()
        try:
            for part in self._source.parts:
                if not self._source.fs.exists(os.path.join(part.path, CATALOGUE_FILE)):
                    return set()  # of a disk that was unmounted, nothing would be missing
                catalogue = read_catalogue_in_force(self._source.fs, part.path)
                known |= {topic.topic_id for topic in catalogue.topics.values()}
        except KafkaStorageError:
            return set()  # what cannot be read says nothing
        return {name for name, one in listed.items() if one.topic_id not in known}

    def _open_once(self, path: str, done: Sequence[RescuedPartition]) -> None:
        """Load each log, which builds its indexes, and check that it is what was copied.

        Only then is it known which transactions are open.
        """
        config = BrokerConfig(log_dirs=(path,))
        with LogManager(config, self._machine, watcher=_NoLoss()) as manager:
            for one in done:
                log = manager.partition(one.topic, one.partition).log
                if log.log_end_offset != one.log_end_offset:
                    raise InvariantError(
                        f"{log.directory} ends at {log.log_end_offset}, and was copied up to"
                        f" {one.log_end_offset}"
                    )
                opened = log.open_transactions()
                one.open_transactions = len(opened)
                one.open_from = min(opened.values(), default=None)
