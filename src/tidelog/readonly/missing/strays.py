"""Partitions of another topic of the same name: what a deleted topic left on a disk that was away.

Kafka's brokers rename such a log to ``-stray`` when they start, and so does a service; a reader
that took it in would show records of the deleted topic in the one of today.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.one_line import first_names
from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import InconsistentTopicId
from tidelog.log.topic_id import PARTITION_METADATA_FILE, is_other_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from tidelog.datadir.catalogue import Catalogue
    from tidelog.datadir.merged_catalogues import OwnCatalogue
    from tidelog.readonly.directory_files import DirectoryFiles
    from tidelog.segment.filenames import TopicPartition

    Place = tuple[DirectoryFiles, TopicPartition]


class Stray(NamedTuple):
    """A partition in a directory with the id ``found``, where the topic has the id ``known``."""

    key: TopicPartition
    part: DirectoryFiles
    found: UUID
    known: UUID

    def __str__(self) -> str:
        return (
            f"it is of another topic named {self.key.topic} by the id {format_uuid(self.found)} in"
            f" its {PARTITION_METADATA_FILE}; the topic has {format_uuid(self.known)}"
        )

    @property
    def place(self) -> Place:
        """The directory, and the partition in it."""
        return self.part, self.key

    @property
    def path(self) -> str:
        """The path of the partition's directory."""
        return self.part.partition_path(*self.key)


def common_id(ids: Iterable[UUID | None]) -> UUID | None:
    """Return the id that most partitions of a topic have, which no catalogue lists."""
    ranked = Counter(one for one in ids if one is not None).most_common(1)
    return ranked[0][0] if ranked else None


def find_strays(
    found: Mapping[Place, UUID | None], known: Mapping[str, UUID | None]
) -> dict[str, list[Stray]]:
    """Return the strays among partitions, by topic, each in order.

    ``found`` are the ids of the partitions, ``known`` those of topics; of one that is not known,
    it is the id that most of its partitions have.
    """
    by_topic: dict[str, dict[Place, UUID | None]] = defaultdict(dict)
    for (part, key), topic_id in found.items():
        by_topic[key.topic][part, key] = topic_id
    strays: dict[str, list[Stray]] = defaultdict(list)
    for name, there in by_topic.items():
        right = known[name] if name in known else common_id(there.values())
        for (part, key), topic_id in sorted(there.items(), key=lambda one: one[0][1]):
            if topic_id is not None and right is not None and is_other_topic(topic_id, right):
                strays[name].append(Stray(key, part, topic_id, right))
    return strays


def find_doubtful(
    held: Mapping[DirectoryFiles, Sequence[TopicPartition]],
    catalogue: Catalogue,
    own: Mapping[DirectoryFiles, OwnCatalogue],
) -> Iterator[Place]:
    """Yield the partitions that may be of another topic of the name, which their files show.

    ``held`` are those of each directory, in order. One is in no doubt if its directory's ``own``
    catalogue places it there, under the id that the topic has by ``catalogue``: another id in its
    file is damage then. Nor is one of a topic that no catalogue lists and that lies in one
    directory. So the files of most are not read: a directory has thousands.
    """
    unlisted: Counter[str] = Counter()
    for part, keys in held.items():
        directory_id, said = part.directory_id, own[part].catalogue
        for name, of_topic in groupby(keys, attrgetter("topic")):
            topic, named = catalogue.topics.get(name), said.topics.get(name)
            if topic is None:
                unlisted[name] += 1
                continue
            is_same = named is not None and named.topic_id == topic.topic_id
            homes = named.partitions if named is not None and is_same else {}
            for key in of_topic:
                home = homes.get(key.partition)
                if home is None or (home != directory_id and directory_id is not None):
                    yield part, key
    spread = {name for name, count in unlisted.items() if count > 1}
    for part, keys in held.items():
        yield from ((part, key) for key in keys if spread and key.topic in spread)


def check_strays(strays: Sequence[Stray], accept: str) -> None:
    """Raise InconsistentTopicId if there are strays; ``accept`` says how to read without them."""
    if not strays:
        return
    first = strays[0]
    like = [one for one in strays if (one.key.topic, one.found) == (first.key.topic, first.found)]
    found, known = format_uuid(first.found), format_uuid(first.known)
    paths = f"{first_names([one.path for one in like])} {'has' if len(like) == 1 else 'have'}"
    choice = f"; or, for the one with {known} only, {accept}" if accept else ""
    raise InconsistentTopicId(
        f"two topics are named {first.key.topic}: {paths} the id {found} in"
        f" {PARTITION_METADATA_FILE}, and the topic has {known}. A disk that was away when a topic"
        " was deleted and created again has such. Name only directories of one of the two, or move"
        f" the partitions of the other elsewhere{choice}"
    )
