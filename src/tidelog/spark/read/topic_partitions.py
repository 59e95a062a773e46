"""The partitions of data directories that a read selects by topic, pattern or assignment.

Spark: ``ConsumerStrategy``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.readonly.absent_partitions import BY_OPTION
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_directory import ReadOnlyDirectory
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import MissingPartition
    from tidelog.spark.options.source_options import TopicChoice


class PartitionDirectories(ReadOnlyDirectory):
    """Data directories as one plan, or one task, sees them: each of their files is read once."""

    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[str],
        on_damage: OnDamage | None = None,
        accept: str | None = BY_OPTION,
        topics: Collection[str] | None = None,
        *,
        asks_holder: bool = False,
    ) -> None:
        """Open the directories; InvalidArgument where there is none.

        With ``on_damage``, reads of logs skip damage and report it there. The others: as of
        ``open_directory_read_only``; a plan asks the holder, and its tasks read what was planned.
        """
        super().__init__(*paths, fs=reading(fs, topics), accept=accept, asks_holder=asks_holder)
        self._on_damage = on_damage

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """Return the high watermark in the checkpoint; None: it has no line."""
        checkpoints = self.part_of(topic, partition).checkpoints
        return checkpoints.high_watermarks.get((topic, partition))

    def all(self, *, takes_copies: bool = False) -> list[TopicPartition]:
        """Return all partitions, Kafka's ``__cluster_metadata`` left out.

        Raises PartitionsElsewhere if topics have others.
        """
        wanted = dict.fromkeys(self.topic_names)
        self.check_present(wanted, takes_copies=takes_copies)
        return list(self.partitions)

    def chosen(
        self, choice: TopicChoice, *, asks_metadata: bool = True, takes_copies: bool = False
    ) -> list[TopicPartition]:
        """Return the partitions that ``choice`` selects; errors as ``choose``.

        Raises PartitionsElsewhere, too, if it selects some that are in other directories; see
        ``check_present``.
        """
        wanted = _wanted(choice, self.topic_names)
        self.check_present(wanted, asks_metadata=asks_metadata, takes_copies=takes_copies)
        found, missing = self._listed(choice), self.missing
        return choose(found, choice, self.name, missing)

    def existing(self, choice: TopicChoice) -> list[TopicPartition]:
        """Return those of the partitions that ``choice`` selects that exist, without an error."""
        return _meant(self._listed(choice), choice)

    def _listed(self, choice: TopicChoice) -> list[TopicPartition]:
        found = list(self.partitions)
        for topic in _named(choice):
            if topic == METADATA_TOPIC and METADATA_TOPIC not in self.topics:
                numbers = self.topic(topic).partitions
                found += [TopicPartition(topic, number) for number in numbers]
        return sorted(found)

    def missing_of(self, choice: TopicChoice) -> list[MissingPartition]:
        """Return those of the choice that the catalogue lists and that have no directory."""
        chosen = set(_meant([gone.key for gone in self.missing], choice))
        return [gone for gone in self.missing if gone.key in chosen]

    def open(self, topic: str, partition: int, *, on_damage: OnDamage | None = None) -> ReadOnlyLog:
        """Open a log read-only; UnknownTopicOrPartition if its directory does not exist."""
        return super().open(topic, partition, on_damage=on_damage or self._on_damage)

    def holes(self, log: ReadOnlyLog, start: int, end: int) -> tuple[Hole, ...]:
        """Return the holes between segments in ``[start, end)`` that are not compaction's.

        A log that cannot be read now has none: the tasks report why.
        """
        with log, suppress(KafkaStorageError):
            return self.unexplained_holes(log, log.find_holes(start, end))
        return ()

    def topic_id_text(self, topic: str, partition: int) -> str | None:
        """Return the topic's id in Kafka's base64 form; None if the directory has no metadata."""
        topic_id = self.topic_id(topic, partition)
        return None if topic_id is None else format_uuid(topic_id)


def choose(
    found: list[TopicPartition],
    choice: TopicChoice,
    path: str,
    missing: Sequence[MissingPartition] = (),
) -> list[TopicPartition]:
    """Return those of the partitions ``found`` that ``choice`` selects.

    A pattern may match any part of a topic's name, as in Spark's Kafka source. Those that are
    ``missing`` are known, though they are not found.

    Raises:
        UnknownTopicOrPartition: a topic or partition that is named is neither.
    """
    known = {*found, *(gone.key for gone in missing)}
    topics = {place.topic for place in known}
    for topic in _named(choice):
        if topic not in topics:
            there = ", ".join(sorted(topics)) or "none"
            raise UnknownTopicOrPartition(f"no topic {topic} in {path}; its topics: {there}")
    assigned = choice.assigned or {}
    wanted = {(topic, number) for topic, numbers in assigned.items() for number in numbers}
    if absent := wanted - known:
        topic, number = min(absent)
        raise UnknownTopicOrPartition(f"topic {topic} in {path} has no partition {number}")
    return _meant(found, choice)


def is_selected(partition: TopicPartition, choice: TopicChoice) -> bool:
    """Return whether ``choice`` selects a partition, if it exists."""
    return bool(_meant([partition], choice))


def _wanted(choice: TopicChoice, topics: Iterable[str]) -> Mapping[str, Collection[int] | None]:
    """Return the topics that a choice selects, each with the partitions; None: all."""
    if choice.assigned is not None:
        return choice.assigned
    if choice.pattern is None:
        return dict.fromkeys(choice.topics)
    return dict.fromkeys(filter(choice.includes, topics))


def wanted_topics(choice: TopicChoice) -> Collection[str] | None:
    """Return the topics that a choice can select; None: any."""
    return _named(choice) or None


def _named(choice: TopicChoice) -> tuple[str, ...]:
    """Return the topics that a choice names; none for a pattern."""
    if choice.pattern is not None:
        return ()
    return tuple(choice.topics) if choice.assigned is None else tuple(choice.assigned)


def _meant(found: list[TopicPartition], choice: TopicChoice) -> list[TopicPartition]:
    """Return those that a choice means."""
    if choice.assigned is None:
        return [place for place in found if choice.includes(place.topic)]
    return [place for place in found if place.partition in choice.assigned.get(place.topic, ())]
