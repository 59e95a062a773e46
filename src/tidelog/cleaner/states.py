"""The states of a partition's cleaning, and the transitions between them.

A pair that is not in the table is refused. Kafka: ``LogCleaningState``, whose transitions are
described in a comment of ``LogCleanerManager``.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from tidelog.errors import InvalidArgument


class Phase(Enum):
    """What a partition's cleaning is doing. Pauses are counted, so that they may overlap."""

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
    # The thread that requested the abort waits for this: the cleaner has released the partition.
    (Phase.ABORTED, Event.END): Phase.PAUSED,
    # Kafka refuses this; here another caller waits for the same end, and pauses too.
    (Phase.ABORTED, Event.PAUSE): Phase.ABORTED,
    # An interrupt came while the caller waited: the cleaning still stops, for nobody.
    (Phase.ABORTED, Event.RESUME): Phase.ABORTED,
    (Phase.PAUSED, Event.PAUSE): Phase.PAUSED,
    (Phase.PAUSED, Event.RESUME): Phase.PAUSED,
}
"""From phase and event to phase; the last RESUME of a paused partition leads to NONE."""

_PAUSE_CHANGE: Final = {Event.PAUSE: 1, Event.RESUME: -1}


class CleaningState(NamedTuple):
    """The state of one partition; ``pauses`` counts who holds it paused, or aborts it."""

    phase: Phase = Phase.NONE
    pauses: int = 0

    def after(self, event: Event) -> CleaningState:
        """Return the state after ``event``; InvalidArgument if it is not allowed now."""
        phase = TRANSITIONS.get((self.phase, event))
        pauses = self.pauses + _PAUSE_CHANGE.get(event, 0)
        if phase is None or pauses < 0:
            raise InvalidArgument(f"{event.value} is not possible: the partition is {self}")
        if phase is Phase.PAUSED and not pauses:
            return IDLE
        return CleaningState(phase, pauses)

    def __str__(self) -> str:
        return f"{self.phase.value} ({self.pauses})" if self.pauses > 1 else self.phase.value


IDLE: Final = CleaningState()
