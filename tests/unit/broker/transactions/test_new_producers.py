"""Ids of new producers, of which each has one to itself."""

from __future__ import annotations

import asyncio

from tests.machinery.broker_home import BrokerHome, with_broker


def test_nobody_takes_an_id_of_a_block_while_a_thread_reserves_it() -> None:
    """The thread takes one as well, right after it has reserved them: both could take the first."""

    async def test(home: BrokerHome) -> None:
        coordinator = home.broker._transactions
        first = await coordinator.new_id()
        async with coordinator._reserving:
            waiting = asyncio.create_task(coordinator.new_id())
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting == first + 1

    with_broker(test)
