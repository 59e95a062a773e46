"""A directory that has lost a segment of a log, as after a power cut that took its name."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import tidelog
from tidelog.errors import DataLoss

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

T = TypeVar("T")


def but_for_losses(records: Iterable[T]) -> Iterator[T]:
    """Yield records, also of a log of which a power cut took a segment that was not flushed."""
    with suppress(DataLoss):
        yield from records


def lose_a_segment(path: Path, policy: str = "delete") -> None:
    """Make the topic t with a segment for each of four records, and delete that of record 1."""
    with tidelog.open(path, log_cleaner_enable=False) as logs:
        logs.create_topic("t", config={"segment.bytes": "1048576", "cleanup.policy": policy})
        for number in range(4):
            logs.append("t", b"%d" % number + bytes(600_000), key=b"k")
    (path / "t-0" / f"{1:020d}.log").unlink()
