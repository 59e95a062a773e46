"""Requests to a broker without sockets: records, topics, positions, producers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.broker_home import PEER, BrokerHome, read, run

from tidelog.broker.client_request import Disconnect
from tidelog.codec.compression import Codec
from tidelog.codec.protocol.apis import api_named, apis
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidRecord
from tidelog.records.builder import build_batch
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.conftest import Enumerated

LATEST, EARLIEST = -1, -2


def with_broker(test: Callable[[BrokerHome], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a test at a broker with one topic, ``t``."""

    async def scenario() -> None:
        async with BrokerHome(**settings) as home:
            home.logs.create_topic("t")
            await test(home)

    run(scenario())


def code(answer: dict[str, Any]) -> ErrorCode:
    """Return the code of an answer."""
    return ErrorCode(answer["errorCode"])


# What is offered


def test_every_request_of_the_table_is_served() -> None:
    """Nothing is offered that has no handler, and no handler is left out."""

    async def test(home: BrokerHome) -> None:
        answer = await home.ask("ApiVersions", 3, clientSoftwareName="me")
        offered = {
            one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in answer["apiKeys"]
        }
        assert offered == {
            api.number: (api.first_version, api.last_version) for api in apis().values()
        }
        assert answer["finalizedFeaturesEpoch"] == 0

    with_broker(test)


def test_an_unknown_version_of_the_first_request_is_answered_in_version_0() -> None:
    """With error 35 and the list, so that a newer client can choose. Source: KIP-511."""

    async def test(home: BrokerHome) -> None:
        api = api_named("ApiVersions")
        header = api.request_header(4, 7, "new")
        request = header[:2] + b"\0\x63" + header[4:] + b"whatever"
        parts = home.broker.dispatcher.handle(request, PEER)
        assert isinstance(parts, list)
        answer = read("ApiVersions", 0, parts)
        assert code(answer) is ErrorCode.UNSUPPORTED_VERSION
        assert len(answer["apiKeys"]) == len(apis())

    with_broker(test)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\0\0",
        b"\0\x11\0\0\0\0\0\7\xff\xff",  # SaslHandshake
        b"\0\x03\0\x63\0\0\0\7\xff\xff",  # Metadata of version 99
        b"\0\0\0\2\0\0\0\7\xff\xff\0\1\0\0\0\0\0\0\0\0",  # Produce of version 2
        b"\0\x0c\0\4\0\0\0\7\xff\xff\0\x09abc",
    ],
)
def test_what_cannot_be_read_ends_the_connection(request_bytes: bytes) -> None:
    """There is no way to know where the next request begins, or what the client expects."""

    async def test(home: BrokerHome) -> None:
        with pytest.raises((Disconnect, InvalidRecord)):
            home.broker.dispatcher.handle(request_bytes, PEER)

    with_broker(test)


# Records


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("policy", ["none", "group", "each"])
def test_records_come_back_as_they_were_sent(acks: int, policy: str) -> None:
    """Byte for byte, but for the offset and the leader epoch that the log gives them."""

    async def test(home: BrokerHome) -> None:
        answer = await home.produce("t", b"a", b"b", acks=acks)
        assert (code(answer), answer["baseOffset"]) == (ErrorCode.NONE, 0)
        found = await home.fetch("t")
        assert found["highWatermark"] == found["lastStableOffset"] == 2
        sent = build_batch([(1, None, b"a", ()), (1, None, b"b", ())])
        assert bytes(found["records"])[16:] == sent[16:]

    with_broker(test, tidelog_flush_policy=policy)


@pytest.mark.parametrize(
    ("policy", "acks", "is_kept"),
    [("group", -1, True), ("group", 1, False), ("each", 1, True), ("none", -1, False)],
)
def test_an_acknowledgement_promises_what_the_policy_says(
    policy: str, acks: int, is_kept: bool
) -> None:
    """After a power cut right after it."""
    files = CrashFileSystem()

    async def write() -> None:
        home = BrokerHome(files, tidelog_flush_policy=policy)
        async with home:
            home.logs.create_topic("t")
            assert code(await home.produce("t", b"a", acks=acks)) is ErrorCode.NONE
            home.cut_power()

    async def look() -> None:
        async with BrokerHome(files) as home:
            assert home.logs.partition("t", 0).log.log_end_offset == int(is_kept)

    run(write())
    run(look())


def test_a_producer_that_expects_no_answer_gets_none() -> None:
    """And is disconnected when something fails: it has no other way to learn of it."""

    async def test(home: BrokerHome) -> None:
        assert await home.produce("t", b"a", acks=0) is None
        with pytest.raises(Disconnect, match="t-7 took no records"):
            await home.produce("t", b"a", acks=0, partition=7)

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "partition", "acks", "wanted"),
    [
        ("none", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, 2, ErrorCode.INVALID_REQUIRED_ACKS),
        ("__consumer_offsets", 0, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__transaction_state", 0, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_is_not_taken_is_refused(
    topic: str, partition: int, acks: int, wanted: ErrorCode
) -> None:
    """Each with its code."""

    async def test(home: BrokerHome) -> None:
        answer = await home.produce(topic, b"a", partition=partition, acks=acks)
        assert code(answer) is wanted

    with_broker(test)


def test_damaged_batches_are_refused_and_nothing_is_written() -> None:
    """A flipped bit anywhere past the offset, the epoch and what the checksum does not cover."""

    async def test(home: BrokerHome) -> None:
        batch = build_batch([(1, b"key", b"value", ())])
        for at in range(16, len(batch)):
            broken = bytearray(batch)
            broken[at] ^= 1
            data = [{"name": "t", "partitionData": [{"index": 0, "records": bytes(broken)}]}]
            answer = await home.ask("Produce", 9, acks=1, timeoutMs=1, topicData=data)
            assert code(answer["responses"][0]["partitionResponses"][0]) in {
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.INVALID_RECORD,
            }
        assert home.logs.partition("t", 0).log.log_end_offset == 0

    with_broker(test)


def test_zstd_of_an_old_client_is_refused() -> None:
    """Its consumers would not know it. Source: KIP-110."""

    async def test(home: BrokerHome) -> None:
        batch = build_batch([(1, None, b"a" * 100, ())], codec=Codec.ZSTD)
        data = [{"name": "t", "partitionData": [{"index": 0, "records": batch}]}]
        for version, wanted in (
            (6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            (7, ErrorCode.NONE),
        ):
            answer = await home.ask("Produce", version, acks=1, timeoutMs=1, topicData=data)
            assert code(answer["responses"][0]["partitionResponses"][0]) is wanted

    with_broker(test)


def test_a_fetch_waits_for_records() -> None:
    """Until there are some, or its time is over."""

    async def test(home: BrokerHome) -> None:
        waits = asyncio.get_running_loop().create_task(home.fetch("t", wait_ms=60_000))
        await asyncio.sleep(0)
        assert not waits.done()
        await home.produce("t", b"a")
        assert bytes((await waits)["records"])
        assert (await home.fetch("t", 1, wait_ms=1))["records"] == b""

    with_broker(test)


def test_a_fetch_waits_for_as_much_as_it_asks_for() -> None:
    """Of small answers, many wait for one large one."""

    async def test(home: BrokerHome) -> None:
        waits = asyncio.get_running_loop().create_task(
            home.fetch("t", wait_ms=60_000, minBytes=600)
        )
        for _ in range(3):
            await home.produce("t", b"x" * 100)
            assert not waits.done()
        await home.produce("t", b"x" * 100)
        assert len((await waits)["records"]) >= 600

    with_broker(test)


def test_the_first_batch_is_whole_however_large_it_is() -> None:
    """A consumer that asks for less than a batch would never get on. Source: KIP-74."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"x" * 5000)
        await home.produce("t", b"x" * 5000)
        found = await home.fetch("t", partitionMaxBytes=100)
        assert len(build_batch([(1, None, b"x" * 5000, ())])) == len(found["records"])

    with_broker(test)


def test_a_fetch_inside_a_batch_returns_the_batch() -> None:
    """The client leaves out the records before the offset."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a", b"b", b"c")
        whole, inside = [(await home.fetch("t", offset))["records"] for offset in (0, 1)]
        assert whole == inside

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "offset", "wanted"),
    [
        ("t", 2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_fetch_that_cannot_be_answered_does_not_wait(
    topic: str, offset: int, wanted: ErrorCode
) -> None:
    """It says why at once."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a")
        assert code(await home.fetch(topic, offset, wait_ms=60_000)) is wanted

    with_broker(test)


def test_a_client_with_another_leader_epoch_is_sent_away() -> None:
    """One below ours is fenced, and one above is not known here."""

    async def test(home: BrokerHome) -> None:
        home.logs.partition("t", 0).lead(5)
        for epoch, wanted in (
            (4, ErrorCode.FENCED_LEADER_EPOCH),
            (5, ErrorCode.NONE),
            (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            given = {
                "partition": 0,
                "fetchOffset": 0,
                "partitionMaxBytes": 100,
                "currentLeaderEpoch": epoch,
            }
            topics = [{"topic": "t", "partitions": [given]}]
            answer = await home.ask("Fetch", 12, maxWaitMs=0, topics=topics)
            assert code(answer["responses"][0]["partitions"][0]) is wanted

    with_broker(test)


def test_topics_are_fetched_by_their_ids() -> None:
    """A topic that was made again has another one."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a")
        topic_id = home.logs.topic("t").topic_id
        given = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
        topics = [{"topicId": topic_id, "partitions": [given]}]
        first = await home.ask("Fetch", 17, maxWaitMs=0, topics=topics)
        home.logs.delete_topic("t")
        home.logs.create_topic("t")
        second = await home.ask("Fetch", 17, maxWaitMs=0, topics=topics)
        assert first["responses"][0]["topicId"] == topic_id
        assert first["responses"][0]["partitions"][0]["records"]
        assert code(second["responses"][0]["partitions"][0]) is ErrorCode.UNKNOWN_TOPIC_ID

    with_broker(test)


def test_offsets_are_found_by_time_and_by_name() -> None:
    """Earliest, latest, the first at a time, and none after the last one."""

    async def test(home: BrokerHome) -> None:
        for time_ms in (1000, 2000, 3000):
            records = build_batch([(time_ms, None, b"a", ())])
            home.logs.partition("t", 0).append(records)
        found = []
        for time_ms in (EARLIEST, LATEST, 1500, 3000, 3001, -3):
            topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "timestamp": time_ms}]}]
            answer = await home.ask("ListOffsets", 7, replicaId=-1, topics=topics)
            found.append(answer["topics"][0]["partitions"][0]["offset"])
        assert found == [0, 3, 1, 2, -1, 2]

    with_broker(test)


def test_a_full_disk_refuses_records_and_the_rest_is_served() -> None:
    """And takes records again when there is room."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a")
        home.files.set_free_bytes(0)
        assert code(await home.produce("t", b"x" * 1000)) is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await home.fetch("t"))["highWatermark"] == 1
        home.files.set_free_bytes(None)
        assert code(await home.produce("t", b"b")) is ErrorCode.NONE

    with_broker(test)


# Transactions


async def begun(home: BrokerHome, name: str = "x") -> tuple[int, int]:
    """Return a transactional producer."""
    answer = await home.ask("InitProducerId", 4, transactionalId=name, transactionTimeoutMs=60_000)
    assert code(answer) is ErrorCode.NONE, answer
    return answer["producerId"], answer["producerEpoch"]


async def add(home: BrokerHome, producer: tuple[int, int], name: str = "x") -> ErrorCode:
    """Add the partition to a transaction."""
    topics = [{"name": "t", "partitions": [0]}]
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


def test_a_transaction_is_seen_when_it_is_committed() -> None:
    """Until then a reader of committed records stops before it."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await add(home, producer) is ErrorCode.NONE
        assert await write(home, producer, b"a", 0) is ErrorCode.NONE
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 0
        assert await end(home, producer) is ErrorCode.NONE
        found = await home.fetch("t", isolation=1)
        assert (found["lastStableOffset"], found["abortedTransactions"]) == (2, [])

    with_broker(test)


def test_records_of_no_open_transaction_are_refused() -> None:
    """A batch that comes late would begin one that nobody ends. Source: KIP-890."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await write(home, producer, b"a", 0) is ErrorCode.INVALID_TXN_STATE
        await add(home, producer)
        assert await write(home, producer, b"a", 0) is ErrorCode.NONE
        await end(home, producer)
        assert await write(home, producer, b"late", 1) is ErrorCode.INVALID_TXN_STATE

    with_broker(test)


def test_the_producer_before_is_fenced() -> None:
    """Its open transaction is aborted, and whatever it asks is refused."""

    async def test(home: BrokerHome) -> None:
        old = await begun(home)
        await add(home, old)
        await write(home, old, b"a", 0)
        new = await begun(home)
        assert new[0] == old[0]
        assert new[1] > old[1]
        assert await add(home, old) is ErrorCode.PRODUCER_FENCED
        assert await end(home, old) is ErrorCode.PRODUCER_FENCED
        assert await write(home, old, b"b", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        found = await home.fetch("t", isolation=1)
        assert [one["producerId"] for one in found["abortedTransactions"]] == [old[0]]
        assert found["lastStableOffset"] == found["highWatermark"]

    with_broker(test)


def test_a_repeated_end_succeeds_and_another_end_does_not() -> None:
    """The answer to the first may have been lost."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await end(home, producer) is ErrorCode.INVALID_TXN_STATE
        await add(home, producer)
        assert await end(home, producer) is ErrorCode.NONE
        assert await end(home, producer) is ErrorCode.NONE
        assert await end(home, producer, commit=False) is ErrorCode.INVALID_TXN_STATE

    with_broker(test)


def test_a_transaction_of_another_is_refused() -> None:
    """By its id, or by a producer that is not its own."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        other = await begun(home, "y")
        assert await add(home, other) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await add(home, producer, "z") is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    with_broker(test)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    """Above ``transaction.max.timeout.ms``, or none."""

    async def test(home: BrokerHome) -> None:
        answer = await home.ask(
            "InitProducerId", 4, transactionalId="x", transactionTimeoutMs=timeout_ms
        )
        assert code(answer) is ErrorCode.INVALID_TRANSACTION_TIMEOUT

    with_broker(test)


def test_producer_ids_are_never_given_out_twice(enumerated: Enumerated) -> None:
    """Across restarts, power cuts and blocks."""
    files, seen = CrashFileSystem(), set()

    async def ask(count: int, *, crashes: bool) -> None:
        async with BrokerHome(files) as home:
            for _ in range(count):
                answer = await home.ask("InitProducerId", 4, transactionalId=None)
                assert code(answer) is ErrorCode.NONE
                assert answer["producerId"] not in seen
                seen.add(answer["producerId"])
            if crashes:
                home.cut_power()

    for number in range(6):
        run(ask(300 * number + 1, crashes=number % 2 == 1))
    enumerated("producer ids", len(seen), at_least=4500)


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_is_ended_by_the_next_start(
    commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut between the decision and the markers loses neither."""
    files = CrashFileSystem()

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            producer = await begun(home)
            await add(home, producer)
            assert await write(home, producer, b"a", 0) is ErrorCode.NONE
            monkeypatch.setattr(home.broker._transactions, "_write_markers", lambda _: None)
            assert await end(home, producer, commit=commit) is ErrorCode.NONE
            home.cut_power()

    async def after() -> None:
        async with BrokerHome(files) as home:
            found = await home.fetch("t", isolation=1)
            assert found["lastStableOffset"] == found["highWatermark"] == 2
            assert len(found["abortedTransactions"]) == int(not commit)
            assert home.broker._transactions.transactions["x"].state.shown == (
                "CompleteCommit" if commit else "CompleteAbort"
            )

    run(before())
    run(after())


def test_an_open_transaction_survives_a_restart() -> None:
    """Its producer goes on with it."""
    files = CrashFileSystem()
    found: list[tuple[int, int]] = []

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            found.append(await begun(home))
            await add(home, found[0])
            await write(home, found[0], b"a", 0)

    async def after() -> None:
        async with BrokerHome(files) as home:
            assert await write(home, found[0], b"b", 1) is ErrorCode.NONE
            assert await end(home, found[0]) is ErrorCode.NONE
            seen = home.logs.read("t", isolation="read_committed")
            assert [record.value for record in seen] == [b"a", b"b"]

    run(before())
    run(after())


# Groups and positions


async def joined(home: BrokerHome, member_id: str = "", group: str = "g") -> Any:
    """Let a member join."""
    return await home.ask(
        "JoinGroup",
        5,
        groupId=group,
        sessionTimeoutMs=10_000,
        rebalanceTimeoutMs=10_000,
        memberId=member_id,
        protocolType="consumer",
        protocols=[{"name": "range", "metadata": b"m"}],
    )


async def member_of(home: BrokerHome) -> tuple[str, int]:
    """Return the only member of a stable group."""
    first = await joined(home)
    assert code(first) is ErrorCode.MEMBER_ID_REQUIRED
    second = await joined(home, first["memberId"])
    synced = await home.ask(
        "SyncGroup",
        3,
        groupId="g",
        generationId=second["generationId"],
        memberId=second["memberId"],
        assignments=[{"memberId": second["memberId"], "assignment": b"all"}],
    )
    assert synced["assignment"] == b"all"
    return second["memberId"], second["generationId"]


async def commit(home: BrokerHome, offset: int, member_id: str = "", generation: int = -1) -> Any:
    """Commit a position of the group."""
    place = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": "here"}
    answer = await home.ask(
        "OffsetCommit",
        8,
        groupId="g",
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


def test_a_group_that_nobody_is_a_member_of_takes_positions() -> None:
    """Of consumers that choose their partitions themselves, and of tools."""

    async def test(home: BrokerHome) -> None:
        assert await position(home) == -1
        assert await commit(home, 5) is ErrorCode.NONE
        assert await position(home) == 5
        assert home.logs.groups.committed("g")[TopicPartition("t", 0)].position.metadata == "here"

    with_broker(test)


def test_a_member_commits_and_a_stranger_does_not() -> None:
    """Nor one of a generation that is over."""

    async def test(home: BrokerHome) -> None:
        member_id, generation = await member_of(home)
        assert await commit(home, 1, member_id, generation) is ErrorCode.NONE
        assert await commit(home, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(home, 2, "x", generation) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(home, 2, member_id, generation - 1) is ErrorCode.ILLEGAL_GENERATION
        assert await position(home) == 1

    with_broker(test)


def test_a_reader_of_the_program_and_clients_exclude_each_other() -> None:
    """Clients wait until the reader has left; a reader is refused while there are clients."""

    async def test(home: BrokerHome) -> None:
        reader = home.logs.reader("t", group="g")
        assert code(await joined(home)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await commit(home, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        reader.close()
        await member_of(home)
        with pytest.raises(tidelog_error(), match="clients of this broker"):
            home.logs.reader("t", group="g")

    with_broker(test)


def tidelog_error() -> type[Exception]:
    """Return the error of a wrong use."""
    from tidelog.errors import InvalidArgument

    return InvalidArgument


def test_members_continue_after_a_restart() -> None:
    """The group was written down: no rebalance, the same generation."""
    files = CrashFileSystem()
    found: list[tuple[str, int]] = []

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            found.append(await member_of(home))

    async def after() -> None:
        member_id, generation = found[0]
        async with BrokerHome(files) as home:
            answer = await home.ask(
                "Heartbeat", 3, groupId="g", generationId=generation, memberId=member_id
            )
            assert code(answer) is ErrorCode.NONE
            assert await commit(home, 3, member_id, generation) is ErrorCode.NONE

    run(before())
    run(after())


def test_positions_of_a_transaction_count_when_it_is_committed() -> None:
    """Until then who wants stable ones waits. Source: KIP-447."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        producer = await begun(home)
        ids: dict[str, Any] = {
            "producerId": producer[0],
            "producerEpoch": producer[1],
            "transactionalId": "x",
        }
        place = {"partitionIndex": 0, "committedOffset": 9, "committedMetadata": None}
        for is_commit, wanted in ((False, 1), (True, 9)):
            added = await home.ask("AddOffsetsToTxn", 3, groupId="g", **ids)
            assert code(added) is ErrorCode.NONE
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask("TxnOffsetCommit", 3, groupId="g", topics=topics, **ids)
            assert code(answer["topics"][0]["partitions"][0]) is ErrorCode.NONE
            assert await position(home) is ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await end(home, producer, commit=is_commit) is ErrorCode.NONE
            assert await position(home) == wanted

    with_broker(test)


def test_a_group_is_deleted_only_when_it_is_empty() -> None:
    """With its positions."""

    async def test(home: BrokerHome) -> None:
        member_id, generation = await member_of(home)
        await commit(home, 1, member_id, generation)
        found = await home.ask("DeleteGroups", 2, groupsNames=["g", "none"])
        assert [code(one) for one in found["results"]] == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
        await home.ask("LeaveGroup", 3, groupId="g", members=[{"memberId": member_id}])
        found = await home.ask("DeleteGroups", 2, groupsNames=["g"])
        assert code(found["results"][0]) is ErrorCode.NONE
        assert await position(home) == -1

    with_broker(test)


# Topics


def test_a_topic_is_created_as_it_is_asked_for() -> None:
    """With its settings; what cannot be had is refused, each with its code."""

    async def test(home: BrokerHome) -> None:
        def topic(name: str, count: int = 1, factor: int = 1, **settings: str) -> dict[str, Any]:
            configs = [{"name": k.replace("_", "."), "value": v} for k, v in settings.items()]
            return {
                "name": name,
                "numPartitions": count,
                "replicationFactor": factor,
                "configs": configs,
            }

        topics = [
            topic("good", 3, retention_ms="5"),
            topic("usual", -1, -1),
            topic("t"),
            topic("a/b"),
            topic("none", 0),
            topic("three", 1, 3),
            topic("bad", 1, 1, retention_ms="x"),
        ]
        answer = await home.ask("CreateTopics", 7, topics=topics)
        assert [code(one) for one in answer["topics"]] == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_CONFIG,
        ]
        assert home.logs.topic("good").config == {"retention.ms": "5"}
        assert len(home.logs.topic("usual").partitions) == 2
        assert home.logs.topics().keys() == {"t", "good", "usual"}

    with_broker(test, num_partitions=2)


def test_a_trial_changes_nothing() -> None:
    """``validateOnly`` of all that have it."""

    async def test(home: BrokerHome) -> None:
        before = home.logs.topic("t")
        topics = [{"name": "new", "numPartitions": 1, "replicationFactor": 1}]
        one = await home.ask("CreateTopics", 7, topics=topics, validateOnly=True)
        more = [{"name": "t", "count": 3, "assignments": None}]
        two = await home.ask("CreatePartitions", 3, topics=more, validateOnly=True)
        configs = [{"name": "retention.ms", "value": "7", "configOperation": 0}]
        resources = [{"resourceType": 2, "resourceName": "t", "configs": configs}]
        three = await home.ask("IncrementalAlterConfigs", 1, resources=resources, validateOnly=True)
        found = [one["topics"][0], two["results"][0], three["responses"][0]]
        assert {code(answer) for answer in found} == {ErrorCode.NONE}
        assert home.logs.topics() == {"t": before}

    with_broker(test)


def test_metadata_creates_what_is_asked_for_only_where_that_is_wanted() -> None:
    """Neither by a broker that does not, nor for a client that does not."""

    async def asks(home: BrokerHome, *, allowed: bool) -> ErrorCode:
        topics = [{"name": "new"}]
        answer = await home.ask("Metadata", 9, topics=topics, allowAutoTopicCreation=allowed)
        return code(answer["topics"][0])

    async def wanted(home: BrokerHome) -> None:
        assert await asks(home, allowed=False) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await asks(home, allowed=True) is ErrorCode.NONE
        assert "new" in home.logs.topics()

    async def unwanted(home: BrokerHome) -> None:
        assert await asks(home, allowed=True) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(wanted)
    with_broker(unwanted, auto_create_topics_enable="false")


def test_the_brokers_own_topics_are_not_changed_by_clients() -> None:
    """They hold groups and transactions that are in use."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        deleted = await home.ask("DeleteTopics", 5, topicNames=["__consumer_offsets"])
        grown = [{"name": "__consumer_offsets", "count": 3, "assignments": None}]
        added = await home.ask("CreatePartitions", 3, topics=grown)
        assert code(deleted["responses"][0]) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert code(added["results"][0]) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await position(home) == 1

    with_broker(test)
