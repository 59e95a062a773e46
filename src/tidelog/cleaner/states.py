"""What a cleaner may be doing with a partition, and what may happen next.

Owns the transitions: a pair that is not in the table is refused. Must not know logs or threads.
Kafka: ``LogCleaningState``; there the transitions stand in a comment.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from tidelog.errors import InvalidArgument


class Phase(Enum):
    """What is done with a partition. PAUSED counts how often, so that pauses may overlap."""

    NONE = "none"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class Event(Enum):
    """What happens to a partition."""

    BEGIN = "begin"
    END = "end"
    PAUSE = "pause"
    RESUME = "resume"


TRANSITIONS: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.NONE, Event.BEGIN): Phase.IN_PROGRESS,
    (Phase.NONE, Event.PAUSE): Phase.PAUSED,
    (Phase.IN_PROGRESS, Event.END): Phase.NONE,
    (Phase.IN_PROGRESS, Event.PAUSE): Phase.ABORTED,
    # Whoever asked for the abort waits for this: the cleaner has let go of the partition.
    (Phase.ABORTED, Event.END): Phase.PAUSED,
    (Phase.PAUSED, Event.PAUSE): Phase.PAUSED,
    (Phase.PAUSED, Event.RESUME): Phase.PAUSED,
}
"""From phase and event to phase; the last RESUME of a paused partition leads to NONE."""

_PAUSES: Final = {Event.PAUSE: 1, Event.RESUME: -1}


class CleaningState(NamedTuple):
    """The state of one partition; ``pauses`` is 0 unless it is paused or about to be."""

    phase: Phase = Phase.NONE
    pauses: int = 0

    def after(self, event: Event) -> CleaningState:
        """Return the state after ``event``; InvalidArgument if that cannot happen now."""
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            raise InvalidArgument(f"{event.value} is not possible: the partition is {self}")
        pauses = self.pauses + _PAUSES.get(event, 0)
        if phase is Phase.PAUSED and not pauses:
            return IDLE
        return CleaningState(phase, pauses)

    def __str__(self) -> str:
        return f"{self.phase.value} ({self.pauses})" if self.pauses > 1 else self.phase.value


IDLE: Final = CleaningState()
