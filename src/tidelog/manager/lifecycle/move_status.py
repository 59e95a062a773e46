"""The moves of partitions that are in flight, as values; also found in the files alone."""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import Named, PartitionNumber, TextOrEmpty, TopicName
from tidelog.datadir.partition_directories import find_copies, log_bytes
from tidelog.segment.filenames import (
    log_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.env.files import FileSystem


MoveLimit = Annotated[
    int | None, "Bytes per second that all moves copy at most; null: no limit was set."
]


class MoveState(Enum):
    """What a move is doing."""

    COPYING = "copying"
    THROTTLED = "throttled"
    """It waits for the limit of the rate."""
    WAITING = "waiting"
    """It repeats a step after an error that may pass, or after a transaction is applied."""
    STOPPED = "stopped"
    """No service has the directories open; the next start of one continues it."""


class MoveStatus(NamedTuple):
    """One partition on its way to another data directory.

    ``limit`` is None too where nothing runs.
    """

    topic: TopicName
    partition: PartitionNumber
    source: Annotated[
        str | None, Named("from"), "Path of the directory that it is in; null: not known."
    ]
    target: Annotated[str, Named("to"), "Path of the directory that it is copied to."]
    done_bytes: Annotated[int, "Bytes of records of the copy."]
    total_bytes: Annotated[int | None, "Bytes of records of the log; null: not known."]
    bytes_per_second: Annotated[int, "Bytes copied a second, in the last ten seconds."]
    limit: Annotated[MoveLimit, Named("limitBytesPerSecond")]
    state: Annotated[MoveState, "What it does; stopped: it waits for a service to start."]
    reason: Annotated[TextOrEmpty, "Why it waits; null: no error."] = ""


def moves_in_files(fs: FileSystem, data_dirs: Sequence[str]) -> list[MoveStatus]:
    """Return the moves whose copies lie in these directories, without a service; raises OSError.

    The source is known if it is one of the directories.
    """
    found = []
    for target in data_dirs:
        for key, path in find_copies(fs, target):
            name = log_directory_name(*key)
            sources = [one for one in data_dirs if fs.exists(os.path.join(one, name))]
            source = sources[0] if sources else None
            found.append(
                MoveStatus(
                    *(*key, source, target),
                    done_bytes=log_bytes(fs, path),
                    total_bytes=None if source is None else log_bytes(fs, f"{source}/{name}"),
                    bytes_per_second=0,
                    limit=None,
                    state=MoveState.STOPPED,
                )
            )
    return sorted(found)
