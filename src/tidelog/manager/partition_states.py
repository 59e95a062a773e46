"""The life of a partition in one process: its states, and what leads from one to the next.

A pair of state and event that is not in the table is a bug. A deletion is one step of a life: what
it leaves behind is a renamed directory, which waits in the deletion queue. Kafka has no such table:
``ReplicaManager`` knows whether a partition is online, ``LogManager`` whether its log is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from tidelog.errors import InvariantError

if TYPE_CHECKING:
    from tidelog.errors import TidelogError
    from tidelog.log.log import Log
    from tidelog.manager.partition import Partition


class State(Enum):
    """What a process has of a partition."""

    ABSENT = "absent"
    """Nothing: its log was not asked for, was deleted, or lies in a directory that failed."""
    LOADING = "loading"
    """Its log is being opened, or that was broken off: its files may be half recovered."""
    ONLINE = "online"
    """Its log is open and served."""
    MOVING = "moving"
    """Served as well, while it is copied to another directory."""
    FAILED = "failed"
    """Its log could not be loaded, or created: the error says why, and whether that may pass."""


class Event(Enum):
    """What happens to a partition."""

    LOAD = "load or create"
    SERVE = "serve"
    FAIL = "fail"
    COPY = "copy"
    COPY_LEAVES = "exchange, or give up"
    LEAVE = "delete, or lose the directory"


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.ABSENT, Event.LOAD): State.LOADING,
    # A start may find that a log is missing, or of another topic, without opening it.
    (State.ABSENT, Event.FAIL): State.FAILED,
    # After an interrupt, or an error of a first use, which the next use tries again.
    (State.LOADING, Event.LOAD): State.LOADING,
    (State.LOADING, Event.SERVE): State.ONLINE,
    (State.LOADING, Event.FAIL): State.FAILED,
    (State.LOADING, Event.LEAVE): State.ABSENT,
    (State.FAILED, Event.LOAD): State.LOADING,
    (State.FAILED, Event.FAIL): State.FAILED,
    (State.FAILED, Event.LEAVE): State.ABSENT,
    (State.ONLINE, Event.COPY): State.MOVING,
    (State.ONLINE, Event.LEAVE): State.ABSENT,
    (State.MOVING, Event.COPY_LEAVES): State.ONLINE,
    (State.MOVING, Event.LEAVE): State.ABSENT,
    # The copy of a partition that is not served is open as well: its log may come into service.
    (State.ABSENT, Event.COPY): State.ABSENT,
    (State.ABSENT, Event.COPY_LEAVES): State.ABSENT,
    (State.LOADING, Event.COPY): State.LOADING,
    (State.LOADING, Event.COPY_LEAVES): State.LOADING,
    (State.FAILED, Event.COPY): State.FAILED,
    (State.FAILED, Event.COPY_LEAVES): State.FAILED,
}
"""From state and event to state."""


@dataclass(frozen=True, slots=True)
class Life:
    """What a process has of one partition. A change makes a new value.

    ``error`` is why the last try to load or create the log failed, until one succeeds. ``is_new``:
    it was never served, and no log of it lies in another directory. ``is_uncut``: the copy was
    found after an unclean end and is not cut to what was flushed; any other part of it may be
    missing, also in the middle, however often it is flushed now.
    """

    state: State = State.ABSENT
    partition: Partition | None = None
    copy: Log | None = None
    error: TidelogError | None = None
    is_new: bool = False
    is_uncut: bool = False

    def loading(self) -> Self:
        """Return this when its log begins to be opened, or created."""
        return replace(self, state=self._after(Event.LOAD))

    def served(self, partition: Partition) -> Self:
        """Return this with its log in service; it moves if it has a copy."""
        state = self._after(Event.SERVE)
        served = replace(self, state=state, partition=partition, error=None, is_new=False)
        copy, is_uncut = self.copy, self.is_uncut
        return served if copy is None else served.copied_to(copy, is_uncut=is_uncut)

    def failed(self, error: TidelogError) -> Self:
        """Return this with its log not in service because of ``error``."""
        return replace(self, state=self._after(Event.FAIL), error=error)

    def copied_to(self, copy: Log, *, is_uncut: bool = False) -> Self:
        """Return this with a copy in another directory."""
        return replace(self, state=self._after(Event.COPY), copy=copy, is_uncut=is_uncut)

    def without_copy(self) -> Self:
        """Return this without its copy, which is the log now, or was given up."""
        return replace(self, state=self._after(Event.COPY_LEAVES), copy=None, is_uncut=False)

    def left(self) -> Self:
        """Return this with its log out of service; a copy stays."""
        state = self._after(Event.LEAVE)
        return replace(self, state=state, partition=None, error=None, is_new=False)

    @property
    def may_be_half_recovered(self) -> bool:
        """Whether a try to open its log was broken off or failed."""
        return self.state in {State.LOADING, State.FAILED}

    def _after(self, event: Event) -> State:
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            raise InvariantError(
                f"{event.value} is not possible: the partition is {self.state.value}"
            )
        return after


UNKNOWN: Final = Life()
