"""A log whose damage only a reader of its batches finds, as one beside its writer has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidelog
from tidelog.testing import damage_batch

if TYPE_CHECKING:
    from pathlib import Path


def damage_before_the_last_index_entry(path: Path) -> None:
    """Make the topic t with records 0 to 5, each a batch of its own, of which 3 is damaged.

    The offset index knows a batch after it, so the log's end is sound. There is no snapshot of
    producers, so which transactions are decided after the damage is not known.
    """
    with tidelog.open(path) as logs:
        logs.create_topic("t", config={"index.interval.bytes": "0"})
        for number in range(6):
            logs.append("t", b"%d" % number)
    for snapshot in (path / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    damage_batch(path, "t", 3)
