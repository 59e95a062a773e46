"""Which directories of partitions are of another topic than the one of their name.

A disk that was away while a topic was deleted and created again has such, and so have directories
that were created apart. Records of two topics are never to be in one log, or in one topic.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import Catalogue
from tidelog.datadir.partition_directories import partition_of
from tidelog.log.loading.cut_files import topic_part
from tidelog.log.topic_id import topic_id_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from tidelog.readonly.missing.salvage import CutFile
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


class Namesakes:
    """The id of each topic: the catalogue's, or else the one that most of its partitions have."""

    def __init__(self, source: ReadOnlyDirectory) -> None:
        self._source = source
        self._catalogues: Final = {
            part.path: part.read_catalogue().catalogue for part in source.parts
        }
        found: dict[str, Counter[UUID]] = defaultdict(Counter)
        for part in source.parts:
            for key in source.partitions_in(part):
                topic_id = part.id_or_none(*key)
                found[key.topic].update([] if topic_id is None else [topic_id])
        listed = {one.name: one.topic_id for one in source.topics.values() if one.is_listed}
        common = {name: ids.most_common(1)[0][0] for name, ids in found.items() if ids}
        self.ids: Final[Mapping[str, UUID | None]] = common | listed

    def is_apart(self, cut: CutFile) -> bool:
        """Return whether a file was cut off another topic of its topic's name."""
        name = cut.topic or ""
        known = self.ids.get(name)
        own = {topic_part(name, None), topic_part(name, known)}
        return known is not None and cut.name.topic not in own

    def is_listed_there(self, path: str) -> bool:
        """Return whether the catalogue beside a partition's directory lists it as the topic's.

        Another id in it is damage then: nothing else says that there is another topic.
        """
        key = partition_of(os.path.basename(path))
        catalogue = self._catalogues.get(os.path.dirname(path), Catalogue())
        topic = None if key is None else catalogue.topics.get(key.topic)
        if key is None or topic is None:
            return False
        return topic.topic_id == self.ids.get(key.topic) and key.partition in topic.partitions

    def why_apart(self, path: str) -> str:
        """Return why the directory of a partition is of another topic; empty: it is not."""
        key = partition_of(os.path.basename(path))
        known = None if key is None else self.ids.get(key.topic)
        if key is None or known is None:
            return ""
        found = topic_id_or_none(self._source.fs, path)
        if found in {None, known, *self._source.deleted_ids}:
            return ""
        assert found is not None
        return (
            f"it is of another topic named {key.topic} by the id {format_uuid(found)} in its"
            f" partition.metadata; the topic has {format_uuid(known)}. Rescue it from a data"
            " directory of its own, or, if its records are this topic's, without that file"
        )
