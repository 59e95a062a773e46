"""Answers that were compared with those of Kafka 4.3.1, field by field: what differed once."""

from __future__ import annotations

import asyncio
import struct
from typing import Any
from uuid import UUID

import pytest
from tests.machinery.broker_home import (
    BrokerHome,
    add,
    begun,
    code,
    commit,
    end,
    run,
    with_broker,
    write,
)

from tidelog.broker.client_request import Disconnect
from tidelog.codec.crc32c import crc32c
from tidelog.error_codes import ErrorCode
from tidelog.readonly.group_positions import OFFSETS_TOPIC
from tidelog.records.builder import build_batch
from tidelog.testing import CrashFileSystem, ManualClock


async def produced(home: BrokerHome, records: bytes, version: int = 9, **how: Any) -> Any:
    """Send records to partition 0 of a topic; return what is answered about it."""
    topic = how.pop("topic", "t")
    data = [{"name": topic, "partitionData": [{"index": 0, "records": records}]}]
    given = {"acks": 1, "timeoutMs": 1} | how
    answer = await home.ask("Produce", version, topicData=data, **given)
    return answer["responses"][0]["partitionResponses"][0]


def in_transaction(producer: tuple[int, int]) -> bytes:
    """Return the first batch of a producer's transaction."""
    return bytes(
        build_batch(
            [(1, b"k", b"v", ())],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
            transactional=True,
        )
    )


PLAIN = bytes(build_batch([(1, b"k", b"v", ())]))
LATE = in_transaction((0, 0))


# Produce


@pytest.mark.parametrize(
    ("records", "how", "expected"),
    [
        (PLAIN[:16] + b"\1" + PLAIN[17:], {}, ErrorCode.INVALID_RECORD),
        (PLAIN + PLAIN[:20] + b"\0" + PLAIN[21:], {}, ErrorCode.INVALID_RECORD),
        (LATE[:16] + b"\1" + LATE[17:], {}, ErrorCode.INVALID_RECORD),
        (LATE[:-1], {}, ErrorCode.INVALID_RECORD),
        (b"", {"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"", {"acks": 2}, ErrorCode.INVALID_RECORD),
        (PLAIN, {"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
    ids=["magic 1", "two", "magic 1 in a transaction", "cut", "no topic", "no records", "acks"],
)
def test_the_first_reason_to_refuse_a_batch_is_kafkas(
    records: bytes, how: dict[str, Any], expected: ErrorCode
) -> None:
    """CORRUPT_MESSAGE, for one, has clients send the same again until they give up."""

    async def test(home: BrokerHome) -> None:
        assert code(await produced(home, records, **how)) is expected

    with_broker(test)


def test_a_refused_batch_is_answered_with_the_log_start() -> None:
    """As every answer about a log that was looked into."""

    async def test(home: BrokerHome) -> None:
        home.logs.append("t", b"a")
        home.logs.delete_records("t", 0, 1)
        late = bytearray(PLAIN)
        struct.pack_into(">i", late, 57, 9)  # more records than there are
        struct.pack_into(">I", late, 17, crc32c(bytes(late[21:])))
        answer = await produced(home, bytes(late))
        assert (code(answer), answer["logStartOffset"]) == (ErrorCode.INVALID_RECORD, 1)

    with_broker(test)


@pytest.mark.parametrize(
    ("name", "producer", "version", "expected"),
    [
        (None, (0, 0), 9, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("", (0, 0), 9, ErrorCode.INVALID_REQUEST),
        ("y", (0, 0), 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", (9, 0), 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", (0, 1), 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        ("x", (0, 0), 10, ErrorCode.INVALID_TXN_STATE),
        ("x", (0, 0), 11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_why_records_are_in_no_transaction_is_said(
    name: str | None, producer: tuple[int, int], version: int, expected: ErrorCode
) -> None:
    """By it a client aborts its transaction, begins again, or ends. Source: KIP-890."""

    async def test(home: BrokerHome) -> None:
        producer_id, epoch = await begun(home)
        records = in_transaction((producer_id + producer[0], epoch + producer[1]))
        answer = await produced(home, records, version, transactionalId=name)
        assert code(answer) is expected

    with_broker(test)


@pytest.mark.parametrize("acks", [1, 0])
def test_records_of_a_transaction_without_its_id_are_no_request(acks: int) -> None:
    """Nothing of it is written; a client without acks hears it by the end of the connection."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        data = [
            {"name": "none", "partitionData": [{"index": 3, "records": PLAIN}]},
            {
                "name": "t",
                "partitionData": [
                    {"index": 0, "records": PLAIN},
                    {"index": 1, "records": in_transaction(producer)},
                ],
            },
        ]
        given: dict[str, Any] = {"acks": acks, "timeoutMs": 1, "topicData": data}
        if acks:
            answer = await home.ask("Produce", 9, **given)
            found = [code(p) for one in answer["responses"] for p in one["partitionResponses"]]
            assert found == 3 * [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        else:
            with pytest.raises(Disconnect):
                await home.ask("Produce", 9, **given)
        assert home.logs.count_records("t").records == 0

    with_broker(test)


# Transactions


async def positions(home: BrokerHome, producer: tuple[int, int], **how: Any) -> Any:
    """Commit a position in a transaction; return the code."""
    place = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    given = {"transactionalId": "x", "groupId": "g"} | how
    answer = await home.ask(
        "TxnOffsetCommit",
        given.pop("version", 3),
        producerId=producer[0],
        producerEpoch=producer[1],
        topics=[{"name": given.pop("topic", "t"), "partitions": [place]}],
        **given,
    )
    return code(answer["topics"][0]["partitions"][0])


def test_positions_of_no_producer_are_refused() -> None:
    """The connection was closed; the other reasons come in Kafka's order."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        stale: dict[str, Any] = {"generationId": 3, "memberId": "gone"}
        assert await positions(home, (-1, -1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await positions(home, producer, **stale) is ErrorCode.INVALID_TXN_STATE
        assert await positions(home, producer, version=4) is ErrorCode.TRANSACTION_ABORTABLE
        assert await positions(home, producer, groupId="") is ErrorCode.INVALID_GROUP_ID
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await positions(home, producer, topic="none", **stale) is unknown

    with_broker(test)


def test_a_refused_producer_gets_no_epoch() -> None:
    """An epoch of 0 is a valid one."""

    async def test(home: BrokerHome) -> None:
        usual: dict[str, Any] = {"transactionalId": "x", "transactionTimeoutMs": 1}
        for values in ({"transactionTimeoutMs": 0}, {"producerEpoch": 2, "transactionalId": None}):
            given = usual | values
            answer = await home.ask("InitProducerId", 4, **given)
            assert code(answer) in {
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                ErrorCode.INVALID_REQUEST,
            }
            assert (answer["producerId"], answer["producerEpoch"]) == (-1, -1)

    with_broker(test)


def test_a_client_does_not_add_internal_topics_to_its_transaction() -> None:
    """Its markers would go into the records of groups; AddOffsetsToTxn adds what is needed."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        answer = await home.ask(
            "AddPartitionsToTxn",
            3,
            transactionalId="x",
            producerId=producer[0],
            producerEpoch=producer[1],
            topics=[
                {"name": "__transaction_state", "partitions": [0]},
                {"name": "t", "partitions": [0]},
            ],
        )
        codes = [one["resultsByPartition"][0]["partitionErrorCode"] for one in answer["results"]]
        assert codes == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        ]

    with_broker(test)


def test_transactions_that_have_none_open_pass_the_filter_by_duration() -> None:
    """Their start is -1; ``kafka-transactions.sh list`` shows them."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await add(home, producer) is ErrorCode.NONE
        assert await write(home, producer, b"a", 0) is ErrorCode.NONE
        asked: dict[str, Any] = {"stateFilters": [], "producerIdFilters": []}
        listed = await home.ask("ListTransactions", 1, durationFilter=1000, **asked)
        assert not listed["transactionStates"]
        assert await end(home, producer) is ErrorCode.NONE
        await begun(home)
        listed = await home.ask("ListTransactions", 1, durationFilter=1000, **asked)
        assert [one["transactionalId"] for one in listed["transactionStates"]] == ["x"]
        shown = await home.ask("DescribeTransactions", 0, transactionalIds=[""])
        assert code(shown["transactionStates"][0]) is ErrorCode.INVALID_REQUEST

    with_broker(test)


# Offsets


def test_the_leader_epoch_of_an_empty_log_is_known() -> None:
    """It is the one in Metadata, by which a consumer finds out whether records were lost."""

    async def test(home: BrokerHome) -> None:
        for time in (-1, -2, -4):
            place = {"partitionIndex": 0, "timestamp": time}
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask("ListOffsets", 8, replicaId=-1, topics=topics)
            (found,) = answer["topics"][0]["partitions"]
            assert (found["offset"], found["leaderEpoch"]) == (0, 0)
        place = {"partition": 0, "leaderEpoch": 0}
        topics = [{"topic": "t", "partitions": [place]}]
        answer = await home.ask("OffsetForLeaderEpoch", 4, topics=topics)
        (found,) = answer["topics"][0]["partitions"]
        assert (found["leaderEpoch"], found["endOffset"]) == (0, 0)

    with_broker(test)


@pytest.mark.parametrize(("time", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)])
def test_an_end_of_a_log_is_known_from_a_version_on(time: int, first: int) -> None:
    """What an older client means by such a time nobody knows."""

    async def test(home: BrokerHome) -> None:
        for version in (first - 1, min(first, 11)):
            place = {"partitionIndex": 0, "timestamp": time}
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask("ListOffsets", version, replicaId=-1, topics=topics)
            (found,) = answer["topics"][0]["partitions"]
            is_known = version >= first
            assert (code(found) is ErrorCode.UNSUPPORTED_VERSION) is not is_known

    with_broker(test)


def test_a_fetch_is_told_where_its_records_part_from_the_log() -> None:
    """By the epoch of the last record that the client has. Source: KIP-595."""

    async def test(home: BrokerHome) -> None:
        home.logs.append("t", b"a")

        async def fetched(offset: int, epoch: int) -> Any:
            given = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
            topics = [{"topic": "t", "partitions": [given | {"lastFetchedEpoch": epoch}]}]
            answer = await home.ask("Fetch", 12, maxWaitMs=60_000, minBytes=1, topics=topics)
            return answer["responses"][0]["partitions"][0]

        assert (await fetched(0, 0))["records"]
        assert code(await fetched(0, 7)) is ErrorCode.OFFSET_OUT_OF_RANGE
        parted = await fetched(5, 0)
        assert code(parted) is ErrorCode.NONE
        assert (parted["divergingEpoch"], parted["records"]) == ({"epoch": 0, "endOffset": 1}, b"")

    with_broker(test)


# Groups


async def joined(home: BrokerHome, **how: Any) -> Any:
    """Let a member join a group."""
    given: dict[str, Any] = {
        "groupId": "g",
        "sessionTimeoutMs": 10_000,
        "rebalanceTimeoutMs": 10_000,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }
    version = how.pop("version", 4)
    return await home.ask("JoinGroup", version, **(given | how))


@pytest.mark.parametrize("is_read_again", [False, True])
def test_positions_expire_when_an_older_client_has_said(is_read_again: bool) -> None:
    """Sooner or later than the broker's own time, and whatever that is since its group was left."""
    files, clock, minute = CrashFileSystem(), ManualClock(), 60_000
    wanted = {"soon": minute, "late": 20 * minute, "as others": -1, "ever": (1 << 63) - 1}

    async def before(home: BrokerHome) -> None:
        home.logs.create_topic("t")
        for group, retention_ms in wanted.items():
            place = {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": None}
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask(
                "OffsetCommit", 3, groupId=group, retentionTimeMs=retention_ms, topics=topics
            )
            assert code(answer["topics"][0]["partitions"][0]) is ErrorCode.NONE

    async def after(home: BrokerHome) -> None:
        left = []
        for minutes in (0, 1, 4, 15):
            clock.advance(minutes * minute)
            home.broker._expire()
            left.append(sorted(home.logs.groups.positions()))
        assert left == [
            ["as others", "ever", "late", "soon"],
            ["as others", "ever", "late"],
            ["ever", "late"],
            ["ever"],
        ]

    async def both() -> None:
        async with BrokerHome(files, clock, offsets_retention_minutes=5) as home:
            await before(home)
            if not is_read_again:
                await after(home)
        if is_read_again:
            async with BrokerHome(files, clock, offsets_retention_minutes=5) as home:
                await after(home)

    run(both())


def test_a_deleted_group_keeps_no_part_of_a_commit_of_another_client() -> None:
    """It comes before the deletion as a whole, or after it."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("two", 2)

        async def commits(numbers: list[int]) -> None:
            place = {"committedOffset": 5, "committedMetadata": None}
            partitions = [{**place, "partitionIndex": number} for number in numbers]
            topics = [{"name": "two", "partitions": partitions}]
            await home.ask("OffsetCommit", 8, groupId="g", topics=topics)

        await commits([0])
        deletion = home.asking("DeleteGroups", 2, groupsNames=["g"])
        await asyncio.sleep(0)
        await commits([0, 1])
        assert code((await deletion)["results"][0]) is ErrorCode.NONE
        left = sorted(key.partition for key in home.logs.groups.committed("g"))
        assert left in ([], [0, 1])

    with_broker(test)


def test_what_is_too_large_to_be_written_down_is_refused_for_good() -> None:
    """On a word that may pass, members would join again without end, and be refused again."""

    async def test(home: BrokerHome) -> None:
        member_id = (await joined(home))["memberId"]
        generation = (await joined(home, memberId=member_id))["generationId"]
        member = {"groupId": "g", "memberId": member_id}
        large = {"memberId": member_id, "assignment": bytes(2 << 20)}
        synced = await home.ask(
            "SyncGroup", 3, generationId=generation, assignments=[large], **member
        )
        assert code(synced) is ErrorCode.UNKNOWN_SERVER_ERROR
        beat = await home.ask("Heartbeat", 3, generationId=generation, **member)
        assert code(beat) is ErrorCode.REBALANCE_IN_PROGRESS

        home.logs.alter_topic(OFFSETS_TOPIC, {"max.message.bytes": "80"})
        assert await commit(home, 5, group="other") is ErrorCode.UNKNOWN_SERVER_ERROR

    with_broker(test)


def test_a_refused_member_keeps_its_id() -> None:
    """The answer names it."""

    async def test(home: BrokerHome) -> None:
        for values in ({"sessionTimeoutMs": 1}, {"groupId": ""}, {"groupId": "none"}):
            assert (await joined(home, memberId="me", **values))["memberId"] == "me"

    with_broker(test)


def test_a_member_says_by_which_protocol_it_was_assigned_to() -> None:
    """Both names or INCONSISTENT_GROUP_PROTOCOL. Source: KIP-559."""

    async def test(home: BrokerHome) -> None:
        member = await joined(home, version=3)
        given: dict[str, Any] = {"groupId": "g", "generationId": 1}
        given["memberId"] = member["memberId"]
        half = await home.ask("SyncGroup", 5, protocolType="consumer", assignments=[], **given)
        assert code(half) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        given |= {"protocolType": "consumer", "protocolName": "range", "assignments": []}
        assert code(await home.ask("SyncGroup", 5, **given)) is ErrorCode.NONE

    with_broker(test)


def test_members_that_leave_together_are_in_no_later_generation() -> None:
    """The last one that is waited for, and one that has joined: the others get the next leader."""

    async def test(home: BrokerHome) -> None:
        names = [(await joined(home))["memberId"] for _ in range(3)]
        first = await joined(home, memberId=names[0])
        waits = [asyncio.ensure_future(joined(home, memberId=name)) for name in names[1:]]
        await asyncio.sleep(0)
        leaving = [{"memberId": name, "groupInstanceId": None} for name in (*names[:2], names[1])]
        answer = await home.ask("LeaveGroup", 3, groupId="g", members=leaving)
        gone, stays = [await one for one in waits]
        codes = [code(one) for one in answer["members"]]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        assert code(gone) is ErrorCode.UNKNOWN_MEMBER_ID
        assert (stays["leader"], stays["generationId"]) == (names[2], first["generationId"] + 1)

    with_broker(test)


def test_an_assignment_is_shown_during_a_rebalance() -> None:
    """It is what the members still read."""

    async def test(home: BrokerHome) -> None:
        member = (await joined(home, version=3))["memberId"]
        assigned = [{"memberId": member, "assignment": b"all"}]
        await home.ask(
            "SyncGroup", 3, groupId="g", generationId=1, memberId=member, assignments=assigned
        )
        await joined(home, version=3, memberId=member)
        answer = await home.ask("DescribeGroups", 5, groups=["g"])
        (group,) = answer["groups"]
        assert group["groupState"] == "CompletingRebalance"
        assert group["members"][0]["memberAssignment"] == b"all"

    with_broker(test)


async def committed(home: BrokerHome, version: int = 8, topic: str = "t", **how: Any) -> Any:
    """Commit a position; return the code."""
    place = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
    topics = [{"name": topic, "partitions": [place]}]
    answer = await home.ask("OffsetCommit", version, topics=topics, **({"groupId": "g"} | how))
    return code(answer["topics"][0]["partitions"][0])


@pytest.mark.parametrize(("version", "expected"), [(5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_group_that_there_is_not_is_not_found(version: int, expected: ErrorCode) -> None:
    """Older tools know a dead group instead. Source: KIP-1043."""

    async def test(home: BrokerHome) -> None:
        answer = await home.ask("DescribeGroups", version, groups=["none"])
        (found,) = answer["groups"]
        assert (code(found), found["groupState"]) == (expected, "Dead")
        assert not expected or "none" in found["errorMessage"]  # tools print nothing else

    with_broker(test)


def test_why_a_position_is_refused_is_said_in_kafkas_order() -> None:
    """That there is no such partition comes first; a group that is gone has words of its own."""

    async def test(home: BrokerHome) -> None:
        stale: dict[str, Any] = {"generationId": 3, "memberId": "gone"}
        assert await committed(home, topic="none", **stale) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await committed(home, **stale) is ErrorCode.ILLEGAL_GENERATION
        assert await committed(home, version=9, **stale) is ErrorCode.GROUP_ID_NOT_FOUND
        assert await committed(home) is ErrorCode.NONE
        assert await committed(home, **stale) is ErrorCode.UNKNOWN_MEMBER_ID

    with_broker(test)


def test_positions_of_partitions_that_there_are_not_are_not_deleted() -> None:
    """Nor is a group without a name looked for."""

    async def test(home: BrokerHome) -> None:
        assert await committed(home) is ErrorCode.NONE
        topics = [{"name": "none", "partitions": [{"partitionIndex": 0}]}]
        answer = await home.ask("OffsetDelete", 0, groupId="g", topics=topics)
        (found,) = answer["topics"][0]["partitions"]
        assert code(found) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer = await home.ask("OffsetDelete", 0, groupId="", topics=topics)
        assert code(answer) is ErrorCode.INVALID_GROUP_ID

    with_broker(test)


# Topics and settings


async def created(home: BrokerHome, *topics: dict[str, Any], is_trial: bool = False) -> list[Any]:
    """Create topics; return the answers."""
    usual = {"numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    asked = [usual | one for one in topics]
    answer = await home.ask("CreateTopics", 7, topics=asked, validateOnly=is_trial)
    found: list[Any] = answer["topics"]
    return found


@pytest.mark.parametrize("is_trial", [True, False])
def test_the_first_reason_not_to_create_a_topic_is_kafkas(is_trial: bool) -> None:
    """Its name, then that it is there, its settings, its partitions; a trial says the same."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("a.b")
        bad = {"numPartitions": 0, "configs": [{"name": "retention.ms", "value": "x"}]}
        for name, expected in (
            ("b c", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("t", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("new", ErrorCode.INVALID_CONFIG),
        ):
            (answer,) = await created(home, {"name": name, **bad}, is_trial=is_trial)
            assert code(answer) is expected
        (answer,) = await created(home, {"name": "new", "numPartitions": 0}, is_trial=is_trial)
        assert code(answer) is ErrorCode.INVALID_PARTITIONS

    with_broker(test)


def test_a_trial_says_what_the_topic_would_be() -> None:
    """With the settings that it would have, from version 5 on. Source: KIP-525."""

    async def test(home: BrokerHome) -> None:
        asked = {
            "name": "new",
            "numPartitions": -1,
            "assignments": [{"partitionIndex": n, "brokerIds": [1]} for n in range(2)],
            "replicationFactor": -1,
            "configs": [{"name": "retention.ms", "value": "5"}],
        }
        (trial,) = await created(home, asked, is_trial=True)
        assert "new" not in home.logs.topics()
        (answer,) = await created(home, asked)
        assert trial == answer | {"topicId": UUID(int=0)}
        assert trial["numPartitions"] == 2

    with_broker(test)


def test_a_topic_that_is_named_twice_is_answered_once() -> None:
    """A client looks the answer up by the name."""

    async def test(home: BrokerHome) -> None:
        answers = await created(home, {"name": "u"}, {"name": "u"}, {"name": "v"})
        found = [(one["name"], code(one)) for one in answers]
        assert found == [("u", ErrorCode.INVALID_REQUEST), ("v", ErrorCode.NONE)]

    with_broker(test)


async def shown(home: BrokerHome, kind: int, name: str, keys: list[str] | None) -> Any:
    """Return the answer of DescribeConfigs about one resource."""
    given = {"resourceType": kind, "resourceName": name, "configurationKeys": keys}
    answer = await home.ask("DescribeConfigs", 4, resources=[given], includeSynonyms=True)
    return answer["results"][0]


def test_settings_are_shown_as_kafkas_tools_expect_them() -> None:
    """What the broker has is named as there; no keys mean all, and no broker's name its own."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("u", config={"cleanup.policy": "compact"})
        (found,) = (await shown(home, 2, "u", ["cleanup.policy"]))["configs"]
        names = [(one["name"], one["value"]) for one in found["synonyms"]]
        assert names == [("cleanup.policy", "compact"), ("log.cleanup.policy", "delete")]
        assert found["documentation"] is None
        (found,) = (await shown(home, 2, "u", ["segment.jitter.ms"]))["configs"]
        assert [one["name"] for one in found["synonyms"]] == ["log.roll.jitter.ms"]
        (found,) = (await shown(home, 4, "1", ["message.max.bytes"]))["configs"]
        assert [one["name"] for one in found["synonyms"]] == ["message.max.bytes"]
        values = {one["name"]: one["value"] for one in (await shown(home, 2, "u", []))["configs"]}
        assert len(values) > 1
        assert None not in values.values()
        assert (await shown(home, 4, "", None))["configs"] == []
        assert code(await shown(home, 2, "b c", None)) is ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(test)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (8, "1", ErrorCode.NONE),
        (8, "7", ErrorCode.INVALID_REQUEST),
        (8, "", ErrorCode.INVALID_REQUEST),
        (16, "any", ErrorCode.NONE),
        (16, "", ErrorCode.INVALID_REQUEST),
        (32, "any", ErrorCode.NONE),
        (32, "", ErrorCode.INVALID_REQUEST),
        (3, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_here_is_shown_without(
    kind: int, name: str, expected: ErrorCode
) -> None:
    """Loggers, client metrics and groups: a tool that asks for all of them sees that."""

    async def test(home: BrokerHome) -> None:
        found = await shown(home, kind, name, None)
        assert (code(found), found["configs"]) == (expected, [])
        for step, is_change in ((1, False), (0, True)):
            change = {"name": "interval.ms", "configOperation": step, "value": "1"}
            given = {"resourceType": kind, "resourceName": name, "configs": [change]}
            answer = await home.ask("IncrementalAlterConfigs", 1, resources=[given])
            refused = is_change or kind == 8
            changed = ErrorCode.INVALID_REQUEST if refused else expected
            assert code(answer["responses"][0]) is changed

    with_broker(test)


def test_a_setting_without_a_value_is_no_request() -> None:
    """To take one away is another step."""

    async def test(home: BrokerHome) -> None:
        step = {"name": "retention.ms", "configOperation": 0, "value": None}
        given = {"resourceType": 2, "resourceName": "t", "configs": [step]}
        for name, version in (("IncrementalAlterConfigs", 1), ("AlterConfigs", 2)):
            answer = await home.ask(name, version, resources=[given])
            assert code(answer["responses"][0]) is ErrorCode.INVALID_REQUEST

    with_broker(test)


def test_whether_replicas_may_be_added_is_repeated() -> None:
    """The answer says it as the request did."""

    async def test(home: BrokerHome) -> None:
        for allowed in (True, False):
            answer = await home.ask(
                "AlterPartitionReassignments", 1, allowReplicationFactorChange=allowed, topics=[]
            )
            assert answer["allowReplicationFactorChange"] is allowed

    with_broker(test)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (1, ErrorCode.NONE),
    ],
)
def test_who_takes_the_broker_for_a_controller_is_told(kind: int, expected: ErrorCode) -> None:
    """With ``--bootstrap-controller``, tools would send it what only controllers understand."""

    async def test(home: BrokerHome) -> None:
        assert code(await home.ask("DescribeCluster", 1, endpointType=kind)) is expected
        assert code(await home.ask("DescribeCluster", 0)) is ErrorCode.NONE

    with_broker(test)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_who_asks_for_access_rules_is_told_that_they_are_off(version: int) -> None:
    """As at a broker without an authorizer: MirrorMaker, which would copy them, leaves them out."""

    async def test(home: BrokerHome) -> None:
        anything = {"resourceTypeFilter": 1, "operation": 1, "permissionType": 1}
        answer = await home.ask("DescribeAcls", version, "me", patternTypeFilter=1, **anything)
        assert code(answer) is ErrorCode.SECURITY_DISABLED
        assert answer["resources"] == []

    with_broker(test)


def test_an_election_of_no_kind_is_refused() -> None:
    """There are two kinds."""

    async def test(home: BrokerHome) -> None:
        answer = await home.ask("ElectLeaders", 2, electionType=7, topicPartitions=[])
        assert code(answer) is ErrorCode.INVALID_REQUEST
        answer = await home.ask("ElectLeaders", 2, electionType=1, topicPartitions=[])
        assert code(answer) is ErrorCode.NONE

    with_broker(test)


def test_why_there_is_no_election_is_said() -> None:
    """Tools show the text."""

    async def test(home: BrokerHome) -> None:
        partitions = [{"topic": "t", "partitions": [0, 1]}]
        answer = await home.ask("ElectLeaders", 2, electionType=0, topicPartitions=partitions)
        led, unknown = answer["replicaElectionResults"][0]["partitionResult"]
        assert (code(led), led["errorMessage"]) == (
            ErrorCode.ELECTION_NOT_NEEDED,
            "the one broker leads it",
        )
        assert code(unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert unknown["errorMessage"]

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "expected"),
    [
        ("t", 7, -2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (OFFSETS_TOPIC, 7, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, -2, ErrorCode.POLICY_VIOLATION),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_why_records_are_not_deleted_is_said_in_kafkas_order(
    topic: str, partition: int, offset: int, expected: ErrorCode
) -> None:
    """First that there is no such partition, then that it is the broker's own, then the rest."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("compacted", config={"cleanup.policy": "compact"})
        one = {"partitionIndex": partition, "offset": offset}
        topics = [{"name": topic, "partitions": [one]}]
        answer = await home.ask("DeleteRecords", 2, topics=topics, timeoutMs=1)
        assert code(answer["topics"][0]["partitions"][0]) is expected

    with_broker(test)


def test_producers_of_a_topic_that_cannot_be_are_not_looked_for() -> None:
    """Clients would wait for a topic that is only unknown."""

    async def test(home: BrokerHome) -> None:
        topics = [{"name": "a/b", "partitionIndexes": [0]}]
        answer = await home.ask("DescribeProducers", 0, topics=topics)
        assert code(answer["topics"][0]["partitions"][0]) is ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(test)
