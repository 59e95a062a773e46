"""What a repartition wrote, as a value; no Spark is needed to look at it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from tidelog.codec.shown_rows import Named, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartitioned:
    """What was written or, with `--dry-run`, would be.

    ``records`` are those of the source that are visible to the isolation level. ``next_offsets`` is
    where a later read of the source starts, in the form of the option ``startingOffsets``.
    ``was_done``: so nothing was written, nor read: where the first run ended is not known, and
    ``next_offsets`` is None.
    """

    topic: Annotated[str, "The topic that is read."]
    to: Annotated[str, "The topic that is written."]
    from_partitions: Annotated[int, "Partitions of the topic that is read."]
    partitions: Annotated[int, "Partitions of the topic that is written."]
    records: Annotated[int, "Number of records."]
    keyless: Annotated[
        int | None, "How many of them have no key; null: not counted, without `--dry-run`."
    ]
    size_bytes: Annotated[int, "About the size of what is read in the logs, in bytes."]
    txn_id: Annotated[str, Named("txn"), "Id of the transaction."]
    next_offsets: str | None
    retention_bytes: Annotated[
        int | None,
        "The new topic's `retention.bytes`, if enlarged for fewer partitions, or null.",
    ] = None
    unordered: Annotated[
        int | None,
        "How many of them may be in the wrong order among those of their key: 0, unless partitions"
        " were added to the source several times, or other partitioners chose. null: not counted,"
        " as they were written before.",
    ] = None
    is_dry_run: Annotated[bool, "Whether nothing was to be written."] = False
    was_done: Annotated[bool, "Whether the transaction was committed before."] = False

    @property
    @shown(after="txn_id")
    def ends(self) -> Annotated[dict[str, ReadEnd] | None, Named("nextOffsets")]:
        """By partition of the topic that is read; null: it was read by an earlier run."""
        if self.next_offsets is None:
            return None
        found: dict[str, int] = json.loads(self.next_offsets)[self.topic]
        return found


ReadEnd = Annotated[int, "Where the read of a partition ended, exclusive."]
