"""Restores an archive to a data directory, with the files that were archived.

The directory is made beside the target and renamed once it is complete. Files that an interrupted
restore has left are kept if they have the right checksum. Kafka has no such tool.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar

from tidelog.archive.archive_files import epochs_of, files_of
from tidelog.archive.fetched_file import SCAN_BYTES, Place
from tidelog.codec.checkpoint_file import (
    LEADER_EPOCH_FILE,
    pack_leader_epochs,
    replace_file,
    write_checkpoint,
)
from tidelog.codec.crc32c import crc32c, crc32c_of
from tidelog.codec.shown_rows import LogEnd, LogStart, PartitionNumber, TopicName
from tidelog.datadir.catalogue import Topic
from tidelog.datadir.offset_checkpoints import CLEANER_OFFSET_FILE, RECOVERY_POINT_FILE
from tidelog.errors import CorruptArchive, ObjectNotFound
from tidelog.log.leader_epoch import epoch_after_loss
from tidelog.log.topic_id import PARTITION_METADATA_FILE, pack_partition_metadata
from tidelog.manager.directories.log_dir import make_directories
from tidelog.manager.directories.new_directory import NewDirectory
from tidelog.manager.lifecycle.deletion_queue import remove_directory
from tidelog.manager.producer_ids import begin_apart
from tidelog.readonly.read_files import StorageErrors
from tidelog.segment.filenames import TopicPartition, log_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from random import Random
    from uuid import UUID

    from tidelog.archive.archived_partitions import ArchivedPartition
    from tidelog.archive.deltas import Entry
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Scheduler
    from tidelog.store.objects import Objects

    OnDamage = Callable[[TopicPartition, CorruptArchive], object]

T = TypeVar("T")

AT_ONCE: Final = 4
"""Partitions that are restored side by side."""
BESIDE: Final = ".restoring"
"""What follows the target's name while it is made."""


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """One partition."""

    topic: TopicName
    partition: PartitionNumber
    log_start_offset: LogStart
    log_end_offset: LogEnd
    segments: Annotated[int, "Segments that were restored."]
    size_bytes: Annotated[int, "Size of their `.log` files, in bytes."]


class RestoredTopic(NamedTuple):
    """A topic as it is to be: its id, settings and birth values, and its partitions."""

    name: str
    topic_id: UUID
    config: Mapping[str, str]
    birth: Mapping[str, str]
    partitions: Mapping[int, ArchivedPartition]


def restore(
    store: Objects,
    topics: Sequence[RestoredTopic],
    target: str,
    *,
    fs: FileSystem,
    rng: Random,
    scheduler: Scheduler,
    on_bytes: Callable[[int], None] = lambda _: None,
    on_damage: OnDamage | None = None,
) -> list[RestoredPartition]:
    """Make a data directory at ``target`` that holds these topics; return what was restored.

    A partition whose archive is damaged has no directory there, so that it does not pass for an
    empty one; the catalogue lists it, unless no partition of its topic is sound.

    Args:
        store: the archive.
        topics: what is restored of it.
        target: an absolute path, at which there is nothing, or an empty directory.
        fs: the disk.
        rng: makes ids.
        scheduler: runs several partitions side by side.
        on_bytes: called with bytes of ``.log`` files as they are written, on any thread.
        on_damage: called with each partition that cannot be restored; None: the first one is an
            error.

    Raises:
        InvalidArgument: there is something at the target, or in its place beside it.
        DirectoryLocked: another call is making it.
        CorruptArchive: a chain is damaged, an object is gone, or has another checksum than the
            archive says; with ``on_damage`` only if no partition is sound.
        StoreError: the store failed; call it again.
        KafkaStorageError: the disk failed, or is full; call it again.
    """
    with StorageErrors(target), NewDirectory(fs, target, BESIDE) as made:
        made.begin(store.name, what="this archive", continues=True)
        beside = made.path
        directory_id = made.identified(rng)
        _remove_others(fs, beside, topics)
        write = Restoration(fs, store, rng, on_bytes).partition
        parts = {
            TopicPartition(topic.name, number): (topic.topic_id, one)
            for topic in topics
            for number, one in sorted(topic.partitions.items())
        }
        tasks = [
            partial(if_sound, partial(write, one, topic_id, os.path.join(beside, one.directory)))
            for topic_id, one in parts.values()
        ]
        results = scheduler.run_all("tidelog-restore", tasks, AT_ONCE)
        done = without_damaged(zip(parts, results, strict=True), on_damage)
        for _, one in (parts[key] for key in parts.keys() - done.keys()):
            # The part that was written would pass for the whole log.
            remove_directory(fs, os.path.join(beside, one.directory))
        _describe(fs, made, directory_id, topics, done)
        begin_apart(fs, beside, rng)
        # Only now: a part of a topic would pass for all of it.
        made.put_in_place()
    return [*done.values()]


def if_sound(restored: Callable[[], T]) -> T | CorruptArchive:
    """Return what was restored, or the damage for which it was not."""
    try:
        return restored()
    except CorruptArchive as error:
        return error


def without_damaged(
    results: Iterable[tuple[TopicPartition, RestoredPartition | CorruptArchive]],
    on_damage: OnDamage | None,
) -> dict[TopicPartition, RestoredPartition]:
    """Return what was restored; report the rest, or raise the first damage.

    It is raised where there is no ``on_damage``, or nothing is sound.
    """
    done, damaged = {}, {}
    for key, result in results:
        if isinstance(result, CorruptArchive):
            damaged[key] = result
        else:
            done[key] = result
    if damaged and (on_damage is None or not done):
        raise next(iter(damaged.values()))
    for key, error in damaged.items():
        if on_damage is not None:
            on_damage(key, error)
    return done


def _remove_others(fs: FileSystem, path: str, topics: Iterable[RestoredTopic]) -> None:
    """Delete partitions that are not restored now: an earlier call may have got to a part of them.

    It was asked for other topics, or the archive has lost one since. Adopted with the directory,
    that part would pass for the whole log.
    """
    wanted = {one.directory for topic in topics for one in topic.partitions.values()}
    for name in fs.list(path):
        beside = os.path.join(path, name)
        if name not in wanted and fs.stat(beside).is_directory:
            remove_directory(fs, beside)


@dataclass(frozen=True, slots=True)
class Restoration:
    """Writes the files of logs; see ``restore``."""

    fs: FileSystem
    store: Objects
    rng: Random
    on_bytes: Callable[[int], None]

    def partition(
        self, one: ArchivedPartition, topic_id: UUID, directory: str
    ) -> RestoredPartition:
        """Write the files of a partition to a directory, durably, as those of a topic.

        A leader epoch begins at its end, so that positions which were read from records after that
        can be distinguished from those in what is appended to it.
        """
        fs = self.fs
        make_directories(fs, directory)
        entries = {log_file(directory, entry.base_offset): entry for entry in one.state.entries}
        files = files_of(one) | self._epochs(one, os.path.dirname(directory))
        # Of an earlier call, for segments that the archive has removed, or truncated, since.
        for name in set(fs.list(directory)) - files.keys():
            fs.delete(os.path.join(directory, name))
        for name, place in files.items():
            path = os.path.join(directory, name)
            if isinstance(place, bytes):
                data = pack_partition_metadata(topic_id)
                replace_file(fs, path, data if name == PARTITION_METADATA_FILE else place)
            elif path in entries:
                self._log(path, place, entries[path])
            else:
                ranges = [(place.start, place.end)] if place.size_bytes else []
                replace_file(fs, path, b"".join(self._bytes_of(place, ranges)))
        fs.sync_directory(directory)
        sizes = [entry.size_bytes for entry in entries.values()]
        offsets = one.state.start, one.state.end
        return RestoredPartition(one.state.topic, one.number, *offsets, len(sizes), sum(sizes))

    def _epochs(self, one: ArchivedPartition, data_dir: str) -> dict[str, bytes]:
        """Return the file of the leader epochs, with the one that begins."""
        known = epochs_of(one.state.entries)
        latest = known[-1][0] if known else None
        begun = epoch_after_loss(self.fs, data_dir, latest, self.rng), one.state.end
        return {LEADER_EPOCH_FILE: pack_leader_epochs([*known, begun])}

    def _bytes_of(
        self, place: Place, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        try:
            return self.store.get_ranges(place.name, ranges)
        except ObjectNotFound:
            text = f"{place.name} is gone, and the archive has not removed it"
            raise CorruptArchive(text) from None

    def _log(self, path: str, place: Place, entry: Entry) -> None:
        """Write a ``.log`` file; leave one that has the right bytes already."""
        fs, starts = self.fs, range(0, entry.size_bytes, SCAN_BYTES)
        if fs.exists(path) and fs.stat(path).size_bytes == entry.size_bytes:
            with closing(fs.open(path)) as file:
                if crc32c_of(file.pread(SCAN_BYTES, at) for at in starts) == entry.crc32c:
                    # A call that was killed may have written it, and not got to its sync.
                    file.sync()
                    self.on_bytes(entry.size_bytes)
                    return
        checksum = 0
        with closing(fs.open(path, "w")) as file:
            file.truncate(0)
            for at in starts:
                end = min(at + SCAN_BYTES, entry.size_bytes)
                bounds = place.start + at, place.start + end
                (piece,) = self._bytes_of(place, [bounds])
                file.pwrite(piece, at)
                checksum = crc32c(piece, checksum)
                self.on_bytes(len(piece))
            file.sync()
        if checksum != entry.crc32c:
            raise CorruptArchive(f"{place.name} has other bytes than were archived")


def _describe(
    fs: FileSystem,
    made: NewDirectory,
    directory_id: UUID,
    topics: Sequence[RestoredTopic],
    done: Collection[TopicPartition],
) -> None:
    """Write what is about all logs that are there: where they start and end, and the catalogue."""
    states = {
        (topic.name, number): one.state
        for topic in topics
        for number, one in topic.partitions.items()
        if (topic.name, number) in done
    }
    there = {key.topic for key in done}
    ends = {key: state.end for key, state in states.items()}
    starts = {
        key: state.start
        for key, state in states.items()
        if state.entries and state.start > state.entries[0].base_offset
    }
    cleaned = {key: state.cleaned_end for key, state in states.items() if state.cleaned_end}
    # Without the first one, the next opening would read every segment again.
    write_checkpoint(fs, os.path.join(made.path, RECOVERY_POINT_FILE), ends)
    if cleaned:  # what compaction had left out would else pass for lost
        write_checkpoint(fs, os.path.join(made.path, CLEANER_OFFSET_FILE), cleaned)
    known = [
        Topic(
            topic.name,
            topic.topic_id,
            dict.fromkeys(topic.partitions, directory_id),
            topic.config,
            birth=topic.birth,
        )
        for topic in topics
        if topic.name in there or not topic.partitions
    ]
    made.describe(known, starts, ends)
