"""Groups whose partition does not take what is to be appended, or takes it late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.machinery.broker_home import (
    BrokerHome,
    code,
    commit,
    held,
    position,
    run,
    with_broker,
)
from tests.unit.broker.groups.test_group_requests import joined, leave, member_of

from tidelog.datadir.internal_topics import COORDINATOR_CONFIG
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError
from tidelog.manager.partition import Partition
from tidelog.readonly.group_positions import OFFSETS_TOPIC, partition_of_group
from tidelog.testing import CrashFileSystem


async def emptied(home: BrokerHome) -> int:
    """Leave an empty group; return its generation."""
    member_id, generation = await member_of(home)
    await leave(home, member_id)
    return generation + 1


async def listed(home: BrokerHome) -> list[str]:
    """Return the names of all groups."""
    return [one["groupId"] for one in (await home.ask("ListGroups", 4))["groups"]]


async def deleted(home: BrokerHome) -> ErrorCode:
    """Delete the group; return what the answer says of it."""
    answer = await home.ask("DeleteGroups", 2, groupsNames=["g"])
    return code(answer["results"][0])


def fail(*_: Any) -> None:
    """Refuse an append."""
    raise KafkaStorageError("the disk failed")


@pytest.mark.parametrize("is_held", [False, True])
def test_a_group_whose_deletion_failed_is_still_there(
    monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    """As it would be after a restart; its generations continue, and it can be deleted again."""

    async def test(home: BrokerHome) -> None:
        generation = await emptied(home)
        with monkeypatch.context() as patched:
            patched.setattr(Partition, "append_records", fail)
            if is_held:
                with held(home, OFFSETS_TOPIC):
                    answer = asyncio.create_task(deleted(home))
                    await asyncio.sleep(0)
            else:
                answer = asyncio.create_task(deleted(home))
            async with asyncio.timeout(10):
                assert await answer is ErrorCode.NOT_COORDINATOR
        assert await listed(home) == ["g"]
        assert (await member_of(home))[1] == generation + 1

    with_broker(test, group_initial_rebalance_delay_ms=0)


@pytest.mark.parametrize("joins", [False, True])
def test_a_deletion_that_waits_leaves_a_group_that_clients_join_meanwhile(*, joins: bool) -> None:
    """Its generations continue; without them it is gone once the deletion is written down."""

    async def test(home: BrokerHome) -> None:
        generation = await emptied(home)
        with held(home, OFFSETS_TOPIC):
            answer = asyncio.create_task(deleted(home))
            await asyncio.sleep(0)
            if joins:
                first = await joined(home)
                second = await joined(home, first["memberId"])
                assert second["generationId"] == generation + 1
        async with asyncio.timeout(10):
            assert await answer is ErrorCode.NONE
        assert await listed(home) == ["g"] * joins

    with_broker(test, group_initial_rebalance_delay_ms=0)


def test_a_partition_that_takes_nothing_keeps_no_groups_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Their positions expire; it is tried once a pass, and logged once, however many it has."""
    plain, tried = Partition.append_records, []

    def append(self: Partition, records: Any) -> Any:
        if self.partition:
            return plain(self, records)
        tried.append(records)
        return fail()

    async def test(home: BrokerHome) -> None:
        home.logs.manager.create_topic(OFFSETS_TOPIC, 2, config=COORDINATOR_CONFIG)
        names = [f"g{number}" for number in range(20)]
        for name in names:
            await commit(home, 1, group=name)
        stuck = [name for name in names if not partition_of_group(name, 2)]
        home.clock.advance(10 * 60_000)
        with monkeypatch.context() as patched:
            patched.setattr(Partition, "append_records", append)
            home.broker._expire()
        assert 1 < len(await listed(home)) < 20
        assert await listed(home) == sorted(stuck)
        assert len(tried) == caplog.text.count("positions-not-expired") == 1
        home.broker._expire()
        assert await listed(home) == []

    with_broker(test, offsets_retention_minutes=5)


def test_a_group_that_is_left_before_its_assignment_is_noted_is_empty() -> None:
    """It was written down last as one without members; it is forgotten as others are."""

    async def test(home: BrokerHome) -> None:
        await home.ask("FindCoordinator", 0, key="g")
        first = await joined(home)
        second = await joined(home, first["memberId"])
        with held(home, OFFSETS_TOPIC):
            syncing = home.asking(
                *("SyncGroup", 3),
                groupId="g",
                generationId=second["generationId"],
                memberId=first["memberId"],
                assignments=[{"memberId": first["memberId"], "assignment": b"all"}],
            )
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while home.broker._appends._queues:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        await leave(home, first["memberId"])
        assert code(await syncing) is ErrorCode.UNKNOWN_MEMBER_ID
        for _ in range(10):
            await asyncio.sleep(0)
        assert await listed(home) == ["g"]
        home.broker._expire()
        assert await listed(home) == []

    with_broker(test, group_initial_rebalance_delay_ms=0)


def test_a_group_is_deleted_by_one_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between two would leave its positions without it."""
    appended: list[int] = []
    plain = Partition.append_records

    def append(partition: Partition, records: list[Any], **how: Any) -> Any:
        appended.append(len(records))
        return plain(partition, records, **how)

    async def test(home: BrokerHome) -> None:
        await emptied(home)
        await commit(home, 1)
        with monkeypatch.context() as patched:
            patched.setattr(Partition, "append_records", append)
            assert await deleted(home) is ErrorCode.NONE
        assert appended == [2]
        assert (await listed(home), await position(home)) == ([], -1)

    with_broker(test, group_initial_rebalance_delay_ms=0)


def test_a_group_that_was_left_just_before_the_end_has_no_members_afterwards() -> None:
    """Though its partition was held then: else the next to join would wait for who has gone."""
    files = CrashFileSystem()

    async def before() -> None:
        async with BrokerHome(files) as home:
            member_id, _ = await member_of(home)
            with held(home, OFFSETS_TOPIC):
                await leave(home, member_id)

    async def after() -> None:
        async with BrokerHome(files) as home:
            (group,) = (await home.ask("ListGroups", 5))["groups"]
            assert group["groupState"] == "Empty"

    run(before())
    run(after())
