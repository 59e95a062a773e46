"""Topics and settings, at a broker without sockets."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery.broker_home import (
    DATA,
    BrokerHome,
    code,
    commit,
    position,
    read,
    run,
    with_broker,
)

from tidelog.broker.client_request import FOLLOW
from tidelog.broker.dispatch import PendingOnThread
from tidelog.broker.node import DEFAULT_NODE_ID
from tidelog.config.log_config import LogConfig
from tidelog.datadir.birth import birth_values
from tidelog.error_codes import ErrorCode
from tidelog.errors import CommitPending
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_ids_that_are_not_known_are_looked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself would take a look at all topics."""

    async def test(home: BrokerHome) -> None:
        looks: list[None] = []
        plain = home.logs.manager.topics

        def topics() -> Any:
            looks.append(None)
            return plain()

        monkeypatch.setattr(home.logs.manager, "topics", topics)
        ids = [UUID(int=number) for number in range(1, 100)]
        given = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}
        wanted = [{"topicId": one, "partitions": [given]} for one in ids]
        fetched = await home.ask("Fetch", 17, maxWaitMs=0, topics=wanted)
        named = [{"topicId": one, "name": None} for one in ids]
        shown = await home.ask("Metadata", 12, topics=named)
        deleted = await home.ask("DeleteTopics", 6, topics=named)
        assert len(looks) <= 6
        answers = [one["partitions"][0] for one in fetched["responses"]]
        answers += [*shown["topics"], *deleted["responses"]]
        assert {code(one) for one in answers} == {ErrorCode.UNKNOWN_TOPIC_ID}

    with_broker(test)


def test_a_topic_that_is_deleted_by_its_id_is_not_one_made_since() -> None:
    """Others may delete it and make it again while the request waits for their changes."""

    async def test(home: BrokerHome) -> None:
        manager = home.logs.manager
        first = manager.topic("t").topic_id
        with manager.shared.registry.change_lock:
            named = [{"topicId": first, "name": None}]
            asked = home.asking("DeleteTopics", 6, topics=named)
            for _ in range(3):
                await asyncio.sleep(0)
            home.logs.delete_topic("t")
            home.logs.create_topic("t")
        (answer,) = (await asked)["responses"]
        assert code(answer) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert manager.topic("t").topic_id != first

    with_broker(test)


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


def test_a_request_for_a_topic_of_kafkas_own_creates_it_as_its_coordinator_does() -> None:
    """With one partition and small segments, whatever topics of clients have."""

    async def test(home: BrokerHome) -> None:
        for name in ("__consumer_offsets", "__transaction_state"):
            await home.ask("Metadata", 12, topics=[{"name": name}], allowAutoTopicCreation=True)
            assert len(home.logs.topic(name).partitions) == 1
            assert home.logs.config_of(name).segment_bytes == 100 << 20

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


@pytest.mark.parametrize("is_trial", [True, False])
def test_a_trial_is_refused_where_the_change_would_be(is_trial: bool) -> None:
    """What lies in the way of a new partition; a topic that a committed transaction creates."""

    async def test(home: BrokerHome) -> None:
        before = home.logs.topics()
        for name in ("new-1", "t-1"):
            home.files.make_directory(f"{DATA}/{name}")
        home.logs.manager.shared.topics.reserved["soon"] = UUID(int=7)
        usual = {"numPartitions": 2, "replicationFactor": 1}
        topics = [{"name": name, **usual} for name in ("new", "soon")]
        found = await home.ask("CreateTopics", 7, topics=topics, validateOnly=is_trial)
        more = [{"name": "t", "count": 2, "assignments": None}]
        wider = await home.ask("CreatePartitions", 3, topics=more, validateOnly=is_trial)
        answers = [*found["topics"], *wider["results"]]
        in_the_way = ErrorCode.KAFKA_STORAGE_ERROR
        assert list(map(code, answers)) == [in_the_way, CommitPending.code, in_the_way]
        assert home.logs.topics() == before
        del home.logs.manager.shared.topics.reserved["soon"]

    with_broker(test)


class CountedLock:
    """A lock that counts how often its thread has taken it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.depth = 0

    def __enter__(self) -> None:
        self._lock.__enter__()
        self.depth += 1

    def __exit__(self, *raised: object) -> None:
        self.depth -= 1
        self._lock.__exit__(*raised)


def test_a_list_is_added_to_while_nobody_else_changes_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two clients that add to what both have seen, one would undo the other's change."""

    async def test(home: BrokerHome) -> None:
        manager = home.logs.manager
        lock: Any = CountedLock(manager.shared.registry.change_lock)
        manager.shared.registry.change_lock = lock
        depths: list[int] = []
        plain = manager.topic

        def topic(name: str) -> Any:
            depths.append(lock.depth)
            return plain(name)

        monkeypatch.setattr(manager, "topic", topic)
        step = {"name": "cleanup.policy", "value": "compact", "configOperation": 2}
        given = {"resourceType": 2, "resourceName": "t", "configs": [step]}
        answer = await home.ask("IncrementalAlterConfigs", 1, resources=[given])
        assert code(answer["responses"][0]) is ErrorCode.NONE
        assert set(depths) == {1}
        assert home.logs.topic("t").config["cleanup.policy"] == "delete,compact"

    with_broker(test)


def test_a_list_is_changed_from_what_is_stored() -> None:
    """A setting for one run, as of ``-o``, would else be stored with the topic."""

    async def test(home: BrokerHome) -> None:
        home.logs.manager.shared.topics.overrides = {"cleanup.policy": "compact,delete"}
        home.logs.create_topic("own", config={"cleanup.policy": "compact"})
        born = birth_values(LogConfig()) | {"cleanup.policy": "compact"}
        home.logs.manager.create_topic("born", birth=born)
        for name, value, step, expected in (
            ("t", "compact", 3, "delete"),
            ("t", "compact", 2, "delete,compact"),
            ("own", "delete", 3, "compact"),
            ("born", "delete", 3, "compact"),
        ):
            one = {"name": "cleanup.policy", "value": value, "configOperation": step}
            given = {"resourceType": 2, "resourceName": name, "configs": [one]}
            answer = await home.ask("IncrementalAlterConfigs", 1, resources=[given])
            assert code(answer["responses"][0]) is ErrorCode.NONE
            assert home.logs.topic(name).config["cleanup.policy"] == expected

    with_broker(test)


def test_a_client_drops_no_birth_value() -> None:
    """Only programs that have joined may ask for that, by an operation that Kafka lacks."""

    async def test(home: BrokerHome) -> None:
        before = home.logs.topic("t")
        configs = [{"name": "retention.ms", "value": None, "configOperation": FOLLOW}]
        resources = [{"resourceType": 2, "resourceName": "t", "configs": configs}]
        answer = await home.ask("IncrementalAlterConfigs", 1, resources=resources)
        assert code(answer["responses"][0]) is ErrorCode.INVALID_REQUEST
        assert home.logs.topic("t") == before

    with_broker(test)


@pytest.mark.parametrize(
    ("step", "broker", "expected"),
    [
        (1, "1", ErrorCode.NONE),
        (1, "", ErrorCode.NONE),
        (1, "2", ErrorCode.INVALID_REQUEST),
        (0, "1", ErrorCode.INVALID_REQUEST),
        (2, "", ErrorCode.INVALID_REQUEST),
        (9, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_of_settings_of_the_service_only_a_deletion_succeeds(
    step: int, broker: str, expected: ErrorCode
) -> None:
    """It changes nothing: clients have set none. Kafka's tools delete throttles after a move."""

    async def test(home: BrokerHome) -> None:
        name = "leader.replication.throttled.rate"
        configs = [{"name": name, "value": "7", "configOperation": step}]
        resources = [{"resourceType": 4, "resourceName": broker, "configs": configs}]
        answer = await home.ask("IncrementalAlterConfigs", 1, resources=resources)
        assert code(answer["responses"][0]) is expected

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


@pytest.mark.parametrize("name", ["a b", "", "..", "a" * 250])
def test_of_a_name_that_no_topic_can_have_clients_hear_at_once(name: str) -> None:
    """For one that is unknown they wait until it is created, or their time is over."""

    async def test(home: BrokerHome) -> None:
        topics = [{"name": name}]
        for allowed in (False, True):
            answer = await home.ask("Metadata", 9, topics=topics, allowAutoTopicCreation=allowed)
            assert code(answer["topics"][0]) is ErrorCode.INVALID_TOPIC_EXCEPTION
        answer = await home.ask(
            "DescribeTopicPartitions", 0, topics=topics, responsePartitionLimit=1
        )
        assert code(answer["topics"][0]) is ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(test)


def test_a_client_may_do_everything() -> None:
    """Answers hold it for clients that ask for it; those with pages of topics always do."""

    async def test(home: BrokerHome) -> None:
        unasked = -(1 << 31)

        async def operations(name: str, version: int, **how: Any) -> dict[str, int]:
            answer = await home.ask(name, version, **how)
            parts = [answer, *answer.get("topics", ()), *answer.get("groups", ())]
            return {
                key: value.bit_count() if value != unasked else 0
                for part in parts
                for key, value in part.items()
                if key.lower().endswith("authorizedoperations")
            }

        topics = [{"name": "t"}]
        assert await operations(
            "Metadata",
            9,
            topics=topics,
            includeTopicAuthorizedOperations=True,
            includeClusterAuthorizedOperations=True,
        ) == {"clusterAuthorizedOperations": 7, "topicAuthorizedOperations": 8}
        asked = {"includeClusterAuthorizedOperations": True}
        assert await operations("DescribeCluster", 1, **asked) == {"clusterAuthorizedOperations": 7}
        asked = {"includeAuthorizedOperations": True}
        found = await operations("DescribeGroups", 5, groups=["g"], **asked)
        assert found == {"authorizedOperations": 5}
        found = await operations("DescribeGroups", 6, groups=["none"], **asked)
        assert found == {"authorizedOperations": 0}
        found = await operations("DescribeTopicPartitions", 0, topics=topics)
        assert found == {"topicAuthorizedOperations": 8}
        for name, version, how in (
            ("Metadata", 12, {"topics": topics}),
            ("DescribeCluster", 1, {}),
            ("DescribeGroups", 5, {"groups": ["g"]}),
        ):
            assert set((await operations(name, version, **how)).values()) == {0}

    with_broker(test)


def test_partitions_are_described_page_by_page() -> None:
    """In the order of names, from a cursor on; a topic that is gone has an error."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("a", 3)
        home.logs.create_topic("b", 2)

        async def page(limit: int, *names: str, cursor: Any = None) -> tuple[Any, Any]:
            answer = await home.ask(
                "DescribeTopicPartitions",
                0,
                topics=[{"name": name} for name in names],
                responsePartitionLimit=limit,
                cursor=cursor,
            )
            partitions = [each for one in answer["topics"] for each in one["partitions"]]
            assert all(each["eligibleLeaderReplicas"] == [] for each in partitions)
            assert all(each["lastKnownElr"] == [] for each in partitions)
            found = [
                (one["name"], code(one), [each["partitionIndex"] for each in one["partitions"]])
                for one in answer["topics"]
            ]
            return found, answer["nextCursor"]

        none, at_a_2 = ErrorCode.NONE, {"topicName": "a", "partitionIndex": 2}
        at_b_0 = {"topicName": "b", "partitionIndex": 0}
        assert await page(2) == ([("a", none, [0, 1])], at_a_2)
        rest = [("a", none, [2]), ("b", none, [0, 1]), ("t", none, [0])]
        assert await page(9, cursor=at_a_2) == (rest, None)
        assert await page(3, "b", "a") == ([("a", none, [0, 1, 2])], at_b_0)
        assert await page(2, "b", "a", cursor=at_b_0) == ([("b", none, [0, 1])], None)
        found, _ = await page(1, "t", "gone")
        assert found == [("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []), ("t", none, [0])]
        assert (await page(0, "t"))[0] == [("t", none, [0])]
        found, _ = await page(9, "t", cursor=at_b_0)
        assert found == [("t", ErrorCode.INVALID_REQUEST, [])]

    with_broker(test)


def test_partitions_are_assigned_to_the_one_broker_only() -> None:
    """Where they are; nothing is being moved that could be given up."""

    async def test(home: BrokerHome) -> None:
        me = DEFAULT_NODE_ID
        wanted = [("t", 0, [me]), ("t", 0, [me + 1]), ("t", 0, None), ("t", 1, [me])]
        answer = await home.ask(
            "AlterPartitionReassignments",
            1,
            topics=[
                {"name": name, "partitions": [{"partitionIndex": number, "replicas": replicas}]}
                for name, number, replicas in wanted
            ],
        )
        assert [code(one["partitions"][0]) for one in answer["responses"]] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    with_broker(test)


def test_topics_and_the_broker_are_what_has_settings() -> None:
    """An old request asks only for client metrics, of which there are none."""

    async def test(home: BrokerHome) -> None:
        async def listed(version: int, *kinds: int) -> list[tuple[str, int]]:
            answer = await home.ask("ListConfigResources", version, resourceTypes=list(kinds))
            assert code(answer) is ErrorCode.NONE
            return [(one["resourceName"], one["resourceType"]) for one in answer["configResources"]]

        me = str(DEFAULT_NODE_ID)
        assert await listed(1) == [("t", 2), (me, 4)]
        assert await listed(1, 2, 32) == [("t", 2)]
        assert await listed(0) == []
        strange = await home.ask("ListConfigResources", 1, resourceTypes=[3])
        assert code(strange) is ErrorCode.UNSUPPORTED_VERSION

    with_broker(test)


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


def test_internal_topics_are_compacted_whoever_asks_for_them() -> None:
    """Retention would delete the positions of groups that commit rarely."""

    async def test(home: BrokerHome) -> None:
        topics = [{"name": "__consumer_offsets"}]
        await home.ask("Metadata", 9, topics=topics, allowAutoTopicCreation=True)
        new = {"name": "__transaction_state", "numPartitions": 2, "replicationFactor": 1}
        await home.ask("CreateTopics", 7, topics=[new])
        for name in ("__consumer_offsets", "__transaction_state"):
            assert home.logs.manager.config_of(name).cleanup_policy == ("compact",)

    with_broker(test)


def test_a_topic_without_a_name_is_none() -> None:
    """Versions that have no ids may name none, which their answers have no place for."""

    async def test(home: BrokerHome) -> None:
        for version in (10, 11):
            found = await home.ask("Metadata", version, topics=[{"name": None}])
            assert [code(one) for one in found["topics"]] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        found = await home.ask("Metadata", 12, topics=[{"name": None}])
        assert [code(one) for one in found["topics"]] == [ErrorCode.UNKNOWN_TOPIC_ID]

    with_broker(test)


NUMBERS = range(1001)
ENDS = [{"partitionIndex": one, "timestamp": -1} for one in NUMBERS]
EPOCHS = [{"partition": one, "leaderEpoch": 0} for one in NUMBERS]
SETTINGS = {"resourceType": 2, "resourceName": "t", "configurationKeys": None}


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[asyncio.Runner, BrokerHome]]:
    """A broker with many partitions, and what runs its event loop."""

    async def entered() -> BrokerHome:
        home = await BrokerHome().__aenter__()
        home.logs.create_topic("t", len(NUMBERS))
        return home

    with asyncio.Runner() as runner:
        home = runner.run(entered())
        yield runner, home
        runner.run(home.__aexit__())


@pytest.mark.parametrize(
    ("name", "version", "values", "where"),
    [
        ("Metadata", 12, {"topics": None}, ("topics", 0, "partitions")),
        ("DescribeLogDirs", 2, {"topics": None}, ("results", 0, "topics", 0, "partitions")),
        ("DescribeConfigs", 4, {"resources": [SETTINGS] * 1001}, ("results",)),
        (
            "ListOffsets",
            6,
            {"topics": [{"name": "t", "partitions": ENDS}]},
            ("topics", 0, "partitions"),
        ),
        (
            "OffsetForLeaderEpoch",
            4,
            {"topics": [{"topic": "t", "partitions": EPOCHS}]},
            ("topics", 0, "partitions"),
        ),
    ],
)
def test_an_answer_about_much_is_not_made_on_the_loop(
    large: tuple[asyncio.Runner, BrokerHome],
    name: str,
    version: int,
    values: dict[str, Any],
    where: tuple[Any, ...],
) -> None:
    """All other clients would wait for it."""

    async def test(home: BrokerHome) -> None:
        found = home.send(name, version, **values)
        assert isinstance(found, PendingOnThread)
        parts = await found.parts()
        assert parts is not None
        rows: Any = read(name, version, parts)
        for step in where:
            rows = rows[step]
        assert len(rows) == len(NUMBERS)
        assert not any(row.get("errorCode") for row in rows)

    runner, home = large
    runner.run(test(home))


def test_settings_are_shown_without_what_is_not_wanted() -> None:
    """Topics share the settings that they have in common, and not those of their own."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("u", config={"retention.ms": "5"})
        for wanted in (False, True):
            answer = await home.ask(
                "DescribeConfigs",
                4,
                resources=[{**SETTINGS, "resourceName": name} for name in "tut"],
                includeSynonyms=wanted,
                includeDocumentation=wanted,
            )
            found = [
                next(one for one in topic["configs"] if one["name"] == "retention.ms")
                for topic in answer["results"]
            ]
            assert [one["value"] for one in found] == ["-1", "5", "-1"]
            assert [bool(one["synonyms"]) for one in found] == [wanted] * 3
            assert [bool(one["documentation"]) for one in found] == [wanted] * 3

    with_broker(test)


async def delete_before(home: BrokerHome, offset: int) -> Any:
    """Delete records of partition 0; return its answer."""
    asked = [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": offset}]}]
    answer = await home.ask("DeleteRecords", 2, topics=asked, timeoutMs=1000)
    return answer["topics"][0]["partitions"][0]


def test_deleted_records_do_not_come_back_after_a_power_cut() -> None:
    """As soon as the request is answered, though their segment stays."""
    files = CrashFileSystem()

    async def delete() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            await home.produce("t", b"a")
            await home.produce("t", b"b")
            assert (await delete_before(home, 1))["lowWatermark"] == 1
            home.cut_power()

    async def look() -> None:
        async with BrokerHome(files) as home:
            assert [one.value for one in home.logs.read("t")] == [b"b"]

    run(delete())
    run(look())


def test_a_deletion_that_cannot_be_kept_is_answered_with_an_error() -> None:
    """The client repeats it, until the disk takes it."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a")
        await home.produce("t", b"b")
        full = OSError(errno.ENOSPC, "full")
        home.files.fail("rename", "/log-start-offset-checkpoint.tmp", full)
        failed = await delete_before(home, 1)
        assert (code(failed), failed["lowWatermark"]) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        home.files.mend()
        assert (await delete_before(home, 1))["lowWatermark"] == 1

    with_broker(test)
