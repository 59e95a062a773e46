"""Ids of new producers, of which each has one to itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.machinery.broker_home import BrokerHome, add, begun, with_broker

from tidelog.error_codes import ErrorCode

if TYPE_CHECKING:
    from tidelog.readonly.transactional_id import Transaction


class Producers(dict[int, "Transaction"]):
    """Notes which producers are unknown for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[int] = []

    def pop(self, key: int, *default: object) -> object:  # type: ignore[override]  # as it is called
        """Forget a producer."""
        self.lost.append(key)
        return super().pop(key, *default)


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


def test_a_producer_is_known_all_the_time() -> None:
    """A thread that appends its records asks for it while its transaction gets a partition."""

    async def test(home: BrokerHome) -> None:
        known = home.broker._transactions._by_producer = Producers()
        producer = await begun(home)
        assert await add(home, producer) is ErrorCode.NONE
        assert list(known) == [producer[0]]
        assert not known.lost

    with_broker(test)
