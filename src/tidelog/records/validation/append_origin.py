"""Who appends to a log, which decides what is checked and who assigns the offsets."""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """Who appends; it selects what is checked. Source: Kafka AppendOrigin.

    STAGED is tidelog's own: batches that were validated when they were staged. One append may hold
    several, and their records are not checked again. If it is a bytearray with nothing behind the
    batches, the log takes ownership and assigns the offsets in place.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"
    STAGED = "staged"

    @property
    def brings_offsets(self) -> bool:
        """Whether the batches already have their offsets, as from a replica or the KRaft leader."""
        return self is AppendOrigin.REPLICATION or self is AppendOrigin.RAFT_LEADER
