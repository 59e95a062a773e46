"""The items of a stream with the greatest weights, in bounded memory.

The algorithm is that of Misra and Gries, 1982, for weights, with many counters removed at a time
(Agarwal and others, Mergeable Summaries, 2012); Space-Saving gives the same bounds. An item that
was not tracked before may have had the weight ``floor``, so that is its error. Kafka has no such
summary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Hashable

H = TypeVar("H", bound="Hashable")


@dataclass(slots=True)
class Tracked:
    """What is known of an item: its weight lies in ``[lower, lower + error]``.

    ``lower`` was added while it was tracked, and so was ``other``, of another measure.
    """

    lower: int
    error: int
    other: int

    @property
    def upper(self) -> int:
        """The greatest weight that the item may have."""
        return self.lower + self.error


class FrequentItems(Generic[H]):
    """Tracks up to ``capacity`` items, from 2; exact until there are more.

    ``floor`` is the greatest weight that an item which is not tracked may have. It is at most twice
    the weight of the whole stream divided by the capacity.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 2:
            raise InvalidArgument(f"a summary cannot track {capacity} items: 2 are the least")
        self._capacity: Final = capacity
        self.tracked: dict[H, Tracked] = {}
        """The items, and what is known of each; to be read only."""
        self.floor = 0
        self.is_exact = True
        """Whether no item was ever removed."""

    def add(self, item: H, weight: int, other: int = 0) -> bool:
        """Add a weight, from 0, to an item; return whether items were removed, maybe this one."""
        found = self.tracked.get(item)
        if found is not None:
            found.lower += weight
            found.other += other
            return False
        self.tracked[item] = Tracked(weight, self.floor, other)
        if len(self.tracked) <= self._capacity:
            return False
        self._remove_least()
        return True

    def _remove_least(self) -> None:
        """Keep at most half of the items: those above the greatest weight that is removed.

        Each time ``floor`` rises by some weight, more than half of the capacity of items have at
        least as much above the old floor, which then counts no more: so the bound holds.
        """
        kept = self._capacity // 2
        self.floor = floor = sorted(one.lower + one.error for one in self.tracked.values())[~kept]
        self.tracked = {
            item: one for item, one in self.tracked.items() if one.lower + one.error > floor
        }
        self.is_exact = False
