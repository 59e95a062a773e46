"""Groups of clients: members come, go, hang and die; nobody reads what another reads."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.counted_lines import Lines
from tests.machinery.group_home import (
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    GroupHome,
    code_of,
    run,
    stable,
)

from tidelog.broker.client_request import Refusal
from tidelog.broker.groups.classic_group import GroupState
from tidelog.broker.groups.group_member import Protocol
from tidelog.error_codes import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Enumerated

PARTITIONS = 12


def test_a_member_does_not_change_the_type_of_its_group() -> None:
    """Nor one that is in it alone: the others of that type would read with it next."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        other = (Protocol("other", b""),)
        assert not home.group.supports("consumer", other)
        assert not home.group.supports("connect", RANGE)
        home.group.remove(home.group.members["a"])
        assert home.group.supports("connect", RANGE)

    run(scenario())


def test_one_member_leads_a_group_of_its_own() -> None:
    """It gets its own metadata, assigns, and the group is written down before it is stable."""

    async def scenario() -> None:
        home = GroupHome()
        joined = home.join("a").result()
        assert (joined["generationId"], joined["leader"], joined["memberId"]) == (1, "a", "a")
        assert [one["metadata"] for one in joined["members"]] == [b"about me"]
        synced = home.sync("a", a=b"all")
        assert synced.result()["assignment"] == b"all"
        assert home.written == [(1, ("a",))]

    run(scenario())


def test_a_second_member_makes_the_first_join_again() -> None:
    """Both get the next generation, and only the leader the list of members."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        second = home.join("b")
        assert home.group.state is GroupState.PREPARING
        assert not second.done()
        first = home.rejoin("a")
        assert (first.result()["generationId"], second.result()["generationId"]) == (2, 2)
        assert len(first.result()["members"]) == 2
        assert "members" not in second.result()
        waits = home.sync("b")
        assert not waits.done()
        home.sync("a", a=b"1", b=b"2")
        assert waits.result()["assignment"] == b"2"

    run(scenario())


def pass_time(home: GroupHome, ms: int, *alive: str) -> None:
    """Let time pass while some members send heartbeats."""
    for _ in range(ms // 1000):
        home.clock.advance(1000)
        for name in alive:
            if name in home.group.members:
                home.group.alive(home.group.members[name])


def test_who_does_not_join_in_time_is_removed() -> None:
    """Though it sends heartbeats; the others continue without it."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        joined = home.join("b")
        pass_time(home, REBALANCE_MS - 1000, "a")
        assert not joined.done()
        pass_time(home, 1000, "a")
        assert joined.result()["leader"] == "b"
        assert list(home.group.members) == ["b"]

    run(scenario())


def test_a_session_that_ends_removes_a_member() -> None:
    """One that sends heartbeats stays."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a", "b")
        for _ in range(3):
            home.clock.advance(SESSION_MS // 2)
            home.group.alive(home.group.members["a"])
        assert list(home.group.members) == ["a"]
        assert home.group.state is GroupState.PREPARING

    run(scenario())


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    """It is written down, and takes new members."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        home.group.remove(home.group.members["a"])
        assert home.group.state is GroupState.EMPTY
        assert home.written[-1] == (2, ())
        assert home.join("b").result()["generationId"] == 3

    run(scenario())


def test_a_new_group_waits_for_more_members() -> None:
    """As long as it is set to."""

    async def scenario() -> None:
        home = GroupHome(initial_delay_ms=3000)
        first = home.join("a")
        home.clock.advance(2999)
        assert not first.done()
        home.clock.advance(1)
        assert first.result()["generationId"] == 1

    run(scenario())


def test_a_new_group_waits_again_while_members_come() -> None:
    """At most for a rebalance: each generation that they are not in yet is one in vain."""

    async def scenario() -> None:
        home = GroupHome(initial_delay_ms=3000)
        first = home.join("a")
        home.clock.advance(2999)
        second = home.join("b")
        home.clock.advance(3000)
        assert not first.done()
        home.clock.advance(1)
        assert first.result()["generationId"] == second.result()["generationId"] == 1

        home = GroupHome(initial_delay_ms=3000)
        first = home.join("a")
        for number in range(20):
            home.clock.advance(2000)
            home.join(f"b{number}")
        assert first.result()["generationId"] == 1
        assert len(first.result()["members"]) * 2000 - REBALANCE_MS in range(3001)

    run(scenario())


def test_an_id_that_was_given_out_is_waited_for() -> None:
    """A rebalance ends when it joins, or when its time is over."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        home.group.give_out_id("b", SESSION_MS)
        again = home.rejoin("a")
        assert not again.done()
        home.clock.advance(SESSION_MS)
        assert again.result()["generationId"] == 2
        assert not home.group.take_id("b")

    run(scenario())


def test_a_new_group_does_not_wait_for_an_id() -> None:
    """A client that ends before it joins would keep the first member waiting for its session."""

    async def scenario() -> None:
        home = GroupHome()
        home.group.give_out_id("b", SESSION_MS)
        assert home.join("a").result()["generationId"] == 1

    run(scenario())


def test_nobody_is_left_to_wait_for_an_id() -> None:
    """The group is empty once its last member has left, though another may join."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        home.group.give_out_id("b", SESSION_MS)
        home.group.remove(home.group.members["a"])
        assert home.group.state is GroupState.EMPTY

    run(scenario())


def test_an_id_that_is_given_up_is_not_waited_for() -> None:
    """Its client has left before it has joined: the others need not wait for their timeout."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        home.group.give_out_id("b", SESSION_MS)
        joining = home.rejoin("a")
        assert not joining.done()
        assert home.group.give_up_id("b")
        assert joining.done()
        assert not home.group.give_up_id("b")

    run(scenario())


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    """Else no protocol would be common to all, and nobody could join any more."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        joining = home.join("b", protocols=RANGE * 2)
        assert home.group.supports("consumer", RANGE)
        home.rejoin("a")
        assert joining.result()["protocolName"] == "range"

    run(scenario())


def test_a_static_member_that_could_not_be_replaced_still_expires() -> None:
    """Else nobody would read what it was assigned, if it does not come back."""

    async def scenario() -> None:
        home = GroupHome()
        joining = home.join("a", instance="i")
        home.sync("a", a=b"all")
        assert joining.done()
        home.fails = True
        new = home.member("b", instance="i")
        refused = home.group.replace_static(home.group.members["a"], new, can_skip=True)
        assert isinstance(refused, dict)
        assert refused["errorCode"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        home.clock.advance(SESSION_MS)
        assert not home.group.members

    run(scenario())


def test_who_does_not_sync_in_time_is_removed() -> None:
    """A leader that dies while it assigns does not hold the others up for ever."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a", "b")
        home.rejoin("a")
        joined = home.rejoin("b")
        assert joined.result()["leader"] == "a"
        waits = home.sync("b")
        pass_time(home, REBALANCE_MS, "a")
        assert code_of(waits) is ErrorCode.REBALANCE_IN_PROGRESS
        assert home.rejoin("b").result()["leader"] == "b"

    run(scenario())


def test_who_has_not_synced_is_removed_from_a_stable_group() -> None:
    """Nobody would read what it was assigned, though it sends heartbeats; who has synced stays."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a", "b")
        home.rejoin("a")
        home.rejoin("b")
        home.sync("a")
        assert home.group.state is GroupState.STABLE
        pass_time(home, REBALANCE_MS - 1000, "a", "b")
        assert list(home.group.members) == ["a", "b"]
        pass_time(home, 1000, "a", "b")
        assert list(home.group.members) == ["a"]
        assert home.rejoin("a").result()["leader"] == "a"
        home.sync("a")
        pass_time(home, 2 * REBALANCE_MS, "a")
        assert home.group.state is GroupState.STABLE

    run(scenario())


def test_an_instance_that_restarts_before_it_has_synced_is_waited_for() -> None:
    """It gets the place of the one before, and the time that is left."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a", instance="one")
        home.join("b", instance="two")
        joined = home.rejoin("a")
        assert joined.result()["leader"] == "a"
        home.sync("a")
        old, new = home.group.members["b"], home.member("c", instance="two")
        home.group.replace_static(old, new, can_skip=True)
        assert list(home.group.members) == ["a", "c"]
        pass_time(home, REBALANCE_MS, "a", "c")
        assert list(home.group.members) == ["a"]

    run(scenario())


def test_members_that_leave_together_cost_one_rebalance() -> None:
    """Those who wait for them do not get a generation with the second of them."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a", "b", "c")
        home.rejoin("a")
        joined = home.rejoin("b")
        home.group.remove(home.group.members["c"], home.group.members["a"])
        assert joined.result()["generationId"] == home.group.generation
        assert joined.result()["leader"] == "b"
        assert list(home.group.members) == ["b"]

    run(scenario())


def test_who_has_died_is_not_kept_alive_by_others() -> None:
    """A leader that dies before it assigns is gone a session later, though others join again."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a", "b")
        home.rejoin("a")  # the leader that joins again begins a rebalance
        home.rejoin("b")
        assert home.group.state is GroupState.COMPLETING
        given_up = home.sync("b")
        pass_time(home, 3000)
        other = (Protocol("range", b"other"),)
        joined = home.group.rejoin(home.group.members["b"], other, (SESSION_MS, REBALANCE_MS))
        assert isinstance(joined, asyncio.Future)
        assert code_of(given_up) is ErrorCode.REBALANCE_IN_PROGRESS
        pass_time(home, SESSION_MS - 4000)
        assert "a" in home.group.members
        pass_time(home, 1000)
        assert list(home.group.members) == ["b"]
        assert isinstance(joined, asyncio.Future)
        assert joined.result()["leader"] == "b"

    run(scenario())


def test_a_group_that_cannot_be_written_down_is_not_stable() -> None:
    """Its members are refused, and join again."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a")
        home.fails = True
        assert code_of(home.sync("a", a=b"1")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert home.group.state is GroupState.PREPARING
        home.fails = False
        assert home.rejoin("a").result()["generationId"] == 2

    run(scenario())


def test_members_get_their_assignment_once_it_is_written_down() -> None:
    """All that wait, in the generation that was written."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a")
        home.waits = True
        waits = home.sync("a", a=b"1")
        assert (home.group.state, waits.done()) == (GroupState.COMPLETING, False)
        await home.end_writes()
        assert waits.result()["assignment"] == b"1"
        assert home.group.state is GroupState.STABLE

    run(scenario())


def test_an_assignment_that_others_overtake_while_it_is_written_is_not_handed_out() -> None:
    """Its members join again, with the others."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a")
        home.waits = True
        waits = home.sync("a", a=b"1")
        other = home.join("b")
        assert code_of(waits) is ErrorCode.REBALANCE_IN_PROGRESS
        await home.end_writes()
        assert home.group.state is GroupState.PREPARING
        home.rejoin("a")
        assert other.result()["generationId"] == 2

    run(scenario())


def test_an_assignment_whose_write_fails_later_is_not_handed_out() -> None:
    """As one whose write fails at once."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a")
        home.waits = True
        waits = home.sync("a", a=b"1")
        home.fails = True
        await home.end_writes()
        assert code_of(waits) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert home.group.state is GroupState.PREPARING

    run(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_a_restarted_instance_waits_until_it_is_written_down(fails: bool) -> None:
    """If that fails, the one before it keeps the place until it expires."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a", instance="i")
        home.sync("a", a=b"all")
        home.waits, home.fails = True, fails
        new = home.member("b", instance="i")
        waits = home.group.replace_static(home.group.members["a"], new, can_skip=True)
        assert isinstance(waits, asyncio.Future)
        assert not waits.done()
        await home.end_writes()
        assert code_of(waits) is (ErrorCode.COORDINATOR_NOT_AVAILABLE if fails else ErrorCode.NONE)
        assert list(home.group.members) == ["a" if fails else "b"]
        assert home.group.leader == ("a" if fails else "b")
        home.waits, home.fails = False, False
        home.clock.advance(SESSION_MS)
        assert not home.group.members

    run(scenario())


def test_what_all_members_support_follows_each_change() -> None:
    """It is remembered while members join; each change after that counts."""
    one, two = Protocol("one", b""), Protocol("two", b"")
    home = GroupHome()

    async def scenario() -> None:
        def supported() -> str:
            return "".join(
                each.name[0] for each in (one, two) if group.supports("consumer", (each,))
            )

        group, found = home.group, []
        home.join("a", protocols=(one, two))
        found.append(supported())
        home.join("b", protocols=(two,))
        found.append(supported())
        group.rejoin(group.members["b"], (two, one), (SESSION_MS, REBALANCE_MS))
        found.append(supported())
        home.join("c", protocols=(one,))
        found.append(supported())
        group.remove(group.members["c"])
        found.append(supported())
        new = home.member("d", (one,))
        group.replace_static(group.members["a"], new, can_skip=False)
        found.append(supported())
        assert found == ["ot", "t", "ot", "o", "ot", "o"]

    run(scenario())


@pytest.mark.usefixtures("engine")
def test_a_join_asks_no_other_member_what_it_supports() -> None:
    """A group of thousands forms in seconds."""

    def cost(members: int) -> int:
        home, lines = GroupHome(initial_delay_ms=3_000), Lines()

        async def scenario() -> None:
            for number in range(members):
                assert home.group.supports("consumer", RANGE)
                home.join(f"m{number}")
            with lines.counted():
                assert home.group.supports("consumer", RANGE)
                home.join("another")

        run(scenario())
        return lines.count

    assert cost(60) == cost(20)


def test_members_agree_on_a_protocol() -> None:
    """The one that most prefer, of those that all support; a stranger to all is refused."""

    async def scenario() -> None:
        home = GroupHome()
        both = (Protocol("sticky", b""), Protocol("range", b""))
        home.join("a", protocols=both)
        second = home.join("b", protocols=(Protocol("range", b""),))
        home.rejoin("a")
        assert second.result()["protocolName"] == "range"
        assert not home.group.supports("consumer", (Protocol("other", b""),))
        assert not home.group.supports("connect", both)

    run(scenario())


def test_a_static_member_takes_its_place_again_without_a_rebalance() -> None:
    """The id before is fenced, and the assignment stays."""

    async def scenario() -> None:
        home = GroupHome()
        home.join("a", instance="one")
        home.sync("a", a=b"mine")
        new = home.member("a2", instance="one")
        answer = home.group.replace_static(home.group.members["a"], new, can_skip=True)
        assert isinstance(answer, dict)
        assert (answer["generationId"], answer["skipAssignment"]) == (1, True)
        assert home.sync("a2")["assignment"] == b"mine"
        with pytest.raises(Refusal) as refused:
            home.group.checked_member("a", "one")
        assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID

    run(scenario())


def test_static_members_that_are_all_away_keep_their_generation() -> None:
    """They are waited for, and their positions count, until they expire.

    Source: Kafka GroupMetadataManager.completeClassicGroupJoin.
    """

    async def scenario() -> None:
        home = GroupHome()
        home.join("a", instance="one")
        home.sync("a", a=b"mine")
        other = home.join("b")
        home.group.remove(home.group.members["b"])
        assert code_of(other) is ErrorCode.UNKNOWN_MEMBER_ID
        pass_time(home, REBALANCE_MS + 1000, "a")
        assert home.group.state is GroupState.PREPARING
        assert home.group.checked_member("a", "one", 1).assignment == b"mine"
        assert home.rejoin("a").result()["generationId"] == 2

    run(scenario())


@pytest.mark.parametrize(
    ("name", "generation", "code"),
    [
        ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 2, ErrorCode.ILLEGAL_GENERATION),
        ("a", 0, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_request_of_another_is_refused(name: str, generation: int, code: ErrorCode) -> None:
    """A member that is not one, or that has missed a rebalance."""

    async def scenario() -> None:
        home = GroupHome()
        await stable(home, "a")
        with pytest.raises(Refusal) as refused:
            home.group.checked_member(name, None, generation)
        assert refused.value.code is code

    run(scenario())


class Simulated:
    """A member as a client of Kafka's behaves, which may hang and die at any step."""

    def __init__(self, home: GroupHome, name: str) -> None:
        self.home = home
        self.name = name
        self.waits: Any = None
        self.does = "join"
        self.generation = -1
        self.assigned: frozenset[int] = frozenset()

    def step(self) -> None:
        """Do the next thing that it can do."""
        if isinstance(self.waits, asyncio.Future) and not self.waits.done():
            return
        answer, self.waits = self.waits, None
        if isinstance(answer, asyncio.Future):
            answer = answer.result()
        try:
            self._go_on(answer)
        except Refusal as error:
            self._refused(error.code)

    def _go_on(self, answer: dict[str, Any] | None) -> None:
        group = self.home.group
        code = ErrorCode.NONE if answer is None else ErrorCode(answer.get("errorCode", 0))
        if code is not ErrorCode.NONE:
            self._refused(code)
        elif answer is not None and self.does == "join":
            self.generation = answer["generationId"]
            self.does = "sync"
            names = sorted(one["memberId"] for one in answer.get("members", ()))
            shares = {
                name: bytes(range(at, PARTITIONS, len(names))) for at, name in enumerate(names)
            }
            member = group.checked_member(self.name, None, self.generation)
            self.waits = group.sync(member, shares)
        elif answer is not None and self.does == "sync":
            self.does = "read"
            self.assigned = frozenset(answer["assignment"])
        elif self.does == "read":
            member = group.checked_member(self.name, None, self.generation)
            group.alive(member)
            if group.state is GroupState.PREPARING:
                self._refused(ErrorCode.REBALANCE_IN_PROGRESS)
        elif self.does == "join":
            self.assigned = frozenset()
            if self.name in group.members:
                self.waits = self.home.rejoin(self.name)
            else:
                self.waits = self.home.join(self.name)

    def _refused(self, code: ErrorCode) -> None:
        assert code in {
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }
        self.does, self.assigned, self.generation = "join", frozenset(), -1


class Crowd:
    """Members that come and go at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.home = GroupHome(initial_delay_ms=self.rng.choice((0, 3000)))
        self.alive: list[Simulated] = []
        self.dead: list[Simulated] = []

    def act(self, number: int) -> None:
        """Let one thing happen."""
        rng, home = self.rng, self.home
        home.fails = rng.random() < 0.05
        home.waits = rng.random() < 0.3
        act = rng.random()
        if act < 0.04 and len(self.alive) < 5:
            self.alive.append(Simulated(home, f"m{number}"))
        elif act < 0.06 and self.alive:  # it dies, and its session ends some time
            self.dead.append(self._taken())
        elif act < 0.08 and self.alive:
            gone = self._taken()
            if gone.name in home.group.members:
                home.group.remove(home.group.members[gone.name])
        elif act < 0.3:
            home.clock.advance(rng.randrange(1, 4000))
        elif self.alive:
            rng.choice(self.alive).step()

    def _taken(self) -> Simulated:
        return self.alive.pop(self.rng.randrange(len(self.alive)))

    def settle(self) -> None:
        """Let all behave until nothing changes."""
        self.home.fails = self.home.waits = False
        self.alive = self.alive or [Simulated(self.home, "last")]
        for _ in range(60):
            self.home.clock.advance(2000)
            for one in self.alive:
                one.step()


@pytest.mark.parametrize("seed", range(40))
def test_no_partition_has_two_readers_of_one_generation(seed: int, enumerated: Enumerated) -> None:
    """Members join, hang, die, leave and come back, while time passes and writes fail.

    At the end, when all behave, all partitions are read, each by one.
    """

    async def scenario() -> None:
        crowd, seen = Crowd(seed), 0
        for number in range(400):
            crowd.act(number)
            if crowd.rng.random() < 0.5:
                await crowd.home.end_writes()
            seen += check(crowd.home, [*crowd.alive, *crowd.dead])
        await crowd.home.end_writes()
        crowd.settle()
        group = crowd.home.group
        assert group.state is GroupState.STABLE
        assert set(group.members) == {one.name for one in crowd.alive}
        shares = [one.assigned for one in crowd.alive]
        assert sorted(n for share in shares for n in share) == list(range(PARTITIONS))
        enumerated("states with readers", seen, at_least=20)

    run(scenario())


def check(home: GroupHome, everybody: list[Simulated]) -> int:
    """Check the readers of each generation; return whether there are any."""
    readers: dict[int, list[int]] = {}
    for one in everybody:
        readers.setdefault(one.generation, []).extend(one.assigned)
    assert all(len(found) == len(set(found)) for found in readers.values())
    group = home.group
    assert group.leader is None or group.leader in group.members
    assert all(one.expiry is not None or one.is_waiting for one in group.members.values())
    return int(any(readers.values()))
