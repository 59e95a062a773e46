"""The share of a disk that the logs of one directory take: which of them gives a segment next.

The rule, ``tidelog.retention.disk.percent``, is tidelog's own. A service runs it over its logs
(``service.disk_share_pass``), a plan over what it knows of them. Kafka counts the bytes of each
partition only.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Member(Protocol):
    """A log of the directory."""

    @property
    def size_bytes(self) -> int:
        """The bytes that it takes."""

    def oldest_ms(self) -> int | None:
        """Return the largest timestamp of its oldest segment; None: that may not be deleted."""

    def give(self) -> int:
        """Delete that segment, and what has expired after it; return how many went."""


def shrink_to_share(members: Sequence[Member], free_bytes: int, percent: int) -> int:
    """Delete the oldest segments until the logs take at most their share of the disk.

    The share is ``percent`` of the space that they take and could still take. Of segments of one
    age that of the first member goes first; a member that has deleted nothing is left out from then
    on. Returns the bytes that are still above the share.
    """
    total = sum(member.size_bytes for member in members)
    excess = total - (total + free_bytes) * percent // 100
    heap = []
    for number, member in enumerate(members) if excess > 0 else ():
        if (oldest_ms := member.oldest_ms()) is not None:
            heap.append((oldest_ms, number))
    heapq.heapify(heap)
    while excess > 0 and heap:
        _, number = heapq.heappop(heap)
        member = members[number]
        before = member.size_bytes
        gone = member.give()
        excess -= before - member.size_bytes
        if gone and (oldest_ms := member.oldest_ms()) is not None:
            heapq.heappush(heap, (oldest_ms, number))
    return max(excess, 0)
