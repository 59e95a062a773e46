"""The partitions of an archive, as their chains say now; what is known of them is read once.

An instance lasts as long as a process: versions never change, so a later look asks only for those
that have come since.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import SystemRandom
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from uuid import UUID

from tidelog.archive.chain import Chain
from tidelog.archive.chain_state import ChainState
from tidelog.datadir.partition_directories import partition_of
from tidelog.env.clock import MS_PER_S, NS_PER_MS, SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptArchive, StoreUnavailable
from tidelog.records.batch import INT32_MAX
from tidelog.segment.filenames import log_directory_name
from tidelog.store.side_by_side import ask_each
from tidelog.store.store_uri import local_path, parse_store_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from tidelog.archive.deltas import Entry
    from tidelog.env.clock import Clock
    from tidelog.store.objects import Objects

_log = logging.getLogger(__name__)

CHAINS_AT_ONCE: Final = 16
"""Chains that are read side by side: most of that time is spent on waiting for the store."""
LONGEST_PAUSE_NS: Final = 10 * MS_PER_S * NS_PER_MS
"""How long a store that has not answered is left alone, at most."""


class ArchivedPartition(NamedTuple):
    """One partition; ``known`` is what its chain says, as far as it is sound: see ``state``.

    ``shared_name``: what its topic is named, as another one is; it is there under its id.
    """

    topic_id: UUID
    number: int
    known: ChainState
    damage: str = ""
    shared_name: str = ""

    @property
    def state(self) -> ChainState:
        """What its chain says, which must not be changed; CorruptArchive if that is damaged."""
        if self.damage:
            raise CorruptArchive(self.damage)
        return self.known

    @property
    def directory(self) -> str:
        """The name of its directory, as on a disk."""
        return log_directory_name(self.known.topic, self.number)

    def object_name(self, entry: Entry) -> str:
        """Return the name of a segment's object, below the archive's prefix."""
        return f"{self.topic_id}/{self.number}/{entry.name}"


T = TypeVar("T", tuple[UUID, int], ArchivedPartition)


@dataclass(eq=False, slots=True)
class ArchivedPartitions:
    """What the store under one prefix holds; any thread may use it.

    Methods raise what ``Chain.read`` and ``Objects`` raise, and CorruptArchive for a name that two
    topics have which are not deleted: each is there under its id. One partition of several that is
    damaged raises that when its ``state`` is asked for. Damage to topics that nobody asks for is
    only logged.
    """

    store: Objects
    name: str
    clock: Clock = SYSTEM_CLOCK
    _topics: dict[UUID, str] = field(default_factory=dict)
    _whole: set[UUID] = field(default_factory=set)
    """Topics of snapshots that have all partitions."""
    _states: dict[tuple[UUID, int], ChainState] = field(default_factory=dict)
    _unreadable: dict[UUID, str] = field(default_factory=dict)
    """Why the names of topics cannot be read."""
    _told: set[UUID] = field(default_factory=set)
    """The topics for which this was logged."""
    _shared: set[str] = field(default_factory=set)
    """The names of several topics for which that was logged."""
    _lock: Lock = field(default_factory=Lock)
    _asks_again_ns: int = 0
    """When the store may be asked for another partition, by the monotonic clock."""

    def exists(self) -> bool:
        """Return whether there is a topic, deleted or not."""
        return any(True for _ in self._topic_ids())

    def find(self, directory: str) -> ArchivedPartition | None:
        """Return the partition whose directory has this name; None if there is none.

        Only topics of that name are looked into.
        """
        key = partition_of(directory)
        if key is None:
            return None
        parts = [(topic_id, key.partition) for topic_id in self._ids_of({key.topic})]
        return self._complete({key.topic}, self._by_directory(parts, {key.topic})).get(directory)

    def of_topics(
        self, names: Collection[str], number: int | None = None
    ) -> dict[str, ArchivedPartition]:
        """Return the partitions of some topics; of all, if there is none of these.

        ``number``: only this one of each, if there is one.
        """
        topic_ids = self._ids_of(names)
        if number is not None:
            lists = ask_each(self._partitions_of, topic_ids, CHAINS_AT_ONCE)
            parts = [one for several in lists for one in several if one[1] == number]
            if found := self._by_directory(parts, names):
                return self._complete(names, found)
        return self._complete(names, self._partitions(topic_ids, names)) or self.all()

    def all(self) -> dict[str, ArchivedPartition]:
        """Return all partitions by the names of their directories.

        A topic whose name cannot be read, or that another topic has too, is named after its id.
        """
        return self._partitions([*self._topic_ids()])

    def taken_names(self, topics: Mapping[str, UUID]) -> dict[str, UUID]:
        """Return which of some topics, by name, may not come here, and whose names they have.

        Those are new here, and a topic that is not deleted has the name: if both were in the
        archive, neither could be read by it. The names of topics are read only while one is new.
        """
        there = {*self._topic_ids()}
        new = {name for name, topic_id in topics.items() if topic_id not in there}
        found = self._partitions(self._ids_of(new), new) if there and new else {}
        return {one.known.topic: one.topic_id for one in found.values()}

    def _ids_of(self, names: Collection[str]) -> list[UUID]:
        named = ask_each(self._named, [*self._topic_ids()], CHAINS_AT_ONCE)
        return [topic_id for topic_id, name in named if name in names]

    def _complete(
        self, names: Collection[str], found: dict[str, ArchivedPartition]
    ) -> dict[str, ArchivedPartition]:
        """Return what was found of topics.

        Raises CorruptArchive if one is missing that may be a topic whose name cannot be read.
        """
        is_missing = not {one.known.topic for one in found.values()}.issuperset(names)
        for topic_id, reason in self._unreadable.copy().items():
            if is_missing:
                raise CorruptArchive(reason)
            if topic_id not in self._told:
                self._told.add(topic_id)
                _log.warning("archived-topic-unreadable topic=%s reason=%s", topic_id, reason)
        return found

    def _partitions(
        self, topic_ids: Sequence[UUID], wanted: Collection[str] = ()
    ) -> dict[str, ArchivedPartition]:
        lists = ask_each(self._partitions_of, topic_ids, CHAINS_AT_ONCE)
        return self._by_directory([one for several in lists for one in several], wanted)

    def _by_directory(
        self, parts: Sequence[tuple[UUID, int]], wanted: Collection[str] = ()
    ) -> dict[str, ArchivedPartition]:
        """Return partitions; CorruptArchive if two topics have one of the names ``wanted``."""
        sound: list[ArchivedPartition] = []
        damaged: list[ArchivedPartition] = []
        owners: dict[str, set[UUID]] = defaultdict(set)
        for read in ask_each(partial(self._if_sound, self.now), parts, CHAINS_AT_ONCE):
            if not read.damage and (read.state.version == 0 or read.state.is_deleted):
                continue
            one = read if read.damage else self._if_sound(self._of_whole_snapshot, read)
            (damaged if one.damage else sound).append(one)
            if not one.damage:  # else it may be of a deleted topic
                owners[one.known.topic].add(one.topic_id)
        shared = {name for name, topic_ids in owners.items() if len(topic_ids) > 1}
        for name in sorted(shared):
            self._report_shared(name, sorted(map(str, owners[name])), is_wanted=name in wanted)
        found: dict[str, ArchivedPartition] = {}
        for one in (*sound, *damaged):
            name, named = one.known.topic, one
            if name in shared or one.directory in found:
                known = replace(one.known, topic=str(one.topic_id))
                named = one._replace(known=known, shared_name=name if name in shared else "")
            found[named.directory] = named
        return found

    def _report_shared(self, name: str, topic_ids: list[str], *, is_wanted: bool) -> None:
        """Say that topics have one name; raise CorruptArchive if it is one that is wanted."""
        reason = (
            f"{self.name} has two topics named {name}: {' and '.join(topic_ids)}; each is there"
            " under its id, until all objects below the id of the other one are deleted"
        )
        if is_wanted:
            raise CorruptArchive(reason)
        if name not in self._shared:
            self._shared.add(name)
            _log.warning("archived-topics-share-name topic=%s reason=%s", name, reason)

    def _if_sound(self, look: Callable[[T], ArchivedPartition], part: T) -> ArchivedPartition:
        """Return what ``look`` finds of a partition; if it is damaged, why."""
        try:
            return look(part)
        except CorruptArchive as error:
            topic_id, number = part[:2]
            name = self._named(topic_id)[1] or str(topic_id)
            return ArchivedPartition(topic_id, number, ChainState(topic=name), str(error))

    def _of_whole_snapshot(self, one: ArchivedPartition) -> ArchivedPartition:
        """Return it; raise CorruptArchive if it is of a snapshot that was broken off."""
        wanted = one.state.partitions
        if wanted is None or one.topic_id in self._whole:
            return one
        parts = self._partitions_of(one.topic_id)
        found = ask_each(self.now, parts, CHAINS_AT_ONCE)
        count = sum(other.state.version > 0 for other in found)
        if count != wanted:
            raise CorruptArchive(
                f"{self.name} has {count} of the {wanted} partitions of {one.state.topic}: the"
                " snapshot was broken off; make it again under the same name"
            )
        self._whole.add(one.topic_id)
        return one

    def now(self, part: tuple[UUID, int]) -> ArchivedPartition:
        """Return a partition, by topic id and number, at its newest version; 0: there is none.

        After a StoreUnavailable every call raises it at once, for as long as that one has taken.
        """
        with self._left_alone_once_away():
            return self._now(part)

    @contextmanager
    def _left_alone_once_away(self) -> Iterator[None]:
        """Ask the store in the body, unless it has just not answered another question.

        Each question waits for all attempts of a request: without this, a look at 1,000 partitions
        would wait as often.
        """
        began_ns = self.clock.monotonic_ns()
        if began_ns < self._asks_again_ns:
            left_s = -(-(self._asks_again_ns - began_ns) // (MS_PER_S * NS_PER_MS))
            raise StoreUnavailable(
                f"{self.name} has just not answered, and is not asked again for {left_s} s"
            )
        try:
            yield
        except StoreUnavailable:
            ended_ns = self.clock.monotonic_ns()
            self._asks_again_ns = ended_ns + min(ended_ns - began_ns, LONGEST_PAUSE_NS)
            raise

    def _now(self, part: tuple[UUID, int]) -> ArchivedPartition:
        known = self._states.get(part) or ChainState()
        chain = Chain(self.store, *part, SystemRandom())
        newest = chain.newest(known.version)
        if newest > known.version:
            known = chain.read(newest, known.copy())
            with self._lock:
                if known.version > self._states.get(part, ChainState()).version:
                    self._states[part] = known
        return ArchivedPartition(*part, known)

    def if_sound(self, part: tuple[UUID, int]) -> ArchivedPartition:
        """Return a partition as ``now`` does; of a damaged one, why: see ``state``."""
        return self._if_sound(self.now, part)

    def now_among(
        self, part: tuple[UUID, int], beside: Sequence[tuple[UUID, int]]
    ) -> ArchivedPartition:
        """Return a partition as ``now`` does.

        ``beside`` are those that will be asked for soon, this one too: the first time all of them
        are read side by side.
        """
        if part in self._states or part not in beside:
            return self.now(part)
        return dict(zip(beside, ask_each(self.now, beside, CHAINS_AT_ONCE), strict=True))[part]

    def _named(self, topic_id: UUID) -> tuple[UUID, str]:
        """Return a topic's name, which the first version of any of its partitions says."""
        for part in self._partitions_of(topic_id) if topic_id not in self._topics else ():
            try:
                found = self._states.get(part) or Chain(self.store, *part, SystemRandom()).first()
            except CorruptArchive as error:
                self._unreadable.setdefault(topic_id, str(error))
                continue
            if found.version:
                self._topics[topic_id] = found.topic
                self._unreadable.pop(topic_id, None)
                break
        return topic_id, self._topics.get(topic_id, "")

    def _partitions_of(self, topic_id: UUID) -> list[tuple[UUID, int]]:
        names = filter(_is_number, self.store.directories(str(topic_id)))
        return [(topic_id, int(name)) for name in names]

    def _topic_ids(self) -> Iterator[UUID]:
        return _topic_ids(self.store.directories())


def holds_archive(uri: str) -> bool:
    """Return whether a ``file:`` URI is that of an archive, without a store's library.

    Raises InvalidArgument for another URI; OSError.
    """
    path = local_path(parse_store_uri(uri))
    try:
        return any(True for _ in _topic_ids(SYSTEM_FILES.list(path)))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _topic_ids(names: Iterable[str]) -> Iterator[UUID]:
    """Yield the topic ids among the names of directories; the others are not ours."""
    for name in names:
        with suppress(ValueError):
            if str(UUID(name)) == name:
                yield UUID(name)


def _is_number(name: str) -> bool:
    """Return whether the name of a directory is a partition number."""
    return (
        name.isascii() and name.isdigit() and str(int(name[:12])) == name and int(name) <= INT32_MAX
    )
