"""Which appends bring their own offsets."""

from __future__ import annotations

from tidelog.records.validation.append_origin import AppendOrigin


def test_copies_and_the_raft_leader_bring_their_offsets() -> None:
    """The log assigns the offsets of all other appends.

    Source: Kafka's ``LogValidator`` and ``UnifiedLog.appendAsFollower``.
    """
    bringing = {origin for origin in AppendOrigin if origin.brings_offsets}

    assert bringing == {AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER}
