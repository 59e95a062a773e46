"""Lines of the log that a client set up wrongly would repeat as fast as it asks again."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.env.clock import Clock

_PAUSE_NS: Final = 60_000_000_000
_MOST_REMEMBERED: Final = 1000
"""How many lines are remembered: hosts, groups, topics and reasons come from outside."""


class SeldomLines:
    """Lets the same line about a host, a group or a topic pass once a minute; on any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._written_ns: dict[tuple[str, str], int] = {}

    def is_due(self, who: str, reason: str) -> bool:
        """Return whether a line may be written now."""
        key, now_ns = (who, reason), self._clock.monotonic_ns()
        with self._lock:
            if key in self._written_ns and now_ns < self._written_ns[key] + _PAUSE_NS:
                return False
            if len(self._written_ns) >= _MOST_REMEMBERED:
                self._written_ns.clear()
            self._written_ns[key] = now_ns
            return True
