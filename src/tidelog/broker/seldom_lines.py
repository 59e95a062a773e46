"""Lines of the log that a client set up wrongly would repeat as fast as it asks again."""

from __future__ import annotations

from threading import Lock
from typing import Final

_PAUSE_MS: Final = 60_000
_MOST_REMEMBERED: Final = 1000
"""How many lines are remembered: hosts, groups, topics and reasons come from outside."""


class SeldomLines:
    """Lets the same line about a host, a group or a topic pass once a minute; on any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._written_ms: dict[tuple[str, str], float] = {}

    def is_due(self, who: str, reason: str, now_ms: float) -> bool:
        """Return whether a line may be written at ``now_ms``, of a clock that does not go back."""
        key = who, reason
        with self._lock:
            if key in self._written_ms and now_ms < self._written_ms[key] + _PAUSE_MS:
                return False
            if len(self._written_ms) >= _MOST_REMEMBERED:
                self._written_ms.clear()
            self._written_ms[key] = now_ms
            return True
