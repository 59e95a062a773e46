"""Whose positions of a group are taken, and with which error others are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.machinery.broker_home import BrokerHome, begun, code, commit, with_broker
from tests.unit.broker.groups.test_group_requests import member_of

from tidelog.error_codes import ErrorCode

OK, STRANGER = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
OLD, NO_GROUP = ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND
FENCED = ErrorCode.FENCED_INSTANCE_ID


async def codes_of_a_commit(
    home: BrokerHome, generation: int, member_id: str, instance: str | None
) -> tuple[ErrorCode, ...]:
    """Return the answers to a commit: of versions 8 and 9, and within a transaction."""
    place = {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": None}
    fields: dict[str, Any] = {
        "groupId": "g",
        "topics": [{"name": "t", "partitions": [place]}],
        "generationId": generation,
        "memberId": member_id,
        "groupInstanceId": instance,
    }
    producer_id, epoch = await begun(home)
    ids: dict[str, Any] = {"producerId": producer_id, "producerEpoch": epoch}
    ids["transactionalId"] = "x"
    await home.ask("AddOffsetsToTxn", 3, groupId="g", **ids)
    answers = [
        await home.ask("TxnOffsetCommit", 3, **fields, **ids),
        await home.ask("OffsetCommit", 9, **fields),
        await home.ask("OffsetCommit", 8, **fields),
    ]
    return tuple(code(one["topics"][0]["partitions"][0]) for one in reversed(answers))


@pytest.mark.parametrize(
    ("group", "member", "generation", "expected"),
    [
        ("unknown", "", -1, (OK, OK, OK)),
        ("unknown", "x", -1, (OK, OK, OK)),
        ("unknown", "", 0, (OLD, NO_GROUP, OLD)),
        ("unknown", "x", 7, (OLD, NO_GROUP, OLD)),
        ("positions", "x", -2, (OK, OK, OK)),
        ("positions", "", 0, (STRANGER,) * 3),
        ("positions", "x", 7, (STRANGER,) * 3),
        ("empty", "", -1, (OK, OK, OK)),
        ("empty", "known", -1, (OK, OK, OK)),
        ("empty", "x", 0, (STRANGER,) * 3),
        ("empty", "known", 1, (STRANGER,) * 3),
        ("empty", "instance", 1, (STRANGER,) * 3),
        ("stable", "", -1, (STRANGER, STRANGER, OK)),
        ("stable", "", -2, (STRANGER, STRANGER, OK)),
        ("stable", "x", -1, (STRANGER,) * 3),
        ("stable", "known", -1, (OLD, OLD, OLD)),
        ("stable", "", 0, (STRANGER,) * 3),
        ("stable", "", 1, (STRANGER,) * 3),
        ("stable", "x", 1, (STRANGER,) * 3),
        ("stable", "known", 1, (OK, OK, OK)),
        ("stable", "known", 0, (OLD, OLD, OLD)),
        ("stable", "instance", 1, (STRANGER,) * 3),
        ("static", "instance", 1, (FENCED,) * 3),
    ],
)
def test_who_may_commit_is_as_in_kafka(
    group: str, member: str, generation: int, expected: tuple[ErrorCode, ...]
) -> None:
    """By the group, the member and the generation.

    ``positions``: the group has them and has had no member. ``instance``: the request is of the
    instance i, which only the static group has, as another member.
    """

    async def test(home: BrokerHome) -> None:
        member_id = ""
        if group == "positions":
            assert await commit(home, 1) is ErrorCode.NONE
        elif group != "unknown":
            member_id, at = await member_of(home, "i" if group == "static" else None)
            assert at == 1
        if group == "empty":
            await home.ask("LeaveGroup", 3, groupId="g", members=[{"memberId": member_id}])
        given = {"known": member_id, "instance": "x"}.get(member, member)
        instance = "i" if member == "instance" else None

        assert await codes_of_a_commit(home, generation, given, instance) == expected

    with_broker(test)
