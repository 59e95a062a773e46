"""Ids of producers: which ones are in use, and blocks of new ones, reserved durably.

Kafka: ``ProducerIdManager``, whose controller reserves blocks in the metadata of the cluster.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.checkpoint_file import replace_file
from tidelog.codec.messages.keyed_message import read_keyed
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.cluster_metadata.bootstrap import BOOTSTRAP_FILE
from tidelog.datadir.versioned_file import read_versioned, whole
from tidelog.errors import InvalidRecord, KafkaError, KafkaStorageError
from tidelog.readonly.read_files import StorageErrors
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from random import Random

    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager
    from tidelog.records.record import Record

_log = logging.getLogger(__name__)

FILE_NAME: Final = "tidelog.producer-ids.json"
VERSION: Final = 1
BLOCK: Final = 1000
"""How many ids are reserved together. Source: Kafka ProducerIdsBlock."""
_RANGE: Final = 1 << 40
"""How many ids a directory has to itself: at a million a day they last for three thousand years.
Kafka counts from 0, and no cluster has come so far."""
_MOST_RANGES: Final = 1 << 22
_APART: Final = _MOST_RANGES // 4
"""Ranges from there on, as many, are drawn at random; those below are given out in their order."""
_MOST_SKIPPED: Final = 1 << 14
"""Blocks that a process leaves out, at most: a range still lasts for 100,000 of them."""
_KAFKAS: Final = 0
"""The range that the brokers of Kafka draw from, as soon as they have one of the directories."""
_NEVER_REACHED: Final = _RANGE - (1 << 30)
"""No broker counts as far as the ids from there to the end of that range. A client may write any
id: a broker that began after one of these would soon draw from the range of a directory."""


def next_block(manager: LogManager) -> int:
    """Return the first id of the block for a broker of Kafka to begin with, in its range.

    It comes after all that are reserved there or in the logs: a broker that assigns the id of a
    producer in a log refuses the records of the new one. Where others may have ids from the
    directory that was mirrored or archived, it is drawn at random, from far above those: they may
    have been given out by a broker that got a mirror itself. So it is where a coordinator's record
    may name ids in words that are not known here. All logs are loaded.
    """
    fs, rng = manager.machine.fs, manager.machine.rng
    read = (read_reserved(fs, path) for path in manager.live_dirs)
    found = [one for one in read if one is not None]
    ids = _last_given_out(one.next for one in found)
    are_all = all(_range_of(one.next) < _APART for one in found)
    for name in manager.topics():
        for partition in manager.partitions(name):
            some, unknown = _in_log(partition.log, is_coordinators=name == TRANSACTIONS_TOPIC)
            ids += some
            are_all = are_all and unknown is None
    greatest = max((one for one in ids if one < _NEVER_REACHED), default=-1)
    if not are_all:
        left = _RANGE - greatest
        greatest += rng.randint(left // 4, left // 2)
    return _block_after(greatest)


def begin_apart(fs: FileSystem, data_dir: str, rng: Random) -> None:
    """Let a directory that has the logs of another one draw from another range than that.

    It may take its place, and meet a producer that has its id from there and has written nothing
    yet that is here. Nothing is done if the directory has a range. Raises KafkaStorageError.
    """
    if read_reserved(fs, data_dir) is None:
        number = rng.randrange(_APART, 2 * _APART)
        write_reserved(fs, data_dir, _Reserved(number * _RANGE, number + 1, {}))


class _Reserved(NamedTuple):
    """What the file of a directory says.

    Ids of its range are given out up to ``next``, exclusive. ``ranges`` is how many ranges were
    given out, as far as is known here. ``members`` are the directories, by their ids, that have
    other ranges for certain, itself among them; none: it may share its range.
    """

    next: int
    ranges: int
    members: Mapping[str, str]

    def is_alone(self, live: Mapping[str, str], offline: Collection[str]) -> bool:
        """Whether no other directory has its range: neither one that is here nor one that is not.

        Of those that are not here only the paths are known.
        """
        left = {path for one, path in self.members.items() if one not in live}
        return live.keys() <= self.members.keys() and left.issuperset(offline)


class ProducerIds:
    """Hands out ids that no producer has had. One thread at a time uses it.

    Each directory has a range of ids to itself, and a process draws from that of one directory
    which it holds; so it need not know what was given out where others were open. Ranges are given
    to directories that are open together, all of those that are configured.
    """

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._next = self._end = 0
        self._ids: _IdsInLogs | None = None
        """What the logs had when the first block was reserved."""
        self._is_settled = False
        """Whether this process has seen that the ranges of all directories differ."""

    @property
    def has_next(self) -> bool:
        """Whether ``next`` returns at once; else it writes to the disk first."""
        return self._next < self._end

    def next(self) -> int:
        """Return the next id; raise KafkaStorageError if a new block cannot be reserved."""
        if not self.has_next:
            self._reserve()
        found, self._next = self._next, self._next + 1
        return found

    def _reserve(self) -> None:
        """Reserve a block, durably: ids that a crash gives out again would meet themselves."""
        manager = self._manager
        fs, live = manager.machine.fs, self._live()
        if self._ids is None:
            self._ids = self._ids_in_logs()
        offline = {os.path.abspath(path) for path in manager.config.data_directories}
        offline -= set(live.values())
        if not self._is_settled and not offline:
            self._settle(live, self._ids)
            self._is_settled = True
        found = {path: read_reserved(fs, path) for path in live.values()}
        usable = {
            path: one
            for path, one in found.items()
            if one and one.members and (self._is_settled or one.is_alone(live, offline))
            if _range_of(one.next) not in self._drawn_by_kafka()
        }
        if not usable:
            raise KafkaStorageError(
                "which ids of producers are in use is known once all data directories are online:"
                f" {', '.join(sorted(offline))} was never open together with the others"
            )
        path, one = min(usable.items(), key=lambda item: item[1].next)
        start = self._ids.within(_range_of(one.next), [one.next + BLOCK * self._skipped(one)])
        if start is None:
            raise KafkaStorageError(f"the ids of producers of {path} are used up")
        write_reserved(fs, path, one._replace(next=start + BLOCK))
        self._next, self._end = start, start + BLOCK

    def _skipped(self, one: _Reserved) -> int:
        """Return how many blocks a process leaves out before the first that it reserves.

        The directory may be a copy that was put back, and clients have ids that were given out
        since. Those of a new directory begin where its range does.
        """
        is_first = not self._end and one.next % _RANGE
        return self._manager.machine.rng.randrange(_MOST_SKIPPED) if is_first else 0

    def _live(self) -> dict[str, str]:
        """Return the directories that are online, by their ids."""
        manager = self._manager
        return {format_uuid(manager.directory_id(path)): path for path in manager.live_dirs}

    def _drawn_by_kafka(self) -> frozenset[int]:
        """Return the ranges that brokers draw from, which do not see what is given out here.

        They go by what a controller has noted, or finds when it first starts. Their topics show
        that there is one where its notes lie in another directory (``metadata.log.dir``).
        """
        manager, names = self._manager, (f"{METADATA_TOPIC}-0", BOOTSTRAP_FILE)
        paths = (os.path.join(path, name) for path in manager.live_dirs for name in names)
        is_theirs = any(_exists(manager.machine.fs, path) for path in paths) or any(
            topic.is_adopted for topic in manager.topics().values()
        )
        return frozenset({_KAFKAS} if is_theirs else ())

    def _settle(self, live: Mapping[str, str], ids: _IdsInLogs) -> None:
        """Give each directory a range that none of the others has, and begin it after its logs.

        Of a log that cannot be read it is known only that its ids are of a range that was given
        out, or Kafka's, which are of the first one.
        """
        fs = self._manager.machine.fs
        found = {path: read_reserved(fs, path) for path in live.values()}
        known = [one for one in found.values() if one is not None]
        kafkas = self._drawn_by_kafka()
        ranges = max([len(kafkas), *(max(one.ranges, _range_of(one.next) + 1) for one in known)])
        settled: dict[str, _Reserved] = {}
        for path, one in found.items():
            is_known = one is not None and live.keys() <= one.members.keys()
            taken = kafkas.union(_range_of(other.next) for other in settled.values())
            first = None
            if one is not None and _range_of(one.next) not in taken and (ids.are_all or is_known):
                first = ids.within(_range_of(one.next), [other.next for other in known])
            if first is None:
                first, ranges = ids.new_range(ranges)
            settled[path] = _Reserved(first, ranges, one.members if one and is_known else {})
        # Nobody counts on a range to differ before all of them do, also after a power cut.
        for path, new in settled.items():
            write_reserved(fs, path, new._replace(ranges=ranges))
        for path, new in settled.items():
            write_reserved(fs, path, new._replace(ranges=ranges, members={**new.members, **live}))

    def _ids_in_logs(self) -> _IdsInLogs:
        manager, ids, are_all = self._manager, set[int](), True
        for name, topic in manager.topics().items():
            for number in sorted(topic.partitions):
                unknown: KafkaError | None
                try:
                    log = manager.partition(name, number).log
                    found, unknown = _in_log(log, is_coordinators=name == TRANSACTIONS_TOPIC)
                    ids |= found
                except KafkaError as error:
                    unknown = error
                if unknown is not None:
                    are_all = False
                    text = "producer-ids-not-known log=%s reason=%s"
                    _log.warning(text, TopicPartition(name, number), unknown)
        return _IdsInLogs(frozenset(ids), are_all)


class _IdsInLogs(NamedTuple):
    """The ids of producers that logs have; ``are_all``: all logs were read."""

    ids: frozenset[int]
    are_all: bool

    def within(self, number: int, nexts: Iterable[int]) -> int | None:
        """Return the first id of a range after those given out and in logs; None: there is none.

        ``nexts`` are the ends of what several directories, perhaps of the same range, gave out.
        """
        there = [one for one in (*self.ids, *_last_given_out(nexts)) if _range_of(one) == number]
        first = _block_after(max(there)) if there else number * _RANGE
        # Not up to the end of the range: the next id says in which range it is.
        return first if _range_of(first + BLOCK) == number else None

    def new_range(self, ranges: int) -> tuple[int, int]:
        """Return the first id of a range that was not given out yet, and how many are then."""
        used = {_range_of(one) for one in self.ids}
        for number in range(ranges if self.are_all else max(ranges, 1), _MOST_RANGES):
            first = self.within(number, ())
            if first is not None and (number not in used or not number):
                return first, number + 1
        raise KafkaStorageError("all ids of producers are used up")


def _last_given_out(nexts: Iterable[int]) -> list[int]:
    """Return the ids before these, except before the first of a range: nothing was given out."""
    return [end - 1 for end in nexts if end % _RANGE]


def _range_of(producer_id: int) -> int:
    return producer_id // _RANGE


def _block_after(producer_id: int) -> int:
    return (producer_id // BLOCK + 1) * BLOCK


def read_reserved(fs: FileSystem, data_dir: str) -> _Reserved | None:
    """Return what the file of a directory says; None if it has none.

    Raises KafkaStorageError if it cannot be read, or is malformed.
    """

    def parse(content: Any) -> _Reserved:  # noqa: ANN401 - JSON
        end = whole(content["next"], "the next id", most=_MOST_RANGES * _RANGE - 1)
        ranges = whole(content.get("ranges", 0), "a number of ranges", most=_MOST_RANGES)
        members = {str(one): str(path) for one, path in content.get("with", {}).items()}
        return _Reserved(end, ranges, members)

    try:
        return read_versioned(fs, os.path.join(data_dir, FILE_NAME), VERSION, parse)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KafkaStorageError(f"{data_dir}/{FILE_NAME} cannot be read: {error}") from error


def _exists(fs: FileSystem, path: str) -> bool:
    with StorageErrors(path):
        return fs.exists(path)


def write_reserved(fs: FileSystem, data_dir: str, one: _Reserved) -> None:
    """Write the file of a directory, durably, unless it says that; raise KafkaStorageError."""
    if read_reserved(fs, data_dir) == one:
        return
    file = os.path.join(data_dir, FILE_NAME)
    content = {"next": one.next, "ranges": one.ranges, "with": dict(one.members)}
    try:
        replace_file(fs, file, json.dumps({"version": VERSION, **content}).encode())
    except OSError as error:
        raise KafkaStorageError(f"writing {file} failed: {error}") from error


def _in_log(log: Log, *, is_coordinators: bool) -> tuple[set[int], InvalidRecord | None]:
    """Return the ids that a log has, and why there may be others: a record cannot be read."""
    found, unknown = set(log.active_producers()), None
    if is_coordinators:
        with log.watch("reading transactions"):
            for record in log.records():
                try:
                    found.update(_named_in(record))
                except InvalidRecord as error:
                    unknown = error
    return found, unknown


def _named_in(record: Record) -> Iterable[int]:
    """Return the ids that a record of the transaction coordinator names."""
    stored = read_keyed("transaction", (0,), record.key, record.value)
    if stored is None:
        raise InvalidRecord(f"the record at offset {record.offset} is of a kind that is not known")
    fields = stored.value or {}
    names = ("producerId", "previousProducerId", "nextProducerId")
    return [fields[name] for name in names if name in fields]
