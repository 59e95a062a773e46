"""A transaction that wrote to many partitions: each gets a marker when it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.machinery.broker_home import BrokerHome, add, begun, end, with_broker

from tidelog.error_codes import ErrorCode
from tidelog.manager.partition import Partition

if TYPE_CHECKING:
    import pytest


def test_others_are_served_between_the_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of hundreds kept all clients waiting for some tenths of a second."""
    turns, seen = 0, []
    plain = Partition.append

    def append(self: Partition, *given: Any, **how: Any) -> Any:
        seen.append(turns)
        return plain(self, *given, **how)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("many", 100)
        for number in range(100):
            home.logs.partition("many", number).log.maybe_assign_epoch(0, 0)
        producer = await begun(home)
        assert await add(home, producer, topic="many", count=100) is ErrorCode.NONE
        monkeypatch.setattr(Partition, "append", append)
        other = asyncio.create_task(count())
        assert await end(home, producer) is ErrorCode.NONE
        other.cancel()

    with_broker(test)
    assert len(seen) == 100
    assert max(Counter(seen).values()) <= 20
