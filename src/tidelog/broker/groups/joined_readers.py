"""Readers of groups in programs that have joined this one, as long as their connections live.

They are readers as those of this program: a group is theirs or its clients', not both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Refusal
from tidelog.error_codes import ErrorCode
from tidelog.manager.consumer_groups import FoundPositions
from tidelog.manager.known_positions import Committed
from tidelog.readonly.group_positions import Position
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.manager.consumer_groups import Groups

READER_PROTOCOL: Final = "tidelog-reader"
"""The protocol type of JoinGroup by which a program that has joined this one has a reader."""
_NO_TIME: Final = -1


@dataclass(frozen=True, eq=False)
class JoinedReader:
    """A reader of a group in another program; a ``Member``."""

    group: str
    topics: tuple[str, ...]
    partitions: frozenset[int] | None
    process: str
    """Which one it is in, as an operator would look for it."""


def enter_reader(
    groups: Groups, group: str, metadata: bytes, held: dict[str, Callable[[], None]]
) -> None:
    """Let a program have a group by a reader until its connection closes, or ``held`` is released.

    Asked again by the same connection, nothing changes. Raises GroupInUse where another reader
    reads the same, or clients have the group, and Refusal.
    """
    if group in held:
        return
    reader = _read_metadata(group, metadata)
    groups.join(reader, reader.process)
    held[group] = partial(groups.leave, reader)


def write_metadata(
    topics: tuple[str, ...], partitions: frozenset[int] | None, process: int
) -> bytes:
    """Return what a reader sends of itself; ``partitions`` None: all of each topic."""
    chosen = None if partitions is None else sorted(partitions)
    return json.dumps({"topics": topics, "partitions": chosen, "process": process}).encode()


def write_positions(found: FoundPositions) -> list[dict[str, Any]]:
    """Return the fields of positions that OffsetFetch has for readers, and not for clients.

    A reader's commits are fenced by the records of its positions, which it would find only by
    reading all commits that are not compacted yet.
    """
    return [
        {
            "topic": key.topic,
            "partition": key.partition,
            "offset": one.position.offset,
            "leaderEpoch": one.position.leader_epoch,
            "recordOffset": one.record_offset,
            "isLive": positions is found.live,
        }
        for positions in found
        for key, one in positions.items()
    ]


def read_positions(fields: Iterable[dict[str, Any]]) -> FoundPositions:
    """Return positions from their fields, without what readers have no use for."""
    found = FoundPositions({}, {})
    for one in fields:
        position = Position(one["offset"], one["leaderEpoch"], "", _NO_TIME, None)
        key = TopicPartition(one["topic"], one["partition"])
        positions = found.live if one["isLive"] else found.of_others
        positions[key] = Committed(position, one["recordOffset"])
    return found


def _read_metadata(group: str, metadata: bytes) -> JoinedReader:
    try:
        found: Any = json.loads(metadata)
        topics, partitions = found["topics"], found["partitions"]
        chosen = None if partitions is None else frozenset(map(int, partitions))
        # Programs of earlier releases do not send it.
        number = int(found["process"]) if "process" in found else None
        process = "a process" if number is None else f"process {number}"
        process += " that has joined the one that holds the directory"
        return JoinedReader(group, tuple(map(str, topics)), chosen, process)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "this is not a reader's") from error
