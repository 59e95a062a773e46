"""One member of a group of clients. Kafka: ``ClassicGroupMember``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import asyncio

    from tidelog.env.scheduler import Handle

NO_MEMBER: Final = ""
"""The id of a member that has not got one yet."""


class Protocol(NamedTuple):
    """A way to assign partitions that a member supports, and its metadata for that."""

    name: str
    metadata: bytes


@dataclass(slots=True, eq=False)
class GroupMember:
    """A member: what it has said of itself, what it was assigned, and what it waits for.

    ``instance_id`` is given for a static member, whose place is kept while it restarts. Timeouts
    are in ms. ``joining`` and ``syncing`` are the answers that it waits for.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    joining: asyncio.Future[dict[str, Any]] | None = None
    syncing: asyncio.Future[dict[str, Any]] | None = None
    expiry: Handle | None = field(default=None, repr=False)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for an answer; meanwhile it sends no heartbeats."""
        return self.joining is not None or self.syncing is not None

    @property
    def protocol_names(self) -> set[str]:
        """The names of the protocols that it supports."""
        return {one.name for one in self.protocols}

    def metadata_for(self, protocol: str | None) -> bytes:
        """Return what the member says for a protocol; empty if it does not support that."""
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Return the first of the member's protocols that all members support."""
        return next(one.name for one in self.protocols if one.name in candidates)

    def answer_join(self, answer: dict[str, Any]) -> None:
        """Answer a join that waits; nothing if none does."""
        waiting, self.joining = self.joining, None
        if waiting is not None:
            waiting.set_result({**answer, "memberId": self.member_id})

    def answer_sync(self, answer: dict[str, Any]) -> bool:
        """Answer a sync that waits; return whether one did."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None:
            waiting.set_result(answer)
        return waiting is not None

    def stop_expiry(self) -> None:
        """Stop the timer after which the member is removed."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
