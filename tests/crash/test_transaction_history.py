"""Exactly once, whatever fails: programs that process records within transactions of a broker.

Each takes records from one partition, writes them to another topic, and commits its position with
them. Two of them share each transactional id, as after a network partition, so that one fences the
other. Programs die, transactions run out of time, disks are full or fail, logs roll and are
compacted, and the broker is stopped, killed, or loses power, with its logs on two disks.

In the end each record was written once, and no transaction is left open.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.machinery.broker_home import BrokerHome, run
from tests.machinery.scale import scaled

from tidelog.error_codes import ErrorCode
from tidelog.errors import TidelogError
from tidelog.readonly.group_positions import OFFSETS_TOPIC
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.records.builder import build_batch
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Enumerated

PARTITIONS: Final = 2
OUTPUTS: Final = 3
RECORDS: Final = 40
STEPS: Final = 60
PATIENCE: Final = 200
"""How often a request is repeated, and how many seconds the end may take."""
SMALL: Final = {
    "internal.segment.bytes": "700",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "2000",
}
TICK_MS: Final = 100
AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Fenced(Exception):
    """The program has to begin again."""


class World:
    """A broker on two disks, and the time; ``met`` counts the codes that clients have met."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.clock = ManualClock()
        self.files = CrashFileSystem(seed, clock=self.clock)
        self.timers = self.clock.scheduler()
        self.met: Counter[str] = Counter()
        self.policy = self.rng.choice(["group", "each"])
        self.home: BrokerHome | None = None

    async def open(self) -> None:
        """Start the broker."""
        timers, policy = self.clock.scheduler(), self.policy
        home = BrokerHome(
            *(self.files, self.clock), more=["/b"], timers=timers, tidelog_flush_policy=policy
        )
        await home.__aenter__()
        self.home = home

    async def restart(self, how: str) -> None:
        """End the broker or its machine, and start it again."""
        home, self.home = self.home, None
        assert home is not None
        self.files.set_free_bytes(None)
        home.is_left = how != "stop" or self.files.has_lost_bytes
        if how in {"none", "some"}:
            self.files.power_cut("none" if how == "none" else None)
        elif home.is_left:
            self.files.kill()
        await home.__aexit__()
        self.files.mend()
        await self.open()

    async def sleep(self, ms: int) -> None:
        """Let a client wait."""
        over = asyncio.Event()
        self.timers.schedule("client", over.set, delay_ms=ms)
        await over.wait()

    async def pass_time(self, ms: int) -> None:
        """Let time pass, with all that is due."""
        for _ in range(max(ms // TICK_MS, 1)):
            self.attempt(lambda: self.clock.advance(TICK_MS))
            for _ in range(10):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0003)  # for threads

    def attempt(self, act: Callable[[], object]) -> None:
        """Do something that the disk may refuse."""
        try:
            act()
        except TidelogError as error:
            self.met[type(error).__name__] += 1


class Program:
    """One of those that process a partition; ``run`` does so until it is cancelled."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._ids: dict[str, Any] = {"transactionalId": f"x{number}"}
        self._group = f"g{number}"
        self._sequences: Counter[int] = Counter()
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Let it begin, or begin again after it has died."""
        if self.task is not None:
            self.task.cancel()
        self.task = asyncio.get_running_loop().create_task(self._run())

    def check(self) -> None:
        """Raise the error with which it has ended, if it has."""
        if self.task is not None and self.task.done() and not self.task.cancelled():
            self.task.result()

    async def _run(self) -> None:
        while True:
            try:
                await self._process()
            except Fenced:
                await self._world.sleep(self._world.rng.choice([100, 3000]))

    async def _ask(self, name: str, version: int, **values: Any) -> Any:
        """Repeat a request until it succeeds; return what the answer says of its one part."""
        for _ in range(PATIENCE):
            code, found = AGAIN, None
            if self._world.home is not None:
                code, found = await self._try(self._world.home, name, version, values)
            if code is ErrorCode.NONE:
                return found
            self._world.met[f"{name}: {code.name}"] += 1
            if not code.retriable:
                raise Fenced(name, code)
            await self._world.sleep(self._world.rng.choice([100, 400]))
        raise AssertionError(f"{name} does not succeed: {self._world.met}")

    async def _try(
        self, home: BrokerHome, name: str, version: int, values: dict[str, Any]
    ) -> tuple[ErrorCode, Any]:
        try:
            answer = await home.ask(name, version, **values)
        except TidelogError:
            return AGAIN, None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return AGAIN, None  # the broker was closed
        return found_in(answer)

    async def _process(self) -> None:
        rng, number = self._world.rng, self._number
        timeout_ms = rng.choice([2000, 20_000])
        name = self._ids["transactionalId"]
        begun = await self._ask(
            "InitProducerId", 4, transactionalId=name, transactionTimeoutMs=timeout_ms
        )
        self._ids |= {key: begun[key] for key in ("producerId", "producerEpoch")}
        self._sequences.clear()
        topics = [{"name": "in", "partitionIndexes": [number]}]
        found = await self._ask(
            "OffsetFetch", 7, groupId=self._group, topics=topics, requireStable=True
        )
        position = max(found["committedOffset"], 0)
        while True:
            await self._world.sleep(rng.choice([10, 100, 500]))
            end = min(position + rng.randrange(1, 4), RECORDS)
            if position < end and await self._transact(position, end):
                position = end

    async def _transact(self, start: int, end: int) -> bool:
        """Process some records; return whether that was committed."""
        rng, ids = self._world.rng, self._ids
        outputs = rng.sample(range(OUTPUTS), rng.randrange(1, OUTPUTS + 1))
        added = [{"name": "out", "partitions": outputs}]
        await self._ask("AddPartitionsToTxn", 3, **ids, topics=added)
        for offset in range(start, end):
            await self._write(outputs[offset % len(outputs)], offset)
            if rng.random() < 0.05:
                await self._world.sleep(4000)
        await self._ask("AddOffsetsToTxn", 3, **ids, groupId=self._group)
        place = {"partitionIndex": self._number, "committedOffset": end, "committedMetadata": ""}
        topics = [{"name": "in", "partitions": [place]}]
        member = {"groupId": self._group, "generationId": -1, "memberId": ""}
        await self._ask("TxnOffsetCommit", 3, **ids, **member, topics=topics)
        is_commit = rng.random() < 0.85
        await self._ask("EndTxn", 3, **ids, committed=is_commit)
        return is_commit

    async def _write(self, output: int, offset: int) -> None:
        now_ms = self._world.clock.now_ms()
        records = build_batch(
            [(now_ms, None, b"%d:%d" % (self._number, offset), ())],
            transactional=True,
            producer_id=self._ids["producerId"],
            producer_epoch=self._ids["producerEpoch"],
            base_sequence=self._sequences[output],
        )
        data = [{"name": "out", "partitionData": [{"index": output, "records": records}]}]
        name = self._ids["transactionalId"]
        await self._ask("Produce", 9, acks=-1, timeoutMs=1, transactionalId=name, topicData=data)
        self._sequences[output] += 1


def found_in(answer: dict[str, Any]) -> tuple[ErrorCode, Any]:
    """Return the code of an answer about one thing, and what it says of that."""
    found = answer
    lists = ("topics", "partitions", "results", "resultsByPartition")
    for key in (*lists[:2], "responses", "partitionResponses", *lists[2:]):
        if not found.get("errorCode") and found.get(key):
            found = found[key][0]
    return ErrorCode(found.get("errorCode", 0) or found.get("partitionErrorCode", 0)), found


async def disturb(world: World, programs: list[Program]) -> None:
    """Let something happen."""
    rng, home = world.rng, world.home
    assert home is not None
    match rng.choices(range(6), [15, 6, 15, 10, 30, 6])[0]:
        case 0:
            rng.choice(programs).start()
        case 1:
            world.files.set_free_bytes(rng.choice([0, 100, 400]))
        case 2:
            world.files.set_free_bytes(None)
        case 3:
            world.attempt(home.logs.roll if rng.random() < 0.3 else home.logs.compact)
        case 4:
            world.attempt(lambda: world.clock.advance(TICK_MS))
            for _ in range(rng.randrange(15)):  # in the middle of requests
                await asyncio.sleep(0)
            await world.restart(rng.choice(["stop", "kill", "none", "some"]))
        case 5:
            error = OSError(rng.choice([errno.EIO, errno.ENOSPC]), "it failed")
            world.files.fail_at(rng.randrange(30), error, is_short=rng.random() < 0.3)
            await world.pass_time(1000)
            await world.restart(rng.choice(["kill", "none", "some"]))


async def live(world: World) -> None:
    """Process all records, whatever happens."""
    await world.open()
    assert world.home is not None
    logs, rng = world.home.logs, world.rng
    logs.create_topic("out", OUTPUTS, is_spread=rng.random() < 0.5)
    logs.create_topic("in", PARTITIONS)
    for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        logs.create_topic(name, rng.choice([1, 2]), config=SMALL, is_spread=rng.random() < 0.5)
    programs = [Program(world, number) for number in range(PARTITIONS) for _ in range(2)]
    for one in programs:
        one.start()
    for _ in range(STEPS):
        await disturb(world, programs)
        await world.pass_time(rng.choice([0, 100, 500, 2000]))
        for one in programs:
            one.check()
    await world.restart("none")
    for _ in range(PATIENCE):
        await world.pass_time(1000)
        if written(world).total() >= PARTITIONS * RECORDS:
            break
    for one in programs:
        assert one.task is not None
        one.task.cancel()
    await world.pass_time(25_000)  # what was left open runs out of time


def written(world: World) -> Counter[bytes]:
    """Return what readers of committed records see."""
    assert world.home is not None
    seen = world.home.logs.read("out", isolation="read_committed")
    return Counter(bytes(one.value or b"") for one in seen)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(scaled(10)))
def test_each_record_is_processed_once(seed: int, enumerated: Enumerated) -> None:
    """And readers of committed records are held up by none that were left."""
    world = World(seed)

    async def scenario() -> None:
        await live(world)
        wanted = {b"%d:%d" % (one, at) for one in range(PARTITIONS) for at in range(RECORDS)}
        assert written(world) == Counter(wanted)
        assert world.home is not None
        for number in range(OUTPUTS):
            assert not world.home.logs.partition("out", number).log.open_transactions()
        await world.home.__aexit__()

    run(scenario())
    enumerated("errors met", world.met.total(), at_least=1)
