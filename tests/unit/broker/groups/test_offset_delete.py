"""OffsetDelete of groups whose members are not consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.broker_home import code, commit, position, with_broker

from tidelog.error_codes import ErrorCode

if TYPE_CHECKING:
    from tests.machinery.broker_home import BrokerHome


def test_positions_of_a_group_of_others_than_consumers_stay_while_it_has_members() -> None:
    """What they read is theirs to know. Source: Kafka ClassicGroup.validateOffsetDelete."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        joining = await home.ask(
            *("JoinGroup", 3),
            groupId="g",
            sessionTimeoutMs=10_000,
            rebalanceTimeoutMs=10_000,
            protocolType="connect",
            protocols=[{"name": "eager", "metadata": b"m"}],
        )
        topics = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]
        refused = await home.ask("OffsetDelete", 0, groupId="g", topics=topics)
        assert code(refused) is ErrorCode.NON_EMPTY_GROUP
        assert await position(home) == 5

        await home.ask("LeaveGroup", 0, groupId="g", memberId=joining["memberId"])
        answer = await home.ask("OffsetDelete", 0, groupId="g", topics=topics)
        assert code(answer["topics"][0]["partitions"][0]) is ErrorCode.NONE
        assert await position(home) == -1

    with_broker(test, group_initial_rebalance_delay_ms=0)
