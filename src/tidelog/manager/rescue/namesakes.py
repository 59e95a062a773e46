"""Which partitions, and files cut off them, are of another topic than the one of their name.

Records of two topics are never to be in one log, or in one topic.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from tidelog.log.loading.cut_files import topic_part
from tidelog.readonly.missing.strays import common_id, find_strays

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from tidelog.readonly.missing.salvage import CutFile
    from tidelog.readonly.missing.strays import Stray
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


class Namesakes:
    """The id of each topic: the catalogue's, or else the one that most of its partitions have.

    ``apart`` are partitions of which there is none but another topic's. ``damaged`` are those with
    another id in their file, though the catalogue places them there: nothing else says that there
    is another topic.
    """

    def __init__(self, source: ReadOnlyDirectory) -> None:
        found = {
            (part, key): part.id_or_none(*key)
            for part in source.parts
            for key in source.partitions_in(part)
        }
        by_topic: dict[str, list[UUID | None]] = defaultdict(list)
        for (_, key), topic_id in found.items():
            by_topic[key.topic].append(topic_id)
        listed = {one.name: one.topic_id for one in source.topics.values() if one.is_listed}
        common = {name: common_id(ids) for name, ids in by_topic.items()}
        self.ids: Final[Mapping[str, UUID | None]] = common | listed
        self.apart: Final = {one.key: one for one in source.strays() if not source.has(*one.key)}
        others = {
            one.key: one for strays in find_strays(found, self.ids).values() for one in strays
        }
        self.damaged: Final = {key for key in others if key.topic in listed}
        self.apart.update({key: one for key, one in others.items() if key.topic not in listed})

    def is_apart(self, cut: CutFile) -> bool:
        """Return whether a file was cut off another topic of its topic's name."""
        name = cut.topic or ""
        known = self.ids.get(name)
        own = {topic_part(name, None), topic_part(name, known)}
        return known is not None and cut.name.topic not in own


def why_apart(stray: Stray) -> str:
    """Return why a partition is left out, and what to do."""
    return (
        f"{stray}. Rescue it from a data directory of its own, or, if its records are this topic's,"
        " without that file"
    )
