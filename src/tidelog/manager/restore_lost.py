"""Restores partitions whose directories are lost to the data directory that had them.

The topics, their ids and settings are there still, and so is what says which archive a log
continues: it then does so as before. Nothing that is there is changed. Kafka has no such tool.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from tidelog.archive.claim_file import claim_file, read_claim
from tidelog.codec.checkpoint_file import write_checkpoint
from tidelog.config.log_config import LogConfig
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.deletion_marks import read_catalogue_in_force
from tidelog.datadir.offset_checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
)
from tidelog.errors import CorruptArchive, InvalidArgument, UnknownTopicOrPartition
from tidelog.log.retention.retention_rules import expired
from tidelog.manager.directories.log_dir import LogDir
from tidelog.manager.lifecycle.deletion_queue import remove_directory
from tidelog.manager.lifecycle.lost_offsets import warn_of_lost_end
from tidelog.manager.log_archiver import archived_facts
from tidelog.manager.restore import AT_ONCE, Restoration, if_sound, without_damaged
from tidelog.readonly.read_files import StorageErrors
from tidelog.segment.filenames import (
    DELETE_DIRECTORY_SUFFIX,
    TopicPartition,
    is_delete_directory,
    log_delete_directory_name,
    log_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tidelog.archive.archived_partitions import ArchivedPartition, ArchivedPartitions
    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.files import FileSystem
    from tidelog.env.machine import Machine
    from tidelog.manager.restore import OnDamage, RestoredPartition


class LostPartitions(NamedTuple):
    """Which partitions to restore: of some topics, or of all; ``number``: only this one."""

    topics: Collection[str] = ()
    number: int | None = None

    def has(self, key: TopicPartition) -> bool:
        """Return whether a partition is one of them."""
        return (not self.topics or key.topic in self.topics) and self.number in {
            None,
            key.partition,
        }


class _Lost(NamedTuple):
    """A partition that is lost, as the catalogue and the archive have it."""

    key: TopicPartition
    topic: Topic
    one: ArchivedPartition


def is_data_directory(fs: FileSystem, path: str) -> bool:
    """Return whether there is a data directory with topics, from which partitions may be lost."""
    return fs.exists(os.path.join(path, CATALOGUE_FILE))


def restore_lost(
    archive: ArchivedPartitions,
    path: str,
    wanted: LostPartitions,
    machine: Machine,
    *,
    on_total: Callable[[int], None] = lambda _: None,
    on_bytes: Callable[[int], None] = lambda _: None,
    on_damage: OnDamage | None = None,
) -> list[RestoredPartition]:
    """Restore partitions that are missing in a data directory; return what was restored.

    Of a log that continues this archive those segments are fetched that its local limits keep on
    the disk, the newest at least: the others it reads in the archive, as before. Each log is there
    as a whole or not at all, and readers see it up to its end. A warning says how far they had seen
    one that ends before.

    Args:
        archive: where they are restored from.
        path: the absolute path of the data directory, which no other process has open.
        wanted: which; those that are not lost, or not archived, are an error if they were named.
        machine: the disk, the clock, what runs several side by side, and what makes names.
        on_total: called with the bytes of ``.log`` files that are to be written.
        on_bytes: called with bytes of ``.log`` files as they are written, on any thread.
        on_damage: as of ``restore``.

    Raises:
        DirectoryLocked: a process has the directory open.
        UnknownTopicOrPartition: a topic or partition is not in the catalogue, or not archived.
        InvalidArgument: a partition is there, or none is missing.
        CorruptArchive: as of ``restore``; or the archive has lost what it had when last seen.
        StoreError: the store failed; call it again.
        KafkaStorageError: the disk failed, or is full; call it again.
    """
    fs = machine.fs
    with StorageErrors(path):
        log_dir = LogDir(path, fs=fs, rng=machine.rng, has_all_logs=False)
        try:
            restoring = _Restoring(log_dir, archive, machine, on_bytes)
            needed = [
                (lost, if_sound(partial(restoring.needed, lost)))
                for lost in _chosen(fs, log_dir, archive, wanted)
            ]
            sound = [(lost, part) for lost, part in needed if not isinstance(part, CorruptArchive)]
            on_total(sum(one.size_bytes for _, part in sound for one in part.state.entries))
            tasks = [partial(if_sound, partial(restoring.restore, *one)) for one in sound]
            results = iter(machine.scheduler.run_all("tidelog-restore", tasks, AT_ONCE))
            all_results = [
                (lost.key, part if isinstance(part, CorruptArchive) else next(results))
                for lost, part in needed
            ]
            return [*without_damaged(all_results, on_damage).values()]
        finally:
            # The clean mark stays as it was: what is restored is flushed, and its lines say so.
            log_dir.close(clean=True)


def _chosen(
    fs: FileSystem, log_dir: LogDir, archive: ArchivedPartitions, wanted: LostPartitions
) -> Sequence[_Lost]:
    """Return the partitions to restore, all of which are lost and archived."""
    topics = read_catalogue_in_force(fs, log_dir.path).topics
    keys = {
        TopicPartition(topic.name, number): topic
        for topic in topics.values()
        for number, home in sorted(topic.partitions.items())
        if home == log_dir.directory_id
    }
    for name in wanted.topics:
        if not any(key.topic == name and wanted.has(key) for key in keys):
            what = name if wanted.number is None else f"{name}-{wanted.number}"
            raise UnknownTopicOrPartition(f"the catalogue of {log_dir.path} does not have {what}")
    found = []
    for key, topic in keys.items():
        path = os.path.join(log_dir.path, log_directory_name(*key))
        if not wanted.has(key):
            continue
        if fs.exists(path) or fs.is_link(path):
            if wanted.number is not None:
                raise InvalidArgument(f"{path} is there: move it away, if {key} is to be restored")
            continue
        one = archive.if_sound((topic.topic_id, key.partition))
        if one.damage or (one.known.version and not one.known.is_deleted):
            found.append(_Lost(key, topic, one))
        elif wanted.topics:
            raise UnknownTopicOrPartition(f"{archive.name} does not have {key} of this directory")
    if not found:
        raise InvalidArgument(
            f"{log_dir.path} exists, and lacks no partition that {archive.name} has: name a path"
            " where there is nothing"
        )
    return found


class _Restoring:
    """Restores lost partitions, several at once; ``_lock`` guards the checkpoint files."""

    def __init__(
        self,
        log_dir: LogDir,
        archive: ArchivedPartitions,
        machine: Machine,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._log_dir = log_dir
        self._archive = archive
        self._machine = machine
        self._files = Restoration(machine.fs, archive.store, machine.rng, on_bytes)
        self._lock = Lock()

    def restore(self, lost: _Lost, needed: ArchivedPartition) -> RestoredPartition:
        """Bring one back, with some of its segments, as a whole or not at all."""
        fs, path = self._machine.fs, self._log_dir.path
        self._remove_leftovers(lost.key)
        unique = f"{self._machine.rng.getrandbits(128):032x}"
        # After a kill the next restore, or the next start of a service, deletes what has this name.
        beside = os.path.join(path, log_delete_directory_name(*lost.key, unique))
        try:
            done = self._files.partition(needed, lost.topic.topic_id, beside)
            self._write_lines(lost)
            fs.rename(beside, os.path.join(path, log_directory_name(*lost.key)))
        except BaseException:
            with suppress(OSError):
                remove_directory(fs, beside)
            raise
        # Appends follow: a power cut must not take them back to a name that a start deletes.
        fs.sync_directory(path)
        return done

    def _remove_leftovers(self, key: TopicPartition) -> None:
        """Delete what a killed restore has left: it takes the space that this one needs."""
        fs, path = self._machine.fs, self._log_dir.path
        for name in fs.list(path):
            unique = name.removesuffix(DELETE_DIRECTORY_SUFFIX)[-32:]
            if is_delete_directory(name) and name == log_delete_directory_name(*key, unique):
                remove_directory(fs, os.path.join(path, name))

    def needed(self, lost: _Lost) -> ArchivedPartition:
        """Return the partition with those segments that the disk is to have."""
        fs, topic, state = self._machine.fs, lost.topic, lost.one.state
        path = claim_file(self._log_dir.path, topic.topic_id, lost.key.partition)
        known = read_claim(fs, path).archive
        if known is None or known.uri != self._archive.name:
            return lost.one
        if (reason := known.why_behind(lost.key, state.end)) is not None:
            raise CorruptArchive(reason)
        config = topic.config_in_force(LogConfig())
        limits, now_ms = config.local_limits(), self._machine.clock.now_ms()
        size_bytes = sum(entry.size_bytes for entry in state.entries)
        facts = map(archived_facts, state.entries) if config.is_archived else ()
        due = expired(facts, limits, now_ms, size_bytes=size_bytes, end=state.end)
        first = due[-1].end_offset if due else 0
        kept = [entry for entry in state.entries if entry.end_offset > first]
        return lost.one._replace(known=replace(state, entries=kept or state.entries[-1:]))

    def _write_lines(self, lost: _Lost) -> None:
        """Write down where a log is flushed, and from where to where it is read; say what is lost.

        Before it is there: a line above its end would make it a damaged log for readers.
        """
        state = lost.one.state
        directory = os.path.join(self._log_dir.path, log_directory_name(*lost.key))
        begins_inside = bool(state.entries) and state.start > state.entries[0].base_offset
        with self._lock:
            self._change_line(RECOVERY_POINT_FILE, lost.key, lambda _: state.end)
            if begins_inside:
                self._change_line(
                    LOG_START_OFFSET_FILE, lost.key, lambda start: max(start, state.start)
                )
            if state.cleaned_end:
                self._change_line(
                    CLEANER_OFFSET_FILE, lost.key, lambda cleaned: max(cleaned, state.cleaned_end)
                )
            # First: once the line is lowered, nothing on the disk has the offset that is named.
            seen = self._lines(HIGH_WATERMARK_FILE).get(lost.key, 0)
            warn_of_lost_end(directory, end=state.end, seen=seen)
            self._change_line(HIGH_WATERMARK_FILE, lost.key, lambda _: state.end)

    def _change_line(self, name: str, key: TopicPartition, change: Callable[[int], int]) -> None:
        fs, path, lines = self._machine.fs, self._path(name), self._lines(name)
        write_checkpoint(fs, path, {**lines, key: change(lines.get(key, 0))})

    def _lines(self, name: str) -> OffsetCheckpoint:
        return read_offsets(self._machine.fs, self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._log_dir.path, name)
