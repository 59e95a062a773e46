"""Who appends: it decides what is checked, and who gives the offsets.

Owns the kinds. Must not know the checks.
"""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """Who appends; it selects what is checked. Source: Kafka AppendOrigin.

    STAGED is tidelog's own: batches that were validated when they were staged. Several may come in
    one append, and their records are not looked at again. A bytearray with nothing behind the
    batches is the log's from then on: they get their offsets where they lie.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"
    STAGED = "staged"

    @property
    def brings_offsets(self) -> bool:
        """Whether the batches come with their offsets: a replica's and the KRaft leader's do."""
        return self is AppendOrigin.REPLICATION or self is AppendOrigin.RAFT_LEADER
