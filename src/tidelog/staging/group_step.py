"""The steps of consumer groups that a transaction takes: it commits their positions with records.

A step is fenced: the commit is refused unless the group is still where the reader took it up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.codec.text import check_group
from tidelog.datadir.versioned_file import whole
from tidelog.segment.filenames import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.segment.filenames import TopicPartition

GroupPartition = tuple[str, str, int]
"""A group, and the topic and partition that it reads."""


class CommittedAt(NamedTuple):
    """A committed offset, and the log offset of the record in ``__consumer_offsets`` that says it.

    By the latter two commits of the same offset differ.
    """

    offset: int
    record_offset: int


@dataclass(frozen=True, slots=True)
class GroupStep:
    """One group's step in one partition; its records say where to.

    ``before`` is where the group was when its reader began, None: nothing was committed. A step
    that is not checked is an operator's: it is taken wherever the group is, unless the group has a
    reader.
    """

    group: str
    topic: str
    partition: int
    before: CommittedAt | None
    is_checked: bool = True

    @property
    def key(self) -> GroupPartition:
        """Whose position it is, and where."""
        return self.group, self.topic, self.partition

    def as_json(self) -> dict[str, Any]:
        """Return the step as it is written into a manifest."""
        entry: dict[str, Any] = {"key": list(self.key), "checked": self.is_checked}
        return entry if self.before is None else {**entry, "before": list(self.before)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> GroupStep:
        """Read a step; raise KeyError, TypeError, ValueError or InvalidTopic for another form."""
        before = entry.get("before")
        at = None if before is None else CommittedAt(*(whole(one, "an offset") for one in before))
        return cls(*group_partition(entry["key"]), at, bool(entry["checked"]))


def steps_of(
    group: str,
    keys: Iterable[TopicPartition],
    before: Mapping[TopicPartition, CommittedAt | None] | None,
) -> list[GroupStep]:
    """Return the steps of a group; ``before``: where it was in each partition, None: unchecked."""
    if before is None:
        return [GroupStep(group, *key, None, is_checked=False) for key in keys]
    return [GroupStep(group, *key, before.get(key)) for key in keys]


def group_partition(entry: object) -> GroupPartition:
    """Read a group, topic and partition; raise ValueError or InvalidTopic for another form."""
    match entry:
        case [str(group), str(topic), int(partition)] if type(partition) is int and partition >= 0:
            check_group(group)
            check_topic_name(topic)
            return group, topic, partition
    raise ValueError(f"{entry!r} is not the partition of a group")
