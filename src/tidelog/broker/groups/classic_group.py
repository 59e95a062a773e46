"""One group of clients: members, generations, and who waits for whom.

All on the event loop, without files. A rebalance has two halves: all members join, then the leader
syncs what it has assigned. Kafka: ``ClassicGroup`` and ``GroupMetadataManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.broker.client_request import TOO_LARGE, Refusal
from tidelog.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidelog.broker.groups.group_member import GroupMember
    from tidelog.broker.groups.group_member import Protocol as Assignor
    from tidelog.env.scheduler import Handle

_log = logging.getLogger(__name__)


class Timers(Protocol):
    """Runs tasks later, on the event loop."""

    def schedule(self, name: str, task: Callable[[], object], *, delay_ms: int = 0) -> Handle:
        """Run ``task`` once after ``delay_ms``."""


class GroupState(StrEnum):
    """What a group does; the values are those that tools show. Source: Kafka ClassicGroupState."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """Members join; those that do not in time are removed."""
    COMPLETING = "CompletingRebalance"
    """The leader assigns."""
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """A group. Each method that takes a member's request returns its answer, or a future of it.

    Args:
        group_id: its name.
        timers: the loop's.
        initial_delay_ms: how long an empty group waits for more members than the first.
        on_stable: called before the members get their assignments, and once the last member is
            gone: it writes the group down as it is. Raises KafkaError if that fails; where it has
            to wait for that, it returns a future. The order of calls is that of the records.
    """

    def __init__(
        self,
        group_id: str,
        timers: Timers,
        initial_delay_ms: int,
        on_stable: Callable[[ClassicGroup], asyncio.Future[Any] | None],
    ) -> None:
        self.group_id: Final = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, GroupMember] = {}
        self.pending: dict[str, Handle] = {}
        """Ids that were given out and not used yet."""
        self._common: set[str] | None = None
        """The names of the protocols that all members support; None: to be found again."""
        self._timers = timers
        self._initial_delay_ms = initial_delay_ms
        self._on_stable = on_stable
        self._deadline: Handle | None = None
        """When those are removed who are waited for: until all have joined, then until all have
        synced."""
        self._unsynced: set[GroupMember] = set()
        """Who has not asked yet what it was assigned in this generation."""
        self._is_delayed = self._has_grown = False
        """Whether it waits for more members than the first, and whether some have come."""
        self._assigned_in: int | None = None
        """The generation whose assignment is being written down."""

    # Members

    def static_member(self, instance_id: str | None) -> GroupMember | None:
        """Return the member of an instance; None if there is none."""
        if instance_id is None:
            return None
        found = (one for one in self.members.values() if one.instance_id == instance_id)
        return next(found, None)

    def checked_member(
        self, member_id: str, instance_id: str | None, generation: int | None = None
    ) -> GroupMember:
        """Return a member; refuse one that is unknown, fenced, or of another generation."""
        if instance_id is not None:
            found = self.static_member(instance_id)
            if found is None:
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
            if found.member_id != member_id:
                raise Refusal(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None or self.state is GroupState.DEAD:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation is not None and generation != self.generation:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION)
        return member

    def supports(self, protocol_type: str, protocols: Sequence[Assignor]) -> bool:
        """Whether a member of these protocols can join those that are there."""
        if not protocols or not protocol_type:
            return False
        if not self.members:
            return True
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(one.name in common for one in protocols)

    def _common_protocols(self) -> set[str]:
        if self._common is None:
            names = (member.protocol_names for member in self.members.values())
            self._common = set.intersection(*names)
        return self._common

    def give_out_id(
        self, member_id: str, timeout_ms: int, on_expired: Callable[[], None] = lambda: None
    ) -> None:
        """Expect that a member joins with the id that it is given; a rebalance waits for it."""

        def expire() -> None:
            if self.give_up_id(member_id):
                on_expired()

        self.pending[member_id] = self._timers.schedule("id-expiry", expire, delay_ms=timeout_ms)

    def take_id(self, member_id: str) -> bool:
        """Return whether an id was given out and not used yet; it is used now."""
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def give_up_id(self, member_id: str) -> bool:
        """Expect no more that a member joins with an id; return whether it was expected."""
        is_given_up = self.take_id(member_id)
        if is_given_up:
            self._complete_join_if_all()
        return is_given_up

    # Joining

    def add(self, member: GroupMember, protocol_type: str) -> asyncio.Future[dict[str, Any]]:
        """Add a member that joins, and begin a rebalance."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if self._common is not None:  # not of all again: many may join one after the other
            self._common = self._common & member.protocol_names
        self._has_grown = True
        if self.leader is None:
            self.leader = member.member_id
        return self._join(member)

    def rejoin(
        self, member: GroupMember, protocols: tuple[Assignor, ...], timeouts_ms: tuple[int, int]
    ) -> dict[str, Any] | asyncio.Future[dict[str, Any]]:
        """Answer a member that joins again."""
        is_same = member.protocols == protocols
        is_leader = member.member_id == self.leader
        if self.state is GroupState.COMPLETING and is_same:
            return self._join_answer(member)  # it has not got the answer to its last join
        if self.state is GroupState.STABLE and is_same and not is_leader:
            self.alive(member)
            return self._join_answer(member)
        if self.state in {GroupState.EMPTY, GroupState.DEAD}:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        if [one.name for one in member.protocols] != [one.name for one in protocols]:
            self._common = None
        member.protocols = protocols
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts_ms
        return self._join(member)

    def replace_static(
        self, old: GroupMember, new: GroupMember, *, can_skip: bool
    ) -> dict[str, Any] | asyncio.Future[dict[str, Any]]:
        """Put a restarted instance in its old place; a stable group need not rebalance for it.

        ``can_skip``: the new one understands that it leads without having to assign.
        Source: Kafka GroupMetadataManager.classicGroupJoinExistingMember, KIP-345 and KIP-814.
        """
        protocol = self.protocol
        fenced = {"errorCode": int(ErrorCode.FENCED_INSTANCE_ID)}
        old.answer_join(fenced)
        old.answer_sync(fenced)
        old.stop_expiry()
        self._put_in_place_of(old, new)
        was_leader = self.leader == old.member_id
        if was_leader:
            self.leader = new.member_id
        new.assignment = old.assignment
        if self.state is not GroupState.STABLE or self._elected() != protocol:
            return self._join(new)
        # It waits as one that joins: if others rebalance meanwhile, it is answered with them.
        waiting = new.joining = asyncio.get_running_loop().create_future()
        replaced = partial(
            self._replaced, old, new, waiting, was_leader=was_leader, can_skip=can_skip
        )
        self._write_down(replaced)
        return waiting.result() if waiting.done() else waiting

    def _replaced(
        self,
        old: GroupMember,
        new: GroupMember,
        waiting: asyncio.Future[dict[str, Any]],
        error: BaseException | None,
        *,
        was_leader: bool,
        can_skip: bool,
    ) -> None:
        """Answer a restarted instance, once its group is written down or that has failed."""
        if new.joining is not waiting or self.state is not GroupState.STABLE:
            return  # it was removed or replaced, or a rebalance answers it
        if error is not None:
            self._put_in_place_of(new, old)
            self.leader = old.member_id if was_leader else self.leader
            self.alive(old)
            new.answer_join(self._not_written(error))
            return
        self.alive(new)
        answer = self._join_answer(new)
        if was_leader and can_skip:
            answer |= {"skipAssignment": True}
        elif was_leader:  # one that took itself for the leader would assign, and sync in vain
            answer |= {"leader": old.member_id, "members": []}
        new.answer_join(answer)

    def _write_down(self, then: Callable[[BaseException | None], None]) -> None:
        """Write the group down, and call ``then`` with the error or None; at once if possible."""
        try:
            waiting = self._on_stable(self)
        except Exception as error:  # noqa: BLE001 - ``then`` gets it
            then(error)
            return
        if waiting is None:
            then(None)
            return

        def ended(done: asyncio.Future[Any]) -> None:
            if not done.cancelled():  # else the event loop ends
                then(done.exception())

        waiting.add_done_callback(ended)

    def _not_written(self, error: BaseException) -> dict[str, Any]:
        """Log why the group could not be written down; return what members are answered.

        Source: Kafka GroupMetadataManager.appendGroupMetadataErrorToResponseError.
        """
        _log.error("group-not-written group=%s reason=%s", self.group_id, error)
        gives_up = isinstance(error, TOO_LARGE)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if gives_up else ErrorCode.COORDINATOR_NOT_AVAILABLE
        return {"errorCode": int(code)}

    def _put_in_place_of(self, old: GroupMember, new: GroupMember) -> None:
        """Replace a member; the order stays, in which members are assigned to."""
        members = [new if one is old else one for one in self.members.values()]
        self.members = {one.member_id: one for one in members}
        self._common = None
        if old in self._unsynced:
            self._unsynced.remove(old)
            self._unsynced.add(new)

    def _join(self, member: GroupMember) -> asyncio.Future[dict[str, Any]]:
        member.answer_join({"errorCode": int(ErrorCode.REBALANCE_IN_PROGRESS)})
        waiting = member.joining = asyncio.get_running_loop().create_future()
        member.stop_expiry()
        if self.state is GroupState.PREPARING:
            self._complete_join_if_all()
        else:
            self._prepare()
        return waiting

    def _prepare(self) -> None:
        """Begin a rebalance: all members have to join again."""
        was_empty = self.state is GroupState.EMPTY
        self._assigned_in = None
        if self.state is GroupState.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
            self._answer_syncs({"errorCode": int(ErrorCode.REBALANCE_IN_PROGRESS)})
        self.state = GroupState.PREPARING
        if was_empty:  # it waits for its time, and not for ids that were given out
            if self._initial_delay_ms > 0:
                left_ms = self._longest_rebalance() - self._initial_delay_ms
                self._delay(self._initial_delay_ms, max(left_ms, 0))
            else:
                self._complete_join()
            return
        self._set_deadline(self._longest_rebalance(), self._complete_join)
        self._complete_join_if_all()

    def _delay(self, delay_ms: int, left_ms: int) -> None:
        """Wait for more members, and once more as long as some come and there is time left.

        Source: Kafka GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule.
        """
        self._is_delayed, self._has_grown = True, False
        self._set_deadline(delay_ms, partial(self._end_delay, delay_ms, left_ms))

    def _end_delay(self, delay_ms: int, left_ms: int) -> None:
        if self._has_grown and left_ms:
            self._delay(min(self._initial_delay_ms, left_ms), max(left_ms - delay_ms, 0))
            return
        self._is_delayed = False
        self._complete_join()

    def _complete_join_if_all(self) -> None:
        if self.state is not GroupState.PREPARING or self._is_delayed:
            return
        if self.pending and self.members:
            return
        if all(one.joining is not None for one in self.members.values()):
            self._complete_join()

    def _complete_join(self) -> None:
        """Begin a generation of those who have joined; a static member keeps its place."""
        self._clear_deadline()
        for member in [one for one in self.members.values() if one.joining is None]:
            if member.instance_id is None:
                self._forget(member)
        if not self.members:
            self._become_empty()
            return
        joined = [one.member_id for one in self.members.values() if one.joining is not None]
        if self.leader not in joined:
            if not joined:
                # Only static members, all away: they are waited for again, until they expire.
                self._set_deadline(self._longest_rebalance(), self._complete_join)
                return
            self.leader = joined[0]
        self.generation += 1
        self.protocol = self._elected()
        self.state = GroupState.COMPLETING
        self._unsynced = set(self.members.values())
        self._set_deadline(self._longest_rebalance(), self._expire_unsynced)
        for member in tuple(self.members.values()):
            member.answer_join(self._join_answer(member))
            self.alive(member)

    def _longest_rebalance(self) -> int:
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    def _elected(self) -> str:
        """Return the protocol that most members prefer, of those that all support."""
        candidates = self._common_protocols()
        votes = Counter(one.vote(candidates) for one in self.members.values())
        return votes.most_common(1)[0][0]

    def _join_answer(self, member: GroupMember) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "generationId": self.generation,
            "protocolType": self.protocol_type,
            "protocolName": self.protocol,
            "leader": self.leader or "",
            "memberId": member.member_id,
        }
        if member.member_id == self.leader:
            answer["members"] = [
                {
                    "memberId": one.member_id,
                    "groupInstanceId": one.instance_id,
                    "metadata": one.metadata_for(self.protocol),
                }
                for one in self.members.values()
            ]
        return answer

    # Syncing

    def sync(
        self, member: GroupMember, assignments: Mapping[str, bytes]
    ) -> dict[str, Any] | asyncio.Future[dict[str, Any]]:
        """Answer a member that asks what it was assigned; the leader brings that for all."""
        if self.state is GroupState.PREPARING:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        if self.state not in {GroupState.COMPLETING, GroupState.STABLE}:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        self._unsynced.discard(member)
        if not self._unsynced:
            self._clear_deadline()
        if self.state is GroupState.STABLE:
            self.alive(member)
            return self._sync_answer(member)
        member.answer_sync({"errorCode": int(ErrorCode.REBALANCE_IN_PROGRESS)})
        waiting = member.syncing = asyncio.get_running_loop().create_future()
        member.stop_expiry()
        # A leader that asks again while its assignment is written down has only to wait.
        if member.member_id == self.leader and self._assigned_in is None:
            self._assign(assignments)
        return waiting

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._assigned_in = self.generation
        self._write_down(partial(self._assigned, self.generation))

    def _assigned(self, generation: int, error: BaseException | None) -> None:
        """Hand out an assignment that is written down, unless others rebalance since."""
        if self._assigned_in != generation:
            return
        self._assigned_in = None
        if error is not None:  # each member hears of it
            self._answer_syncs(self._not_written(error))
            self._prepare()
            return
        self.state = GroupState.STABLE
        self._answer_syncs()

    def _answer_syncs(self, refusal: dict[str, Any] | None = None) -> None:
        """Answer all members that wait for their assignment: with that, or a refusal.

        The sessions of others continue as they are: one that has died would stay for longer with
        each rebalance that others begin.
        """
        for member in self.members.values():
            if member.answer_sync(refusal or self._sync_answer(member)):
                self.alive(member)

    def _sync_answer(self, member: GroupMember) -> dict[str, Any]:
        return {
            "protocolType": self.protocol_type,
            "protocolName": self.protocol,
            "assignment": member.assignment,
        }

    def _expire_unsynced(self) -> None:
        """Remove the members that have not synced in time.

        The others wait for the leader, or nobody reads what one of them was assigned.
        Source: Kafka GroupMetadataManager.expirePendingSync.
        """
        for member in tuple(self._unsynced):
            self._forget(member)
        self._prepare()

    # Staying and leaving

    def begin_sessions(self) -> None:
        """Begin the sessions of all members."""
        for member in self.members.values():
            self.alive(member)

    def alive(self, member: GroupMember) -> None:
        """Begin the session of a member again."""
        member.stop_expiry()
        member.expiry = self._timers.schedule(
            "session", lambda: self._expire(member), delay_ms=member.session_timeout_ms
        )

    def _expire(self, member: GroupMember) -> None:
        if member.is_waiting or self.members.get(member.member_id) is not member:
            return
        _log.info("member-expired group=%s member=%s", self.group_id, member.member_id)
        self.remove(member)

    def remove(self, *members: GroupMember) -> None:
        """Remove members; the others rebalance, once for all: each is left out of that already."""
        unknown = {"errorCode": int(ErrorCode.UNKNOWN_MEMBER_ID)}
        for member in members:
            member.answer_join(unknown)
            member.answer_sync(unknown)
            self._forget(member)
        if self.state in {GroupState.STABLE, GroupState.COMPLETING}:
            self._prepare()
        elif self.state is GroupState.PREPARING:
            self._complete_join_if_all()

    def _forget(self, member: GroupMember) -> None:
        member.stop_expiry()
        self._unsynced.discard(member)
        self.members.pop(member.member_id, None)
        self._common = None
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _become_empty(self) -> None:
        self.generation += 1
        self.state, self.protocol, self.leader = GroupState.EMPTY, None, None
        self._write_down(self._emptied)

    def _emptied(self, error: BaseException | None) -> None:
        if error is not None:  # the members are gone all the same
            self._not_written(error)

    def end(self, code: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        """Answer all who wait with an error, and stop all timers: the group is used no more."""
        self.state, self._assigned_in = GroupState.DEAD, None
        self._clear_deadline()
        for timer in self.pending.values():
            timer.cancel()
        self.pending.clear()
        for member in self.members.values():
            member.stop_expiry()
            member.answer_join({"errorCode": int(code)})
            member.answer_sync({"errorCode": int(code)})

    def _set_deadline(self, timeout_ms: int, task: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline = self._timers.schedule("rebalance", task, delay_ms=timeout_ms)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
