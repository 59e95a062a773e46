"""Whether a log still has the records that a reader has seen below its position.

A position is remembered with the leader epochs of the records below it. Where a log was restored to
an earlier end, or has lost its end, another epoch begins: the records that get the same offsets
again are those of another epoch. Kafka: ``OffsetsForLeaderEpoch``, which knows one epoch of a
position.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final

from tidelog.errors import DataLoss

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs with the offset at which each begins; both rise."""

_CAUSE: Final = "the log was restored, or lost its end, since they were read"

MOST: Final = 16
"""Epochs that are remembered of a position."""

_start = itemgetter(1)


def lineage(epochs: Epochs, offset: int) -> Epochs:
    """Return the newest epochs that begin below a position."""
    end = bisect_left(epochs, offset, key=_start)
    return epochs[max(end - MOST, 0) : end]


def parting(known: Epochs, offset: int, now: Epochs) -> int | None:
    """Return the first offset below a position at which a log has other records than were read.

    ``known``: the epochs of what was read, as ``lineage`` returned them. ``now``: those of the log.
    None: it has the same, or nothing is known of them.
    """
    if not known or not now:
        return None
    shared = _last_shared(known, now)
    if shared is None:
        # All that the log has from the epoch on that it has in the place of the oldest one known.
        at = bisect_right(now, known[0][1], key=_start) - 1
        found = now[max(at, 0)][1]
    else:
        ours, theirs = shared
        nexts = [*known[ours + 1 : ours + 2], *now[theirs + 1 : theirs + 2]]
        found = min(map(_start, nexts), default=offset)
    return found if found < offset else None


def _last_shared(known: Epochs, now: Epochs) -> tuple[int, int] | None:
    """Return where both have their last common epoch; None: they have none.

    The first one of each may begin later than it did: a log forgets what lies below its start.
    """
    places = {epoch: number for number, (epoch, _) in enumerate(now)}
    for number, (epoch, start) in reversed([*enumerate(known)]):
        place = places.get(epoch)
        if place is not None and (now[place][1] == start or not number or not place):
            return number, place
    return None


def other_records(
    key: tuple[str, int], at: int, offset: int, log_end_offset: int, *, remedy: str = ""
) -> DataLoss:
    """Return the error that offsets ``[at, offset)``, which were read, hold other records now."""
    return DataLoss(*key, at, offset, cause_of_parting(at, offset, log_end_offset) + remedy)


def cause_of_parting(at: int, offset: int, log_end_offset: int) -> str:
    """Return the cause of a data loss: of ``[at, offset)``, where ``parting`` found other records.

    A log that has begun another epoch there need not have any record of it yet.
    """
    if log_end_offset <= at:
        return f"{_CAUSE}, and ends at {log_end_offset} now"
    if log_end_offset < offset:
        return f"{_CAUSE}, and others have those below {log_end_offset} now"
    return f"{_CAUSE}, and others have them now"
