"""One fault at each operation of the disk under what a broker does for its clients.

As ``test_manager_faults``, seen by clients. A story is a list of requests. It runs once without a
fault, then once for each operation of the file system under one of its requests, and each kind of
fault that can hit it. Each request is repeated, as clients do, until it succeeds. After the fault

* what was answered as done is there after a power cut that keeps only what was synced, once, and
* no request is refused for good: neither by a word upon which clients give up, nor again and again,
  though the fault has gone. After EIO or a failed fsync the next start serves it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.crash.fault_kinds import KINDS, Kind
from tests.machinery.broker_home import BrokerHome, run

from tidelog.broker.broker import Broker
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidArgument, KafkaError, KafkaStorageError
from tidelog.records.builder import build_batch
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.conftest import Enumerated

    from tidelog.testing.faults import Operation

NONE: Final = ErrorCode.NONE
AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
PATIENCE: Final = 60
"""How often a client repeats a request, once a second."""
SMALL: Final = {"internal.segment.bytes": "300"}


class Stuck(AssertionError):
    """A request that does not succeed though the fault has gone."""


@dataclass
class World:
    """A broker on a fake machine, and what its clients were answered."""

    files: CrashFileSystem = field(default_factory=CrashFileSystem)
    clock: ManualClock = field(default_factory=ManualClock)
    acknowledged: Counter[bytes] = field(default_factory=Counter)
    committed: set[bytes] = field(default_factory=set)
    position: int = -1
    topics: dict[str, bool] = field(default_factory=dict)
    """Whether each topic is there, as was answered last."""
    producer: tuple[int, int] = (-1, -1)
    member: str = ""
    has_failed_disk: bool = False
    home: BrokerHome = field(init=False)

    async def open(self) -> None:
        """Start the broker."""
        self.home = BrokerHome(self.files, self.clock, timers=self.clock.scheduler())
        await self.home.__aenter__()

    async def restart(self) -> None:
        """Cut the power, and start the broker again."""
        self.home.cut_power()
        await self.home.__aexit__()
        self.files.mend()
        await self.open()

    async def pass_time(self, ms: int = 1000) -> None:
        """Let time pass, and whatever is due happen."""
        end_ms = self.clock.elapsed_ms() + ms
        while self.clock.elapsed_ms() < end_ms:
            with suppress(KafkaStorageError):  # of a task, of which the others are independent
                self.clock.advance(end_ms - self.clock.elapsed_ms())
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)


class Step:
    """A request, with what it is sent with."""

    def __init__(
        self, request: Callable[..., Awaitable[ErrorCode]], *values: bytes, **how: Any
    ) -> None:
        self.request = request
        self._given = values, how

    async def __call__(self, world: World) -> ErrorCode:
        """Send it once; return its code."""
        values, how = self._given
        return await self.request(world, *values, **how)


# Requests


async def produce(world: World, *values: bytes, sequence: int, idempotent: int = 7) -> ErrorCode:
    """Send records of an idempotent producer, to be on the disk."""
    code = await send(
        world, *values, producer_id=idempotent, producer_epoch=0, base_sequence=sequence
    )
    if code is NONE:
        world.acknowledged.update(values)
    return code


async def send(world: World, *values: bytes, **batch: Any) -> ErrorCode:
    """Send records as one batch, of now: what is known of producers expires with their records."""
    now_ms = world.clock.now_ms()
    records = build_batch([(now_ms, None, value, ()) for value in values], **batch)
    data = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
    name = "x" if batch.get("transactional") else None
    answer = await world.home.ask(
        "Produce", 9, transactionalId=name, acks=-1, timeoutMs=1000, topicData=data
    )
    return ErrorCode(answer["responses"][0]["partitionResponses"][0]["errorCode"])


async def find(world: World, kind: int) -> ErrorCode:
    """Ask for the coordinator of the group, or of the transactional id."""
    answer = await world.home.ask("FindCoordinator", 4, keyType=kind, coordinatorKeys=["gx"[kind]])
    (found,) = answer["coordinators"]
    return ErrorCode(found["errorCode"])


async def commit(world: World, offset: int) -> ErrorCode:
    """Commit a position."""
    place = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": ""}
    topics = [{"name": "t", "partitions": [place]}]
    answer = await world.home.ask(
        "OffsetCommit", 8, groupId="g", generationId=-1, memberId="", topics=topics
    )
    code = ErrorCode(answer["topics"][0]["partitions"][0]["errorCode"])
    if code is NONE:
        world.position = offset
    return code


async def fetch_position(world: World) -> ErrorCode:
    """Ask for the position; a wrong one is none."""
    topics = [{"name": "t", "partitionIndexes": [0]}]
    answer = await world.home.ask("OffsetFetch", 7, groupId="g", topics=topics, requireStable=True)
    if answer["errorCode"]:
        return ErrorCode(answer["errorCode"])
    (found,) = answer["topics"][0]["partitions"]
    if not found["errorCode"]:
        assert found["committedOffset"] == world.position
    return ErrorCode(found["errorCode"])


async def delete_group(world: World) -> ErrorCode:
    """Delete the group, with its positions."""
    answer = await world.home.ask("DeleteGroups", 2, groupsNames=["g"])
    code = ErrorCode(answer["results"][0]["errorCode"])
    if code in {NONE, ErrorCode.GROUP_ID_NOT_FOUND}:
        world.position = -1
        return NONE
    return code


async def join(world: World) -> ErrorCode:
    """Join the group as its only member, and sync."""
    found = await world.home.ask(
        "JoinGroup",
        3,
        groupId="g",
        memberId=world.member,
        protocols=[{"name": "range", "metadata": b""}],
        sessionTimeoutMs=10_000,
        rebalanceTimeoutMs=10_000,
        protocolType="consumer",
    )
    if found["errorCode"]:
        return of_member(world, ErrorCode(found["errorCode"]))
    world.member = found["memberId"]
    synced = await world.home.ask(
        "SyncGroup",
        2,
        groupId="g",
        generationId=found["generationId"],
        memberId=world.member,
        assignments=[{"memberId": world.member, "assignment": b"all"}],
    )
    return of_member(world, ErrorCode(synced["errorCode"]))


def of_member(world: World, code: ErrorCode) -> ErrorCode:
    """Return a code as a member takes it: one that is not known any more joins again."""
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        world.member = ""
        return AGAIN
    return code


async def leave(world: World) -> ErrorCode:
    """Leave the group, which readers of the program may have then."""
    answer = await world.home.ask("LeaveGroup", 2, groupId="g", memberId=world.member)
    code = ErrorCode(answer["errorCode"])
    return NONE if code is ErrorCode.UNKNOWN_MEMBER_ID else code


async def read_here(world: World) -> ErrorCode:
    """Have the group read by a reader of the broker's program, once no client has it."""
    try:
        world.home.logs.reader("t", group="g").close()
    except InvalidArgument:
        return AGAIN
    except KafkaError as error:
        return error.code
    return NONE


async def init(world: World, name: str | None = "x") -> ErrorCode:
    """Ask for the id of a producer."""
    answer = await world.home.ask(
        "InitProducerId", 4, transactionalId=name, transactionTimeoutMs=600_000
    )
    world.producer = answer["producerId"], answer["producerEpoch"]
    return ErrorCode(answer["errorCode"])


def of_transaction(world: World) -> dict[str, Any]:
    """Return what requests of the transaction say of themselves."""
    producer_id, epoch = world.producer
    return {"transactionalId": "x", "producerId": producer_id, "producerEpoch": epoch}


async def add(world: World) -> ErrorCode:
    """Add the partition to the transaction."""
    topics = [{"name": "t", "partitions": [0]}]
    answer = await world.home.ask("AddPartitionsToTxn", 3, **of_transaction(world), topics=topics)
    return ErrorCode(answer["results"][0]["resultsByPartition"][0]["partitionErrorCode"])


async def write(world: World, value: bytes, sequence: int) -> ErrorCode:
    """Send a record in the transaction."""
    producer_id, epoch = world.producer
    how = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return await send(world, value, transactional=True, **how)


async def add_offsets(world: World) -> ErrorCode:
    """Add the group to the transaction."""
    answer = await world.home.ask("AddOffsetsToTxn", 3, **of_transaction(world), groupId="g")
    return ErrorCode(answer["errorCode"])


async def commit_offsets(world: World, offset: int) -> ErrorCode:
    """Commit a position with the transaction."""
    place = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": ""}
    answer = await world.home.ask(
        "TxnOffsetCommit",
        3,
        **of_transaction(world),
        groupId="g",
        generationId=-1,
        memberId="",
        topics=[{"name": "t", "partitions": [place]}],
    )
    return ErrorCode(answer["topics"][0]["partitions"][0]["errorCode"])


async def end(world: World, *values: bytes, offset: int, is_commit: bool = True) -> ErrorCode:
    """End the transaction."""
    answer = await world.home.ask("EndTxn", 3, **of_transaction(world), committed=is_commit)
    code = ErrorCode(answer["errorCode"])
    if code is NONE:
        world.acknowledged.update(values)
        if is_commit:
            world.committed.update(values)
            world.position = offset
    return code


async def create(world: World, name: str) -> ErrorCode:
    """Create a topic of two partitions."""
    new = {"name": name, "numPartitions": 2, "replicationFactor": 1}
    answer = await world.home.ask("CreateTopics", 5, topics=[new], timeoutMs=1000)
    code = ErrorCode(answer["topics"][0]["errorCode"])
    if code in {NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
        world.topics[name] = True
        return NONE
    return code


async def delete(world: World, name: str) -> ErrorCode:
    """Delete a topic."""
    answer = await world.home.ask("DeleteTopics", 5, topicNames=[name], timeoutMs=1000)
    code = ErrorCode(answer["responses"][0]["errorCode"])
    if code in {NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
        world.topics[name] = False
        return NONE
    return code


async def start_again(world: World) -> ErrorCode:
    """Let another broker take over the logs, as a start does."""
    home = world.home
    await home.broker.close()
    if not home.logs.manager.live_dirs:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        home.broker = Broker(home.logs.manager, home.config, world.clock.scheduler())
    except KafkaError as error:
        return error.code
    await home.broker.start()
    return NONE


# Stories

PRODUCE: Final[Sequence[Step]] = (
    Step(produce, b"a" * 100, sequence=0),
    Step(produce, b"b" * 100, sequence=1),
    Step(produce, b"c" * 100, b"d" * 100, sequence=2),
    Step(produce, b"e" * 100, sequence=4),
)
GROUP: Final[Sequence[Step]] = (
    Step(find, kind=0),
    Step(commit, offset=1),
    Step(fetch_position),
    Step(commit, offset=2),
    Step(fetch_position),
    Step(join),
    Step(leave),
    Step(read_here),
    Step(fetch_position),
    Step(delete_group),
    Step(fetch_position),
)
TRANSACTION: Final[Sequence[Step]] = (
    Step(find, kind=1),
    Step(find, kind=0),
    Step(init),
    Step(add),
    Step(write, value=b"a", sequence=0),
    Step(add_offsets),
    Step(commit_offsets, offset=1),
    Step(end, b"a", offset=1),
    Step(fetch_position),
    Step(add),
    Step(write, value=b"b", sequence=1),
    Step(end, offset=-1, is_commit=False),
    Step(fetch_position),
)
TOPICS: Final[Sequence[Step]] = (
    Step(create, name="new"),
    Step(create, name="other"),
    Step(delete, name="new"),
    Step(create, name="new"),
    Step(delete, name="other"),
)
IDS: Final[Sequence[Step]] = (Step(init, name=None),)
START: Final[Sequence[Step]] = (
    Step(find, kind=0),
    Step(commit, offset=1),
    Step(init),
    Step(add),
    Step(write, value=b"a", sequence=0),
    Step(start_again),
    Step(fetch_position),
    Step(end, b"a", offset=1),
    Step(start_again),
    Step(init),
)
STORIES: Final = {
    "produce": PRODUCE,
    "group": GROUP,
    "transaction": TRANSACTION,
    "topics": TOPICS,
    "ids": IDS,
    "start": START,
}
MAY_BE_REPEATED: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})


async def begun() -> World:
    """Return a broker with a topic of small segments."""
    world = World()
    await world.open()
    world.home.logs.create_topic("t", config=SMALL)
    return world


async def ask_until_done(
    world: World, step: Step, fault: tuple[int, Kind, str] | None = None
) -> None:
    """Send a request until it succeeds; the fault comes with the first try."""
    if fault is not None:
        number, kind, path = fault
        world.has_failed_disk = kind.is_of_disk
        world.files.fail_at(number, kind.error(path), is_short=kind.is_short)
    for _ in range(PATIENCE):
        code = await step(world)
        if fault is not None:
            world.files.fail_at(1 << 40, OSError())
        if code is NONE:
            return
        assert code.retriable, f"a client gives up at {code.name}"
        await world.pass_time()
        if world.has_failed_disk:
            await world.restart()  # the only directory may be offline
            world.has_failed_disk = False
    raise Stuck(code.name)


async def check(world: World) -> None:
    """See that what was answered is there, once, after a power cut."""
    await world.restart()
    for _ in range(5):
        await world.pass_time()
    logs = world.home.logs
    found = Counter(bytes(one.value or b"") for one in logs.read("t"))
    visible = Counter(bytes(one.value or b"") for one in logs.read("t", isolation="read_committed"))
    assert not [value for value, count in found.items() if count > 1], "doubled"
    assert world.acknowledged.keys() <= found.keys(), "lost"
    assert world.committed <= visible.keys(), "not committed"
    if world.producer != (-1, -1) and world.committed:
        assert b"b" not in visible, "aborted records are read"
    for name, is_there in world.topics.items():
        assert (name in logs.topics()) == is_there, name
    await ask_until_done(world, Step(fetch_position))


async def whole(story: Sequence[Step]) -> list[list[Operation]]:
    """Run a story without a fault; return the operations under each request."""
    world = await begun()
    found = []
    for step in story:
        traced = world.files.trace()
        await ask_until_done(world, step)
        await world.pass_time()
        found.append(list(traced))
    await check(world)
    world.home.is_left = True
    await world.home.__aexit__()
    return found


async def with_fault(story: Sequence[Step], at: int, fault: tuple[int, Kind, str]) -> None:
    """Run a story with a fault under one request."""
    world = await begun()
    try:
        for number, step in enumerate(story):
            await ask_until_done(world, step, fault if number == at else None)
            await world.pass_time()
        await check(world)
    finally:
        world.home.is_left = True
        await world.home.__aexit__()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
@pytest.mark.parametrize("name", STORIES)
def test_a_fault_takes_nothing_that_was_answered_and_lasts_no_longer(
    name: str, kind: Kind, enumerated: Enumerated
) -> None:
    """At each operation of the disk under each request of a story."""
    story, faults = STORIES[name], 0
    under: list[list[Operation]] = []
    run(kept_in(under, whole(story)))
    for at, operations in enumerate(under):
        for number, operation in enumerate(operations):
            if kind.can_hit(operation, operations):
                faults += 1
                try:
                    run(with_fault(story, at, (number, kind, operation.path)))
                except BaseException as error:
                    error.add_note(f"request {at}, operation {number}: {operation}")
                    raise
    enumerated(f"faults: {name}, {kind.name}", faults, at_least=1)


async def kept_in(under: list[list[Operation]], work: Awaitable[list[list[Operation]]]) -> None:
    """Await some work, and keep what it returns."""
    under += await work
