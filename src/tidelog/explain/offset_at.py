"""The offset at some place of a partition, or at a time, as ``tidelog offsets --at`` prints it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tidelog.codec.shown_rows import Stored


class OffsetAt(NamedTuple):
    """An offset that was asked for."""

    offset: Annotated[int | None, "The offset; null: there is none."] = None
    timestamp: Annotated[
        int | None, Stored.TIME, "Timestamp of its record; null: not asked for."
    ] = None
    leader_epoch: Annotated[int | None, "Leader epoch of its batch; null: not known."] = None
