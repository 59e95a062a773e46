"""Where the partitions are that some data directories hold, or that their catalogues name.

The rules are those of the owner: of two copies the catalogue names the one that counts, and a
partition that lies in another of the directories than the catalogue says is still that partition.
Kafka: ``LogManager.loadLog``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.deletion_marks import without_marked
from tidelog.datadir.merged_catalogues import OwnCatalogue, merged_catalogues
from tidelog.datadir.partition_directories import PartitionLinks
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.readonly.log_snapshot import MAX_LOOKS
from tidelog.readonly.missing.strays import find_doubtful, find_strays
from tidelog.segment.filenames import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from uuid import UUID

    from tidelog.datadir.catalogue import Catalogue
    from tidelog.readonly.directory_files import DirectoryFiles
    from tidelog.readonly.missing.strays import Stray


class Absent(NamedTuple):
    """Partitions of a topic that are in none of the directories that were given.

    ``home`` is the ``directory.id`` that the catalogue names; None: there is none, and a gap in the
    numbers, or the cluster's metadata, shows that these partitions exist. ``copy`` is a directory
    that was given and holds what a move may have left of them.
    """

    topic: str
    numbers: range
    home: UUID | None = None
    copy: str | None = None


@dataclass(frozen=True)
class Placement:
    """What one look at data directories found.

    ``strays`` are partitions of other topics, by the name that these share; they count as not
    there. ``found`` maps each partition to the directory that holds it; ``copied`` are those that
    others hold, too. ``rivals`` are in two directories, and it is not known which one counts.
    ``lost`` are those that the catalogue places into one of the directories, where they are not.
    ``foreign`` holds the other entries of each directory, with what makes them no partitions;
    ``homes`` are the directories by id.
    """

    catalogue: Catalogue
    catalogue_error: KafkaStorageError | None
    strays: Mapping[str, Sequence[Stray]]
    found: Mapping[TopicPartition, DirectoryFiles]
    copied: Mapping[TopicPartition, DirectoryFiles]
    rivals: Mapping[TopicPartition, tuple[DirectoryFiles, DirectoryFiles]]
    lost: Mapping[TopicPartition, DirectoryFiles]
    foreign: Mapping[str, Mapping[str, str]]
    homes: Mapping[UUID, DirectoryFiles]

    @cached_property
    def found_by_topic(self) -> Mapping[str, list[int]]:
        """The numbers of the partitions that were found, in order."""
        return numbers_by_topic(self.found)

    @cached_property
    def lost_by_topic(self) -> Mapping[str, list[int]]:
        """The same of those that were not."""
        return numbers_by_topic(self.lost)

    @cached_property
    def gaps(self) -> Mapping[str, list[int]]:
        """The numbers of topics that no catalogue names, and of which some seem to be missing."""
        return {
            topic: numbers
            for topic, numbers in self.found_by_topic.items()
            if topic not in self.catalogue.topics and numbers[-1] >= len(numbers)
        }

    @cached_property
    def found_by_part(self) -> Mapping[DirectoryFiles, list[TopicPartition]]:
        """The partitions that each directory holds, in order."""
        keys: dict[DirectoryFiles, list[TopicPartition]] = {}
        for key, part in self.found.items():
            keys.setdefault(part, []).append(key)
        return keys

    def home_of(self, key: TopicPartition) -> UUID | None:
        """Return the ``directory.id`` that the catalogue names for a partition."""
        return self.catalogue.home_of(key)

    def is_left_behind(self, key: TopicPartition) -> bool:
        """Say whether what was found of a partition may be an old copy.

        The catalogue places it into a directory that was not given: a move that was interrupted
        leaves a copy behind, without what was appended since.
        """
        home = self.home_of(key)
        if home is None or home in self.homes:
            return False
        return self.found[key].directory_id is not None

    def absent(self, topic: str, known: Collection[int] = ()) -> Iterator[Absent]:
        """Yield the partitions of a topic that are not in these directories, in order.

        Those that are lost here are left out. ``known``: numbers that the topic has by the
        cluster's metadata. Gaps are never listed number by number: a name may hold any.
        """
        listed = self.catalogue.topics.get(topic)
        homes: Mapping[int, UUID] = {} if listed is None else listed.partitions
        there = set(self.found_by_topic.get(topic, ()))
        lost = set(self.lost_by_topic.get(topic, ()))
        pending: Absent | None = None
        expected = 0
        for number in sorted({*there, *homes, *known}):
            key = TopicPartition(topic, number)
            parts = [Absent(topic, range(expected, number))] if number > expected else []
            expected = number + 1
            if number in there:
                if self.is_left_behind(key):
                    copy = self.found[key].path
                    parts.append(Absent(topic, range(number, expected), homes[number], copy))
            elif number not in lost:
                parts.append(Absent(topic, range(number, expected), homes.get(number)))
            for part in parts:
                if pending is not None and _continues(pending, part):
                    numbers = range(pending.numbers.start, part.numbers.stop)
                    pending = pending._replace(numbers=numbers)
                    continue
                if pending is not None:
                    yield pending
                pending = part
        if pending is not None:
            yield pending


def find_partitions(parts: Sequence[DirectoryFiles], topic: str | None = None) -> Placement:
    """Look where the partitions are; again where something seems to be missing, or there twice.

    ``topic``: only those of this one, which takes no longer where there are thousands of others.

    A writer that creates a topic writes the catalogue before it makes directories, one that deletes
    a topic takes it out of the catalogue before it removes any, and one that moves a partition has
    it in two directories, or in none of those listed: only what two looks in a row show counts. So
    it is with gaps in the numbers: of a topic that is being deleted, a partition that goes between
    the listing and the reading of its id seems to be one of a topic that has no others here.

    Raises:
        InvalidArgument: the directories do not belong together.
        KafkaStorageError: a disk failed, or the directories change faster than they can be listed.
    """
    _check_owner(parts)
    before: object = None
    for _ in range(MAX_LOOKS):
        placement = _look(parts, topic)
        doubtful = (placement.strays, placement.lost.keys(), placement.copied, placement.gaps)
        if doubtful == before or not any(doubtful):
            return placement
        before = doubtful
    paths = ", ".join(part.path for part in parts)
    raise KafkaStorageError(f"{paths} changed during each of {MAX_LOOKS} looks at it")


def _check_owner(parts: Sequence[DirectoryFiles]) -> None:
    """Raise InvalidArgument for directories of different clusters, or copies of one another."""
    if len(parts) == 1:
        return
    by_id: dict[UUID, str] = {}
    clusters: dict[str, str] = {}
    for part in parts:
        if part.directory_id is not None and part.directory_id in by_id:
            raise InvalidArgument(
                f"{by_id[part.directory_id]} and {part.path} have the same directory.id,"
                f" {format_uuid(part.directory_id)}: one is a copy of the other; name one of them"
            )
        if part.directory_id is not None:
            by_id[part.directory_id] = part.path
        if part.meta is not None and part.meta.cluster_id is not None:
            clusters.setdefault(part.meta.cluster_id, part.path)
    if len(clusters) > 1:
        named = "; ".join(f"{path} has cluster.id {name}" for name, path in clusters.items())
        raise InvalidArgument(
            f"directories of different clusters are not read as one: {named}. If they were created"
            " apart, tidelog join lets them belong together"
        )


def _look(parts: Sequence[DirectoryFiles], topic: str | None) -> Placement:
    files = [part.read_catalogue() for part in parts]
    said = [one.catalogue if topic is None else one.catalogue.of(topic) for one in files]
    distinct = {id(one): one for one in said}.values()
    listed = set[str]().union(*(one.directory_names() for one in distinct))
    links = PartitionLinks(parts[0].fs, [part.path for part in parts])
    listings = [part.listing(listed, links, topic) for part in parts]
    own = {
        part: OwnCatalogue(part.path, part.directory_id, without_marked(one, listing.marked))
        for part, one, listing in zip(parts, said, listings, strict=True)
    }
    catalogue = merged_catalogues(parts[0].fs, [*own.values()])
    held = {part: listing.found for part, listing in zip(parts, listings, strict=True)}
    holders, strays = _holders(held, catalogue, own)
    homes = {part.directory_id: part for part in parts if part.directory_id is not None}
    found, rivals = _settled(holders, catalogue, own)
    lost = {
        TopicPartition(topic.name, number): homes[home]
        for topic in catalogue.topics.values()
        for number, home in topic.partitions.items()
        if home in homes and (topic.name, number) not in holders
    }
    return Placement(
        catalogue,
        next((file.error for file in files if file.error is not None), None),
        strays,
        found,
        {key: found[key] for key, candidates in holders.items() if len(candidates) > 1},
        rivals,
        {key: lost[key] for key in sorted(lost)},
        {part.path: one.foreign for part, one in zip(parts, listings, strict=True)},
        homes,
    )


def _holders(
    held: Mapping[DirectoryFiles, Sequence[TopicPartition]],
    catalogue: Catalogue,
    own: Mapping[DirectoryFiles, OwnCatalogue],
) -> tuple[dict[TopicPartition, list[DirectoryFiles]], dict[str, list[Stray]]]:
    """Return the directories that hold each partition, and strays; deleted topics are left out.

    While a deletion is not complete, the ids of all partitions are read.
    """
    doubtful = set(find_doubtful(held, catalogue, own))
    places = [(part, key) for part, keys in held.items() for key in keys]
    asked = places if catalogue.deleted else [at for at in places if doubtful and at in doubtful]
    ids = {(part, key): part.id_or_none(*key) for part, key in asked}
    gone = {at for at, topic_id in ids.items() if topic_id in catalogue.deleted}
    in_doubt = {at: one for at, one in ids.items() if at in doubtful and at not in gone}
    known = {name: topic.topic_id for name, topic in catalogue.topics.items()} if in_doubt else {}
    strays = find_strays(in_doubt, known)
    gone.update(one.place for of_topic in strays.values() for one in of_topic)
    holders: dict[TopicPartition, list[DirectoryFiles]] = {}
    for part, key in places:
        if not gone or (part, key) not in gone:
            holders.setdefault(key, []).append(part)
    return holders, strays


def _settled(
    holders: Mapping[TopicPartition, list[DirectoryFiles]],
    catalogue: Catalogue,
    own: Mapping[DirectoryFiles, OwnCatalogue],
) -> tuple[
    dict[TopicPartition, DirectoryFiles],
    dict[TopicPartition, tuple[DirectoryFiles, DirectoryFiles]],
]:
    """Return which directory holds each partition, and the two of those that are undecided."""
    found, rivals = {}, {}
    for key in sorted(holders):
        candidates = holders[key]
        chosen = candidates[:1] if len(candidates) == 1 else _named(key, candidates, catalogue, own)
        found[key] = chosen[0]
        if len(chosen) > 1:
            rivals[key] = (chosen[0], chosen[1])
    return found, rivals


def _named(
    key: TopicPartition,
    candidates: list[DirectoryFiles],
    catalogue: Catalogue,
    own: Mapping[DirectoryFiles, OwnCatalogue],
) -> list[DirectoryFiles]:
    """Return which of several directories has the partition; more than one: it is not decided.

    The one that the catalogue names counts if the catalogues beside the others name it, too, as
    once a move is decided: else an other one may hold records of its own.
    """
    topic = catalogue.topics.get(key.topic)
    if topic is None:
        return candidates
    home = topic.partitions.get(key.partition)
    named = [one for one in candidates if home is not None and one.directory_id == home]
    others = [one for one in candidates if one not in named]
    if len(named) == 1 and all(own[one].catalogue.home_of(key) == home for one in others):
        return named
    return candidates


def _continues(one: Absent, other: Absent) -> bool:
    is_next = one.numbers.stop == other.numbers.start
    return is_next and (one.home, one.copy) == (other.home, other.copy)
