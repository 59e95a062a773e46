"""Requests to a broker without sockets: what is offered, and records."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.machinery.broker_home import (
    DATA,
    PEER,
    BrokerHome,
    add,
    code,
    read,
    run,
    with_broker,
)

import tidelog
from tidelog.broker.client_request import Disconnect
from tidelog.codec.compression import Codec
from tidelog.codec.protocol.apis import api_named, apis
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidRecord, KafkaStorageError
from tidelog.log.archived import ArchivedOffsets
from tidelog.records.builder import build_batch
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.partition import Partition

LATEST, EARLIEST = -1, -2
OTHER = "/other"


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


def test_a_client_that_would_authenticate_is_told_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As by Kafka's plaintext listener; it tries again and again, and the line comes once a minute.

    Without the offer it would go without having asked.
    """

    async def test(home: BrokerHome) -> None:
        for advance_ms in (0, 59_999, 1):
            home.clock.advance(advance_ms)
            answer = await home.ask("SaslHandshake", 1, mechanism="PLAIN")
            assert code(answer) is ErrorCode.ILLEGAL_SASL_STATE

    with_broker(test)
    found = [one.getMessage() for one in caplog.records if "client-refused" in one.getMessage()]
    assert len(found) == 2
    assert "set the client's security.protocol to PLAINTEXT" in found[0]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\0\0",
        b"\0\x24\0\0\0\0\0\7\xff\xff",  # SaslAuthenticate
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
    """Byte for byte, except the offset and the leader epoch, which the log gives them."""

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


@pytest.mark.parametrize("length", [3, 17, 60, 68])
def test_a_batch_that_is_cut_short_is_not_acknowledged(length: int) -> None:
    """Nothing of it is in the log. Source: Kafka ProduceRequest.validateRecords."""

    async def test(home: BrokerHome) -> None:
        records = build_batch([(1, None, b"a", ())])[:length]
        data = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
        answer = await home.ask("Produce", 9, acks=-1, timeoutMs=1000, topicData=data)
        found = answer["responses"][0]["partitionResponses"][0]
        assert code(found) is ErrorCode.INVALID_RECORD
        assert home.logs.partition("t", 0).log.log_end_offset == 0

    with_broker(test)


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


@pytest.mark.parametrize(
    ("is_known", "cure"), [(False, "tidelog alter TOPIC -o cleanup.policy="), (True, "compacted")]
)
def test_refused_records_without_a_key_are_logged_once_a_minute(
    is_known: bool, cure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients show no more than a code; a topic of unknown policy was taken over."""
    files = CrashFileSystem()
    with tidelog.open(DATA, files=files) as logs:
        logs.create_topic("t", config={"cleanup.policy": "compact"})
    if not is_known:
        files.delete(f"{DATA}/tidelog.topics.json")

    async def test() -> None:
        async with BrokerHome(files) as home:
            for advance_ms in (0, 59_999, 1):
                home.clock.advance(advance_ms)
                assert code(await home.produce("t", b"a", b"b")) is ErrorCode.INVALID_RECORD

    run(test())
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    found = [line for line in told if line.startswith("records-refused topic=t reason=")]
    assert (len(found), cure in found[0]) == (2, True)


def test_what_a_full_disk_does_not_create_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Clients ask again several times a second, and the log may lie on the same disk."""

    async def test(home: BrokerHome) -> None:
        home.files.set_free_bytes(0)
        for advance_ms in (0, 59_999, 1):
            home.clock.advance(advance_ms)
            wanted = [{"name": "new"}]
            answer = await home.ask("Metadata", 9, topics=wanted, allowAutoTopicCreation=True)
            assert code(answer["topics"][0]) is ErrorCode.KAFKA_STORAGE_ERROR
            for kind in (0, 1):
                found = await home.ask("FindCoordinator", 3, keyType=kind, key="g")
                assert code(found) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        home.files.set_free_bytes(None)

    with_broker(test)
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    for start in ("topic-not-created topic='new' ", "coordinator-not-found host=127.0.0.1 "):
        assert len([line for line in told if line.startswith(start)]) == 2


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


def test_a_fetch_that_waits_hears_that_its_topic_is_deleted() -> None:
    """At once, not when its time is over."""

    async def test(home: BrokerHome) -> None:
        waits = asyncio.create_task(home.fetch("t", wait_ms=60_000))
        await asyncio.sleep(0)
        home.logs.delete_topic("t")
        async with asyncio.timeout(10):
            assert code(await waits) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test)


def test_a_fetch_that_waits_gets_what_comes_after_a_move() -> None:
    """The partition has another log then, in another directory."""

    async def test(home: BrokerHome) -> None:
        partition = home.logs.manager.partition("t", 0)
        before = partition.log.directory
        (target,) = {DATA, OTHER} - {before.rpartition("/")[0]}
        waits = asyncio.create_task(home.fetch("t", wait_ms=60_000))
        await asyncio.sleep(0)
        home.logs.manager.move_partition("t", 0, target)
        for _ in range(100):
            home.clock.advance(1000)
        assert partition.log.directory.startswith(target)
        await home.produce("t", b"a")
        async with asyncio.timeout(10):
            assert (await waits)["highWatermark"] == 1

    with_broker(test, more=[OTHER])


def test_the_first_batch_is_whole_however_large_it_is() -> None:
    """A consumer that asks for less than a batch would never get on. Source: KIP-74."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"x" * 5000)
        await home.produce("t", b"x" * 5000)
        found = await home.fetch("t", partitionMaxBytes=100)
        assert len(build_batch([(1, None, b"x" * 5000, ())])) == len(found["records"])

    with_broker(test)


def test_after_the_first_batch_none_begins_that_does_not_fit() -> None:
    """The other partitions wait: a Java consumer fails where it finds only part of a batch."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("wide", 3)
        for number in range(3):
            await home.produce("wide", b"x" * 5000, partition=number)
        size = len(build_batch([(1, None, b"x" * 5000, ())]))
        for limit, sizes in ((100, [size, 0, 0]), (size + 100, [size] * 3), (size, [size] * 3)):
            given = [
                {"partition": number, "fetchOffset": 0, "partitionMaxBytes": limit}
                for number in range(3)
            ]
            topics = [{"topic": "wide", "partitions": given}]
            answer = await home.ask("Fetch", 12, maxWaitMs=0, topics=topics)
            found = answer["responses"][0]["partitions"]
            assert [len(one["records"]) for one in found] == sizes

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
            one = answer["topics"][0]["partitions"][0]
            found.append((one["offset"], one["leaderEpoch"]))
        assert found == [(0, 0), (3, 0), (1, 0), (2, 0), (-1, -1), (2, 0)]

    with_broker(test)


def test_the_first_offset_that_is_to_be_archived_is_named() -> None:
    """After what the archive has; none without an archive. Source: Kafka KIP-1023."""

    async def test(home: BrokerHome) -> None:
        log = home.logs.partition("t", 0).log
        await home.produce("t", b"a", b"b", b"c")
        found = []
        for archived in (None, ArchivedOffsets(0, 0), ArchivedOffsets(0, 2)):
            log.note_archived(archived)
            topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "timestamp": -6}]}]
            answer = await home.ask("ListOffsets", 11, replicaId=-1, topics=topics, timeoutMs=1)
            one = answer["topics"][0]["partitions"][0]
            found.append((one["offset"], one["leaderEpoch"]))
        assert found == [(-1, -1), (0, 0), (2, 0)]
        log.note_archived(None)

    with_broker(test)


@pytest.mark.parametrize(
    ("archived", "answer"),
    [
        (None, (-1, -1)),
        (ArchivedOffsets(0, 0), (-1, -1)),
        (ArchivedOffsets(2, 2), (-1, -1)),
        (ArchivedOffsets(0, 2), (1, 0)),
        (ArchivedOffsets(0, 2, 2), (1, 0)),
    ],
)
def test_the_last_offset_in_an_archive_is_named(
    archived: ArchivedOffsets | None, answer: tuple[int, int]
) -> None:
    """Also once the disk has none of it, and after a start. Source: Kafka UnifiedLog."""

    async def test(home: BrokerHome) -> None:
        log = home.logs.partition("t", 0).log
        await home.produce("t", b"a", b"b", b"c")
        log.note_archived(archived)
        topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "timestamp": -5}]}]
        found = await home.ask("ListOffsets", 9, replicaId=-1, topics=topics)
        one = found["topics"][0]["partitions"][0]
        assert (one["offset"], one["leaderEpoch"]) == answer
        log.note_archived(None)

    with_broker(test)


def test_an_end_of_a_log_that_is_not_known_here_is_no_time() -> None:
    """A client of a later release would begin at an offset that it has not asked for."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a")
        topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "timestamp": -7}]}]
        answer = await home.ask("ListOffsets", 7, replicaId=-1, topics=topics)
        found = answer["topics"][0]["partitions"][0]
        assert (code(found), found["offset"]) == (ErrorCode.UNSUPPORTED_VERSION, -1)

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


def test_the_partitions_of_a_request_are_flushed_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its producer does not wait for one after the other; each fails by itself."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("many", 3)
        waiting = []

        def begin(partition: Partition, ended: Callable[[BaseException | None], None]) -> None:
            waiting.append((partition.partition, ended))
            if len(waiting) == 3:
                for number, one in waiting:
                    one(KafkaStorageError("the disk failed") if number == 1 else None)

        monkeypatch.setattr(home.broker._flushes, "begin", begin)
        records = build_batch([(1, None, b"a", ())])
        places = [{"index": number, "records": records} for number in range(3)]
        data = [{"name": "many", "partitionData": places}]
        async with asyncio.timeout(10):
            answer = await home.ask("Produce", 9, acks=-1, timeoutMs=1, topicData=data)
        found = [code(one) for one in answer["responses"][0]["partitionResponses"]]
        assert found == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]

    with_broker(test)


def test_a_fetch_that_wants_more_than_it_may_get_does_not_wait() -> None:
    """It could only wait until its time is over. Source: Kafka KafkaApis.handleFetchRequest."""

    async def test(home: BrokerHome) -> None:
        for _ in range(3):
            await home.produce("t", bytes(1000))
        async with asyncio.timeout(10):
            found = await home.fetch("t", wait_ms=60_000, minBytes=5000, maxBytes=2000)
        assert len(found["records"]) == 2000

    with_broker(test)


@pytest.mark.parametrize("isolation", [0, 1])
def test_a_fetch_of_an_older_segment_does_not_wait_for_more(isolation: int) -> None:
    """A read ends with its segment, whatever is appended. Source: Kafka DelayedFetch."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("s", config={"segment.bytes": str(1 << 20)})
        for _ in range(12):
            await home.produce("s", bytes(100_000))
        async with asyncio.timeout(10):
            found = await home.fetch("s", 9, wait_ms=60_000, minBytes=500_000, isolation=isolation)
        assert 100_000 < len(found["records"]) < 200_000
        last = await home.fetch("s", 11, wait_ms=1, minBytes=500_000, isolation=isolation)
        assert 100_000 < len(last["records"]) < 200_000

    with_broker(test)


def test_all_who_wait_for_a_flush_are_answered_though_one_of_them_fails() -> None:
    """Its error is the event loop's to report; who comes later is answered, too."""
    told: list[dict[str, object]] = []

    async def test(home: BrokerHome) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        flushes, partition = home.broker._flushes, home.logs.manager.partition("t", 0)
        heard: list[BaseException | None] = []

        def fail(_: BaseException | None) -> None:
            raise ZeroDivisionError

        async with asyncio.timeout(10):
            for one in (heard.append, fail, heard.append, fail, fail, heard.append):
                flushes.begin(partition, one)
            while len(heard) < 3:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
            await flushes.wait(partition)
        assert heard == [None] * 3
        assert not flushes._running

    with_broker(test)
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError] * 3


def test_an_answer_that_cannot_say_so_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would take an empty one for the truth; its connection is closed instead."""

    async def test(home: BrokerHome) -> None:
        def fail() -> None:
            raise KafkaStorageError("the disk failed")

        with monkeypatch.context() as patched:
            patched.setattr(home.logs.manager, "topics", fail)
            with pytest.raises(Disconnect, match="AddPartitionsToTxn failed: the disk failed"):
                await add(home, (7, 0))
            with pytest.raises(Disconnect, match="FindCoordinator failed: the disk failed"):
                await home.ask("FindCoordinator", 4, keyType=0, coordinatorKeys=["g"])
            answer = await home.ask("FindCoordinator", 3, keyType=0, key="g")
            assert code(answer) is ErrorCode.KAFKA_STORAGE_ERROR

    with_broker(test)
