"""Copies what the logs of a manager have closed to an archive, when somebody asks.

Kafka does it in background, for topics with ``remote.storage.enable``: ``RemoteLogManager``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.archive.archived_partitions import ArchivedPartitions
from tidelog.archive.chain import Chain
from tidelog.archive.copier import Copier
from tidelog.archive.snapshots import copy_to_snapshot
from tidelog.codec.shown_rows import LogEnd, PartitionNumber, TopicName
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.errors import ArchiveDiverged, InvalidArgument
from tidelog.manager.log_archiver import OpenLog
from tidelog.store.store_uri import FILES, local_path, parse_store_uri

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from tidelog.archive.chain_state import ChainState
    from tidelog.archive.deltas import Entry
    from tidelog.config.log_config import LogConfig
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_manager import LogManager
    from tidelog.segment.filenames import TopicPartition
    from tidelog.store.objects import Objects


class ArchivedSegment(NamedTuple):
    """A segment that was copied."""

    base_offset: Annotated[int, "Its first offset."]
    end_offset: Annotated[int, "The offset after its last one."]
    size_bytes: Annotated[int, "Size of its `.log` file, in bytes."]


@dataclass(frozen=True, slots=True)
class LogInArchive:
    """One partition."""

    topic: TopicName
    partition: PartitionNumber
    archive_start_offset: Annotated[int, "First offset that the archive has."]
    archive_end_offset: Annotated[int, "The offset after its last one."]
    log_end_offset: LogEnd
    copied: Annotated[tuple[ArchivedSegment, ...], "The segments that were copied, oldest first."]
    waiting_bytes: Annotated[int, "Size of the `.log` files that are not archived, in bytes."]
    swept: Annotated[int, "Objects that were deleted, with `--sweep`."]
    truncated: Annotated[int, "Segments that were removed from the archive, with `--truncate`."] = 0


class ArchiveTerms(NamedTuple):
    """How a copy treats what it finds; see ``Copier``."""

    takes_over: bool = False
    follows_start: bool = False
    sweeps: bool = False
    truncates: bool = False


def why_not_archived(topic: str, config: LogConfig) -> str | None:
    """Return why the logs of a topic cannot be archived; None if they can.

    A cleaning changes closed segments, of which the archive has each once. Kafka refuses
    ``remote.storage.enable`` for compacted and internal topics, too.
    """
    if topic in INTERNAL_SETTINGS:
        return "a topic of Kafka's own is not archived"
    if config.is_compacted:
        return "it is compacted, and a closed segment must not change once it is archived"
    if not config.is_policy_known:
        return (
            "its cleanup.policy is unknown, and a compacted topic is not archived: give"
            " cleanup.policy=delete with -o, or set it permanently with tidelog alter"
        )
    return None


def why_not_in_snapshot(manager: LogManager, key: TopicPartition) -> str | None:
    """Return why a log cannot be in a snapshot; None if it can."""
    if key.topic == METADATA_TOPIC:
        return "it is for Kafka's controllers alone"
    log = manager.partition(*key).log
    start, on_disk = log.log_start_offset, log.local_log_start_offset
    if start == on_disk:
        return None
    # Else it would have the offsets of the whole log, and not the records.
    return (
        f"offsets {start:,} to {on_disk - 1:,} of {key} are in its archive alone, and a snapshot is"
        " made of what the disk has: `tidelog mirror` makes a directory with the whole log"
    )


def check_place(uri: str, log_dirs: LogDirs) -> None:
    """Raise InvalidArgument for an archive in a data directory, where a broker may refuse it."""
    place = parse_store_uri(uri)
    if place.kind == FILES:
        log_dirs.check_outside(local_path(place))


class NewNames:
    """Refuses topics that would get the name of another one in an archive.

    Of two with one name neither could be read by it. The archive is asked once for all ``topics``,
    which are ids by name; any thread may use this.
    """

    def __init__(self, store: Objects, topics: Mapping[str, UUID]) -> None:
        self._store = store
        self._topics = topics
        self._taken: Mapping[str, UUID] | None = None
        self._lock = Lock()

    def check(self, topic: str) -> None:
        """Raise ArchiveDiverged if the archive has another topic of this name, which is one of all.

        That is to happen before anything is written.
        """
        name = self._store.name
        with self._lock:
            if self._taken is None:
                self._taken = ArchivedPartitions(self._store, name).taken_names(self._topics)
        if other := self._taken.get(topic):
            raise ArchiveDiverged(
                f"{name} has another topic named {topic}, with the id {other}: name another archive"
                " for this one"
            )


def archive_log(
    manager: LogManager,
    key: TopicPartition,
    store: Objects,
    terms: ArchiveTerms,
) -> LogInArchive:
    """Copy what one log has closed, and say how far the archive is then.

    ``why_not_archived`` must not have a reason against it. While it is copied the log is neither
    cleaned nor retained. Raises CleaningAborted, and as ``Copier.copy``.
    """
    partition = manager.partition(*key)
    with manager.cleaning.exclusive(key):
        log = partition.log
        copier = Copier(
            manager.machine.fs,
            store,
            OpenLog(log, manager.topic(key.topic), key.partition),
            manager.machine.rng,
            takes_over=terms.takes_over,
            follows_start=terms.follows_start,
            truncates=terms.truncates,
        )
        copied = copier.copy()
        swept = copier.sweep(manager.machine.clock.now_ms()) if terms.sweeps else 0
    if copier.is_behind:
        # Last: an archive that is another's must not cost the log its records.
        manager.truncation.truncate_fully_and_start_at(key, copier.state.start)
    done = _in_archive(key, log, copier.state, copied, swept)
    return replace(done, truncated=copier.truncated)


def snapshot_log(manager: LogManager, key: TopicPartition, store: Objects) -> LogInArchive:
    """Put one log into a snapshot, up to its end, unless that has the partition already.

    The active segment is closed before. It stays out if not all its records are stable, or the log
    takes no appends; see ``why_left_out``. While it is copied the log is neither cleaned
    nor retained.

    Raises:
        InvalidArgument: nothing but an active segment that stays out, or the log begins in its
            archive; the snapshot has no part of it then, so that its name can be used again.
        KafkaStorageError: the active segment cannot be closed, as on a full disk.
        CleaningAborted: the partition did not get free.
        ArchiveOvertaken, StoreError, CorruptMessage: as ``copy_to_snapshot``.
    """
    partition, topic = manager.partition(*key), manager.topic(key.topic)
    fs, rng = manager.machine.fs, manager.machine.rng
    with manager.cleaning.exclusive(key):
        log = partition.log
        if refused := why_not_in_snapshot(manager, key):
            raise InvalidArgument(refused)
        log.maybe_roll_stable()
        opened = OpenLog(log, topic, key.partition)
        reason = why_left_out(key, log, log.log_start_offset)
        if reason is not None and not opened.closed_segments():
            raise InvalidArgument(f"{reason}; that is all it has: end it, and run this again")
        state = copy_to_snapshot(fs, store, opened, rng, len(topic.partitions))
        return _in_archive(key, log, state, state.entries, 0)


def why_left_out(key: TopicPartition, log: Log, end: int) -> str | None:
    """Return why a snapshot that ends at ``end`` lacks newer records; None: it lacks none.

    What has been appended since does not count.
    """
    last, damage = log.log_end_offset - 1, log.contradiction
    missing = f"{key}: offsets {end:,} to {last:,} are not in the snapshot"
    if last < end:
        return None
    if damage is not None:
        return f"{missing}: {damage.error(str(key))}"
    stable = log.last_stable_offset
    if stable < log.high_watermark:
        return f"{missing}: a transaction is open from offset {stable:,} on (`tidelog txns`)"
    return None


def missing_in_snapshot(
    manager: LogManager, keys: Sequence[TopicPartition], store: Objects
) -> list[TopicPartition]:
    """Return the partitions that a snapshot has not, in the order in which it is to get them.

    Raises:
        InvalidArgument: it has all of them; or a topic is not given as a whole.
    """
    for name in sorted({key.topic for key in keys}):
        numbers = {key.partition for key in keys if key.topic == name}
        absent = sorted(set(manager.topic(name).partitions) - numbers)
        if absent:
            raise InvalidArgument(
                f"a snapshot has whole topics, and partition {absent[0]} of {name} is not chosen"
            )
    missing = []
    # The positions of groups first: a record, and a position after it, may come in between, and a
    # log that is restored would have the position without the record.
    for key in sorted(keys, key=lambda key: key.topic not in INTERNAL_SETTINGS):
        chain = Chain(store, manager.topic(key.topic).topic_id, key.partition, manager.machine.rng)
        if not chain.newest():
            missing.append(key)
    if not missing:
        raise InvalidArgument(
            f"{store.name} is there already, and a snapshot never changes: choose another name"
        )
    return missing


def _in_archive(
    key: TopicPartition, log: Log, state: ChainState, copied: Sequence[Entry], swept: int
) -> LogInArchive:
    segments = [ArchivedSegment(one.base_offset, one.end_offset, one.size_bytes) for one in copied]
    waiting = sum(one.size_bytes for one in log.segments if one.base_offset >= state.end)
    offsets = state.start, state.end, log.log_end_offset
    return LogInArchive(*key, *offsets, tuple(segments), waiting, swept)
