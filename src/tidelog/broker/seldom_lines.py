"""Lines of the log that a client set up wrongly would repeat as fast as it asks again."""

from __future__ import annotations

from typing import Final

_PAUSE_S: Final = 60
_MOST_TOLD: Final = 1000
"""Lines that are remembered: hosts, groups and reasons come from outside."""


class SeldomLines:
    """Lets the same line about a host, or a group, pass once a minute."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], float] = {}

    def is_due(self, who: str, reason: str, now_s: float) -> bool:
        """Return whether a line may be written at ``now_s``, of a clock that does not go back."""
        key = who, reason
        if key in self._told and now_s < self._told[key] + _PAUSE_S:
            return False
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[key] = now_s
        return True
