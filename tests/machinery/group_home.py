"""A group of clients without a broker: its members ask by hand, and its time passes by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tidelog.broker.groups.classic_group import ClassicGroup, GroupState
from tidelog.broker.groups.group_member import GroupMember, Protocol
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Coroutine

SESSION_MS, REBALANCE_MS = 10_000, 30_000
RANGE = (Protocol("range", b"about me"),)


class GroupHome:
    """A group, the time, and what was written down of it."""

    def __init__(self, initial_delay_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.written: list[tuple[int, tuple[str, ...]]] = []
        self.fails = False
        self.waits = False
        self.waiting: list[asyncio.Future[None]] = []
        timers = self.clock.scheduler()
        self.group = ClassicGroup("g", timers, initial_delay_ms, self._write)

    def _write(self, group: ClassicGroup) -> asyncio.Future[None] | None:
        if self.waits or self.waiting:
            self.waiting.append(asyncio.get_running_loop().create_future())
            return self.waiting[-1]
        if self.fails:
            raise KafkaStorageError("the disk failed")
        self.written.append((group.generation, tuple(group.members)))
        return None

    async def end_writes(self) -> None:
        """Let the writes that wait end."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if self.fails:
                one.set_exception(KafkaStorageError("the disk failed"))
            else:
                one.set_result(None)
        await asyncio.sleep(0)

    def member(
        self, name: str, protocols: tuple[Protocol, ...] = RANGE, instance: str | None = None
    ) -> GroupMember:
        """Return a member that has not joined."""
        return GroupMember(
            name, instance, "client", "/127.0.0.1", SESSION_MS, REBALANCE_MS, protocols
        )

    def join(self, name: str, **how: Any) -> asyncio.Future[dict[str, Any]]:
        """Let a new member join."""
        return self.group.add(self.member(name, **how), "consumer")

    def rejoin(self, name: str) -> Any:
        """Let a member join again, with what it said before."""
        member = self.group.members[name]
        return self.group.rejoin(member, member.protocols, (SESSION_MS, REBALANCE_MS))

    def sync(self, name: str, **assigned: bytes) -> Any:
        """Let a member sync; the leader brings assignments."""
        return self.group.sync(self.group.members[name], assigned)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run what a test does on an event loop."""
    asyncio.run(scenario)


def code_of(answer: Any) -> ErrorCode:
    """Return the code of an answer that has come."""
    found = answer.result() if isinstance(answer, asyncio.Future) else answer
    return ErrorCode(found.get("errorCode", 0))


async def stable(home: GroupHome, *names: str) -> None:
    """Bring a group of these members into its stable state."""
    joins = [home.join(names[0])]
    for name in names[1:]:
        joins.append(home.join(name))
        for old in home.group.members:
            if home.group.members[old].joining is None:
                home.rejoin(old)
    assert all(one.done() for one in joins)
    for name in names:
        home.sync(name, **{one: one.encode() for one in names})
    assert home.group.state is GroupState.STABLE
