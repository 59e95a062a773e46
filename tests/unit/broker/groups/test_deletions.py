"""Which groups and positions can be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.machinery.broker_home import (
    begun,
    code,
    commit,
    commit_within,
    end,
    position,
    with_broker,
)

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


TOPICS = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]


def test_a_group_is_known_by_the_positions_of_an_open_transaction() -> None:
    """Though it has no other yet; what is deleted does not come back by the commit."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await commit_within(home, producer, 9)
        answer = await home.ask("OffsetDelete", 0, groupId="g", topics=TOPICS)
        assert code(answer) is ErrorCode.NONE
        assert await end(home, producer) is ErrorCode.NONE
        assert await position(home) == -1

    with_broker(test)


def test_an_id_that_was_only_given_out_keeps_no_group() -> None:
    """Its client may be gone: tools would have to wait until its session is over."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        joining: dict[str, Any] = {
            "groupId": "g",
            "sessionTimeoutMs": 10_000,
            "rebalanceTimeoutMs": 10_000,
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": b"m"}],
        }
        given = await home.ask("JoinGroup", 5, **joining)
        assert code(given) is ErrorCode.MEMBER_ID_REQUIRED
        answer = await home.ask("OffsetDelete", 0, groupId="g", topics=TOPICS)
        assert code(answer["topics"][0]["partitions"][0]) is ErrorCode.NONE

        await commit(home, 6)
        (deleted,) = (await home.ask("DeleteGroups", 2, groupsNames=["g"]))["results"]
        assert code(deleted) is ErrorCode.NONE
        assert (await home.ask("ListGroups", 4))["groups"] == []
        late = await home.ask("JoinGroup", 5, **joining, memberId=given["memberId"])
        assert code(late) is ErrorCode.UNKNOWN_MEMBER_ID
        home.logs.reader("t", group="g").close()  # clients no longer have it

    with_broker(test)
