"""A group of clients while its members are replaced, leave or wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.group_home import (
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    GroupHome,
    code_of,
    run,
    stable,
)

from tidelog.broker.groups.classic_group import GroupState
from tidelog.error_codes import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.groups.group_member import Protocol


@pytest.mark.parametrize(("kind", "protocols"), [("", RANGE), ("consumer", ())])
def test_a_member_of_no_protocol_is_not_taken(kind: str, protocols: tuple[Protocol, ...]) -> None:
    """Not by an empty group either: nobody could join it then."""
    assert not GroupHome().group.supports(kind, protocols)
    assert GroupHome().group.supports("consumer", RANGE)


def test_the_first_of_those_that_have_joined_leads_where_the_leader_is_away() -> None:
    """The leader is static, so its place is kept; it cannot assign."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a", instance="one")
        home.sync("a")
        joins = [home.join("b"), home.join("c"), home.join("d")]
        for _ in range(REBALANCE_MS // 1000):
            home.clock.advance(1000)
            home.group.alive(home.group.members["a"])
        assert {one.result()["leader"] for one in joins} == {"b"}
        assert list(home.group.members) == ["a", "b", "c", "d"]

    run(scenario())


def test_a_restarted_member_that_does_not_lead_has_nothing_to_skip() -> None:
    """Only a leader gets word that it need not assign."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a")
        second = home.join("b", instance="one")
        home.rejoin("a")
        assert second.done()
        home.sync("b")
        home.sync("a", b=b"mine")
        new = home.member("b2", instance="one")
        answer = home.group.replace_static(home.group.members["b"], new, can_skip=True)
        assert isinstance(answer, dict)
        assert (answer["leader"], answer["generationId"]) == ("a", 2)
        assert "skipAssignment" not in answer

    run(scenario())


def test_a_restarted_instance_that_others_overtake_is_answered_with_them() -> None:
    """The generation that it was written down in has ended by then."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        second = home.join("b", instance="one")
        home.rejoin("a")
        home.sync("b")
        home.sync("a")
        assert second.done()
        home.waits = True
        new = home.member("b2", instance="one")
        waits = home.group.replace_static(home.group.members["b"], new, can_skip=True)
        home.join("c")
        await home.end_writes()
        assert not waits.done()  # type: ignore[union-attr]  # a future, as it has to wait
        home.rejoin("a")
        assert waits.result()["generationId"] == 3  # type: ignore[union-attr]  # as above

    run(scenario())


def test_members_that_rebalance_before_they_are_assigned_anything_have_nothing() -> None:
    """What the leader has brought in vain is not shown as theirs."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a")
        home.waits = True
        home.sync("a", a=b"all")
        assert home.group.members["a"].assignment == b"all"
        home.join("b")
        assert home.group.members["a"].assignment == b""

    run(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_an_empty_group_is_logged_only_if_it_could_not_be_written_down(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its members are gone all the same."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        home.fails = fails
        home.group.remove(home.group.members["a"])
        assert home.group.state is GroupState.EMPTY

    run(scenario())
    assert ("group-not-written group=g reason=the disk failed" in caplog.text) is fails
    assert ("group-not-written" in caplog.text) is fails


def test_a_delay_longer_than_a_rebalance_is_not_made_longer_by_those_who_come() -> None:
    """Nobody waits longer than it has said a rebalance may take, or than one delay."""

    async def scenario() -> None:
        home = GroupHome(initial_delay_ms=REBALANCE_MS + 1000)
        first = home.join("a")
        home.clock.advance(REBALANCE_MS + 999)
        home.join("b")
        assert not first.done()
        home.clock.advance(1)
        assert first.done()

        home = GroupHome(initial_delay_ms=20_000)
        first = home.join("a")
        for name, ms in (("b", 10_000), ("c", 15_000)):
            home.clock.advance(ms)
            home.join(name)
        home.clock.advance(REBALANCE_MS - 25_000 - 1)
        assert not first.done()
        home.clock.advance(1)
        assert first.done()

    run(scenario())


def test_the_shortest_delay_is_a_millisecond() -> None:
    """Of two members that come together, neither begins a generation alone."""

    async def scenario() -> None:
        home = GroupHome(initial_delay_ms=1)
        first, second = home.join("a"), home.join("b")
        home.clock.advance(2)
        assert len(first.result()["members"]) == 2
        assert second.result()["generationId"] == 1

    run(scenario())


def test_members_whose_sessions_have_begun_leave_if_they_are_not_heard() -> None:
    """As after a restart, where the group is taken up from the log."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        member = home.group.members["a"]
        member.stop_expiry()
        home.clock.advance(SESSION_MS)
        assert home.group.members
        home.group.begin_sessions()
        home.clock.advance(SESSION_MS)
        assert not home.group.members

    run(scenario())


def test_a_group_that_is_used_no_more_answers_all_and_runs_nothing_later() -> None:
    """Its members look for the coordinator elsewhere."""

    async def scenario() -> None:
        home, expired = GroupHome(), []
        await stable(home, "a", "b")
        home.group.give_out_id("d", SESSION_MS, lambda: expired.append("d"))
        joins = [home.join("c"), home.rejoin("a")]
        home.group.end()
        home.clock.advance(2 * REBALANCE_MS)
        assert {code_of(one) for one in joins} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert expired == []
        assert (home.group.state, len(home.group.members)) == (GroupState.DEAD, 3)

    run(scenario())
