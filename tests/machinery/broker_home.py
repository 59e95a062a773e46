"""A broker without sockets, over a disk in memory, and requests to it by hand."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tidelog
from tidelog.broker.broker import Broker
from tidelog.broker.client_request import Address, Peer
from tidelog.broker.dispatch import Pending
from tidelog.codec.protocol.apis import api_named, read_response_header
from tidelog.config.serve_config import ServeConfig
from tidelog.error_codes import ErrorCode
from tidelog.records.builder import build_batch
from tidelog.records.file_records import FileSlice
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from typing import Self

    from tidelog.broker.groups.classic_group import Timers

PEER = Peer("127.0.0.1", Address("127.0.0.1", 9092))
DATA = "/data"


class BrokerHome:
    """A broker that is up inside ``async with``; ``ask`` sends a request and awaits its answer.

    ``more`` are further data directories, and ``timers`` those of the broker.
    """

    def __init__(
        self,
        files: CrashFileSystem | None = None,
        clock: ManualClock | None = None,
        *,
        more: Sequence[str] = (),
        timers: Timers | None = None,
        **settings: object,
    ) -> None:
        given = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.files = files or CrashFileSystem()
        self.clock = clock or ManualClock()
        self.config = ServeConfig.parse(given)
        self.files.mend()
        self.logs = tidelog.open(DATA, *more, files=self.files, clock=self.clock)
        self._timers = timers
        self.is_left = False
        """Whether nothing is written at the end: a disk has failed."""

    async def __aenter__(self) -> Self:
        self.broker = Broker(self.logs.manager, self.config, self._timers)
        await self.broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.close()
        if self.is_left:
            self.logs.manager.abandon()
        else:
            self.logs.close()

    def cut_power(self) -> None:
        """End the process with a power cut that keeps only what was synced."""
        self.is_left = True
        self.files.power_cut("none")

    def send(self, name: str, version: int, client_id: str = "test", **values: Any) -> Any:
        """Send a request; return what the dispatcher does."""
        api = api_named(name)
        parts = [api.request_header(version, 7, client_id), *api.write_request(version, values)]
        return self.broker.dispatcher.handle(memoryview(bytearray(b"".join(parts))), PEER)

    async def ask(self, name: str, version: int, client_id: str = "test", **values: Any) -> Any:
        """Return the fields of the response; None: there is none."""
        found = self.send(name, version, client_id, **values)
        if isinstance(found, Pending):
            found = await found.parts()
        return None if found is None else read(name, version, found)

    def asking(self, name: str, version: int, **values: Any) -> asyncio.Task[Any]:
        """Begin to ask; the answer comes later."""
        return asyncio.get_running_loop().create_task(self.ask(name, version, **values))

    def create_with_epoch(self, topic: str, config: dict[str, str] | None = None) -> None:
        """Create a topic whose epoch has begun: an append that begins one is made on a thread."""
        self.logs.create_topic(topic, config=config)
        self.logs.partition(topic, 0).log.maybe_assign_epoch(0, 0)

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = -1, **batch: Any
    ) -> Any:
        """Send records as one batch; return what the response says of the partition.

        A transaction is that of ``begun``, whose id is x.
        """
        records = build_batch([(1, None, value, ()) for value in values], **batch)
        data = [{"name": topic, "partitionData": [{"index": partition, "records": records}]}]
        name = "x" if batch.get("transactional") else None
        answer = await self.ask(
            "Produce", 9, transactionalId=name, acks=acks, timeoutMs=1000, topicData=data
        )
        return answer and answer["responses"][0]["partitionResponses"][0]

    async def fetch(
        self, topic: str, offset: int = 0, *, wait_ms: int = 0, isolation: int = 0, **how: Any
    ) -> Any:
        """Fetch from partition 0; return what the response says of it."""
        given = {
            "partition": 0,
            "fetchOffset": offset,
            "partitionMaxBytes": how.pop("partitionMaxBytes", 1 << 20),
        }
        answer = await self.ask(
            "Fetch",
            12,
            maxWaitMs=wait_ms,
            isolationLevel=isolation,
            topics=[{"topic": topic, "partitions": [given]}],
            **({"minBytes": 1} | how),
        )
        return answer["responses"][0]["partitions"][0]


class HeldLock:
    """A stand-in for the lock of a partition that another thread has.

    It fails the test if the event loop waits for it.
    """

    def __init__(self, plain: Any) -> None:
        self.is_held = True
        self._plain = plain

    def acquire(self, *, timeout: float = -1) -> bool:
        """Take the lock unless it is held; nobody may wait for it without an end."""
        if self.is_held:
            assert timeout >= 0, "this waits for the lock"
            return False
        is_mine: bool = self._plain.acquire(timeout=timeout)
        return is_mine

    def release(self) -> None:
        """Release the lock."""
        self._plain.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def held(home: BrokerHome, topic: str = "t") -> Iterator[None]:
    """Have another thread hold a partition in the body of the ``with``."""
    partition = home.logs.manager.partition(topic, 0)
    plain = partition.lock
    lock = HeldLock(plain)
    object.__setattr__(partition, "lock", lock)
    try:
        yield
    finally:
        lock.is_held = False
        object.__setattr__(partition, "lock", plain)


def read(name: str, version: int, parts: list[Any]) -> dict[str, Any]:
    """Return the fields of a response from its parts."""
    data = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
    for part in parts:
        if isinstance(part, FileSlice):
            part.close()
    api = api_named(name)
    number, at = read_response_header(api, version, data)
    assert number == 7
    return api.read_response(version, data, at)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run what a test does on an event loop."""
    asyncio.run(scenario)


def with_broker(test: Callable[[BrokerHome], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a test at a broker with one topic, ``t``."""

    async def scenario() -> None:
        async with BrokerHome(**settings) as home:
            home.logs.create_topic("t")
            await test(home)

    run(scenario())


def with_clock(test: Callable[[BrokerHome], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a test at a broker whose timers follow the clock of the test."""
    clock = ManualClock()
    with_broker(test, clock=clock, timers=clock.scheduler(), **settings)


def code(answer: dict[str, Any]) -> ErrorCode:
    """Return the code of an answer."""
    return ErrorCode(answer["errorCode"])


async def begun(home: BrokerHome, name: str = "x") -> tuple[int, int]:
    """Return a transactional producer."""
    answer = await home.ask("InitProducerId", 4, transactionalId=name, transactionTimeoutMs=60_000)
    assert code(answer) is ErrorCode.NONE, answer
    return answer["producerId"], answer["producerEpoch"]


async def add(
    home: BrokerHome,
    producer: tuple[int, int],
    name: str = "x",
    *,
    topic: str = "t",
    count: int = 1,
) -> ErrorCode:
    """Add partitions to a transaction."""
    topics = [{"name": topic, "partitions": [*range(count)]}]
    answer = await home.ask(
        "AddPartitionsToTxn",
        3,
        transactionalId=name,
        producerId=producer[0],
        producerEpoch=producer[1],
        topics=topics,
    )
    return ErrorCode(answer["results"][0]["resultsByPartition"][0]["partitionErrorCode"])


async def write(home: BrokerHome, producer: tuple[int, int], value: bytes, sequence: int) -> Any:
    """Send a record in a transaction."""
    return code(
        await home.produce(
            "t",
            value,
            transactional=True,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
        )
    )


async def end(
    home: BrokerHome, producer: tuple[int, int], name: str = "x", *, commit: bool = True
) -> ErrorCode:
    """End a transaction."""
    answer = await home.ask(
        "EndTxn",
        3,
        transactionalId=name,
        producerId=producer[0],
        producerEpoch=producer[1],
        committed=commit,
    )
    return code(answer)


async def described(home: BrokerHome, name: str = "x") -> str:
    """Return the state of a transaction, as tools show it."""
    answer = await home.ask("DescribeTransactions", 0, transactionalIds=[name])
    state: str = answer["transactionStates"][0]["transactionState"]
    return state


async def ended(home: BrokerHome) -> str:
    """Return what a transaction has come to, once it has ended."""
    for _ in range(300):
        state = await described(home)
        if state.startswith("Complete"):
            break
        await asyncio.sleep(0.01)
    return state


async def commit(
    home: BrokerHome, offset: int, member_id: str = "", generation: int = -1, *, group: str = "g"
) -> Any:
    """Commit a position of a group."""
    place = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": "here"}
    answer = await home.ask(
        "OffsetCommit",
        8,
        groupId=group,
        generationId=generation,
        memberId=member_id,
        topics=[{"name": "t", "partitions": [place]}],
    )
    return code(answer["topics"][0]["partitions"][0])


async def position(home: BrokerHome) -> int:
    """Return the position of the group."""
    topics = [{"name": "t", "partitionIndexes": [0]}]
    answer = await home.ask("OffsetFetch", 7, groupId="g", topics=topics, requireStable=True)
    (found,) = answer["topics"][0]["partitions"]
    return ErrorCode(found["errorCode"]) if found["errorCode"] else found["committedOffset"]


async def commit_within(
    home: BrokerHome, producer: tuple[int, int], offset: int, **member: Any
) -> None:
    """Commit a position of the group within the transaction of a producer."""
    producer_id, epoch = producer
    ids: dict[str, Any] = {
        "producerId": producer_id,
        "producerEpoch": epoch,
        "transactionalId": "x",
    }
    added = await home.ask("AddOffsetsToTxn", 3, groupId="g", **ids)
    assert code(added) is ErrorCode.NONE
    place = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": None}
    topics = [{"name": "t", "partitions": [place]}]
    answer = await home.ask("TxnOffsetCommit", 3, groupId="g", topics=topics, **ids, **member)
    assert code(answer["topics"][0]["partitions"][0]) is ErrorCode.NONE
