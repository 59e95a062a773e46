"""Transactional ids that are forgotten since nobody uses them any more."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from tests.machinery.broker_home import BrokerHome, begun, run

from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from typing import Any

IDS = 50
DAY_MS = 86_400_000


def test_others_have_their_turn_while_many_ids_are_forgotten() -> None:
    """Programs that draw an id for each run leave thousands, which expire together."""

    async def scenario() -> None:
        clock = ManualClock()
        async with BrokerHome(CrashFileSystem(), clock, timers=clock.scheduler()) as home:
            for number in range(IDS):
                await begun(home, f"id-{number}")
            expire_all(clock)
            left: list[int] = []
            while known := await transactions(home):
                left.append(len(known))
            assert len(left) >= IDS // 2

    run(scenario())


def test_a_coordinator_that_is_closed_forgets_nothing() -> None:
    """The next one may have given the id out again."""

    async def scenario() -> None:
        clock = ManualClock()
        async with BrokerHome(CrashFileSystem(), clock, timers=clock.scheduler()) as home:
            for number in range(IDS):
                await begun(home, f"id-{number}")
            expire_all(clock)
            await asyncio.sleep(0)
            await home.broker.close()
            log = home.logs.partition(TRANSACTIONS_TOPIC, 0).log
            end = log.log_end_offset
            for _ in range(2 * IDS):
                await asyncio.sleep(0)
            assert log.log_end_offset <= end + 1

    run(scenario())


def test_a_partition_that_is_offline_keeps_only_its_own_ids() -> None:
    """The others are forgotten; which ids belong where, their hash says."""

    async def scenario() -> None:
        clock = ManualClock()
        timers = clock.scheduler()
        async with BrokerHome(CrashFileSystem(), clock, more=["/b"], timers=timers) as home:
            home.logs.create_topic(TRANSACTIONS_TOPIC, 2, is_spread=True)
            for name in ("a", "b", "c", "d"):
                await begun(home, name)
            home.is_left = True
            offline = home.logs.partition(TRANSACTIONS_TOPIC, 1).log.data_dir  # of "a" and "c"
            home.logs.manager.take_dir_offline(offline, OSError(errno.EIO, "the disk failed"))
            expire_all(clock)
            for _ in range(10):
                left = await transactions(home)
            assert sorted(one["transactionalId"] for one in left) == ["a", "c"]

    run(scenario())


def test_an_id_that_is_being_used_keeps_no_other_from_being_forgotten() -> None:
    """It stays, and nothing is logged about it: it will not be unused any more."""

    async def scenario() -> None:
        clock = ManualClock()
        async with BrokerHome(CrashFileSystem(), clock, timers=clock.scheduler()) as home:
            for name in ("a", "b"):
                await begun(home, name)
            with home.broker._transactions._alone("a"):
                expire_all(clock)
                for _ in range(10):
                    left = await transactions(home)
            assert [one["transactionalId"] for one in left] == ["a"]

    run(scenario())


def expire_all(clock: ManualClock) -> None:
    """Let more time pass than ids are kept, until the next look for expired ones begins."""
    clock.set_time_of_day(clock.now_ms() + 8 * DAY_MS)
    clock.advance(3_600_000)


async def transactions(home: BrokerHome) -> list[Any]:
    """Return the transactional ids, after a turn of the loop."""
    await asyncio.sleep(0)
    answer = await home.ask("ListTransactions", 1, durationFilter=-1)
    found: list[Any] = answer["transactionStates"]
    return found
