"""What time does at a broker of Kafka and at ours, both with short timeouts: clients see the same.

A scene runs at both at the same time; at its end, what they have answered is compared.
"""

from __future__ import annotations

import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.compat.two_brokers import Side, codes, differences
from tests.machinery.brokers import served

from tidelog.broker.transactions import transaction_coordinator
from tidelog.env.waiting import sleep_ms
from tidelog.error_codes import ErrorCode
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.compat.conftest import Kafka
    from tests.conftest import Enumerated

pytestmark = [pytest.mark.compat, pytest.mark.slow]

LOOK_MS: Final = 200
TRANSACTION_MS: Final = 1000
SESSION_MS, REBALANCE_MS = 3000, 1500
EXPIRY_MS: Final = 3000
ENOUGH_MS: Final = 2500
"""For each of them, and some looks."""
OF_LISTENERS: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.retention.check.interval.ms": LOOK_MS,
}
OF_LOGS: Final = {
    "log.initial.task.delay.ms": LOOK_MS,
    "log.retention.check.interval.ms": LOOK_MS,
    "log.retention.ms": -1,
    "producer.id.expiration.ms": EXPIRY_MS,
    "producer.id.expiration.check.interval.ms": LOOK_MS,
    "transactional.id.expiration.ms": EXPIRY_MS,
}
OF_KAFKA: Final = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": LOOK_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": LOOK_MS,
}
AT_WORK: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Scene:
    """One of the brokers, and what it has answered; topic, group and ids are called ``name``."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.answers: list[tuple[str, Any]] = []
        self.side = Side(port)
        self._open = ExitStack()
        self._open.callback(self.side.close)
        for kind in (0, 1):  # else Kafka has no coordinator yet
            self.ask("FindCoordinator", 4, keyType=kind, coordinatorKeys=[name])

    def ask(self, name: str, version: int, **values: Any) -> Any:
        """Return an answer with the ids of this broker; it is to be the same at both.

        While the broker is still at work, it is asked again.
        """
        for _ in range(500):
            found = self.side.ask(name, version, values)
            if not codes(found) & AT_WORK:
                break
            sleep_ms(20)
        self.keep(name, found)
        return found

    def keep(self, name: str, answer: Any) -> None:
        """Have an answer compared."""
        self.answers.append((name, self.side.seen(answer)))

    def begin(self, name: str, version: int, **values: Any) -> Future[Any]:
        """Ask what may take its time, on a connection of its own."""
        side, pool = self.side.beside(), ThreadPoolExecutor(1)
        self._open.callback(side.close)
        future = pool.submit(side.ask, name, version, values)
        pool.shutdown(wait=False)
        return future

    def close(self) -> None:
        """Close all connections."""
        self._open.close()

    # Topics

    def create(self, **settings: str) -> None:
        """Create the topic."""
        configs = [{"name": name.replace("_", "."), "value": one} for name, one in settings.items()]
        shape = {"numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": configs}
        self.ask("CreateTopics", 4, timeoutMs=9000, topics=[{"name": self.name, **shape}])
        self.offsets(-1)

    def set(self, setting: str, value: str) -> None:
        """Change a setting of the topic."""
        changes = [{"name": setting, "configOperation": 0, "value": value}]
        given = {"resourceType": 2, "resourceName": self.name, "configs": changes}
        self.ask("IncrementalAlterConfigs", 1, resources=[given], validateOnly=False)

    def of_topic(self, name: str = "name", /, **partition: Any) -> list[dict[str, Any]]:
        """Return the part of a request that is about the one partition."""
        return [{name: self.name, "partitions": [partition]}]

    def produce(self, version: int = 9, **how: Any) -> Any:
        """Send a record, which takes most of a segment."""
        records = build_batch([(how.pop("time", 1_700_000_000_000), None, b"v" * 99, ())], **how)
        name = self.name if how.get("transactional") else None
        data = [{"name": self.name, "partitionData": [{"index": 0, "records": bytes(records)}]}]
        given = {"transactionalId": name, "acks": -1, "timeoutMs": 5000}
        return self.ask("Produce", version, topicData=data, **given)

    def offsets(self, *times: int) -> None:
        """Look up offsets, for readers of all and of committed records."""
        for time in times:
            for isolation in (0, 1):
                place = self.of_topic(partitionIndex=0, currentLeaderEpoch=-1, timestamp=time)
                self.ask("ListOffsets", 7, replicaId=-1, isolationLevel=isolation, topics=place)

    def fetch(self, *offsets: int) -> None:
        """Fetch committed records from offsets on."""
        for offset in offsets:
            whole: dict[str, Any] = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20}
            whole |= {"replicaId": -1, "isolationLevel": 1, "forgottenTopicsData": []}
            place = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
            self.ask("Fetch", 11, topics=self.of_topic("topic", **place), **whole)

    def producers(self) -> None:
        """Look at what is known of producers."""
        self.ask("DescribeProducers", 0, topics=[{"name": self.name, "partitionIndexes": [0]}])

    # Transactions

    def init(self, version: int = 4, known: tuple[int, int] = (-1, -1)) -> tuple[int, int]:
        """Begin a producer; return its id and epoch."""
        given = {"transactionalId": self.name, "transactionTimeoutMs": TRANSACTION_MS}
        answer = self.ask(
            "InitProducerId", version, producerId=known[0], producerEpoch=known[1], **given
        )
        return answer["producerId"], answer["producerEpoch"]

    def in_transaction(self, name: str, version: int, producer: tuple[int, int], **how: Any) -> Any:
        """Send a request of a transaction."""
        ids = {"producerId": producer[0], "producerEpoch": producer[1]}
        return self.ask(name, version, transactionalId=self.name, **ids, **how)

    def every_request(self, producer: tuple[int, int]) -> None:
        """Send all that a producer may send in a transaction, in old and new versions."""
        topics = [{"name": self.name, "partitions": [0]}]
        position = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
        ids = dict(zip(("producer_id", "producer_epoch"), producer, strict=True))
        for version in (9, 11):
            self.produce(version, transactional=True, base_sequence=1, **ids)
        for version in (1, 3):
            self.in_transaction("AddPartitionsToTxn", version, producer, topics=topics)
            self.in_transaction("AddOffsetsToTxn", version, producer, groupId=self.name)
            place = self.of_topic(**position)
            self.in_transaction(
                "TxnOffsetCommit", version, producer, groupId=self.name, topics=place
            )
            for committed in (True, False):
                self.in_transaction("EndTxn", version, producer, committed=committed)

    # Groups

    def join(self, member: str = "", instance: str | None = None) -> Future[Any]:
        """Join the group; a new member without an instance asks for its id first."""
        given: dict[str, Any] = {"groupId": self.name, "protocolType": "consumer"}
        given |= {"sessionTimeoutMs": SESSION_MS, "rebalanceTimeoutMs": REBALANCE_MS}
        given |= {"protocols": [{"name": "range", "metadata": b"m"}], "groupInstanceId": instance}
        if not member and instance is None:
            member = self.ask("JoinGroup", 7, memberId="", **given)["memberId"]
        return self.begin("JoinGroup", 7, memberId=member, **given)

    def sync(self, joined: dict[str, Any], instance: str | None = None) -> Future[Any]:
        """Ask what a member was assigned; the leader assigns to all."""
        given = {"groupId": self.name, "protocolType": "consumer", "protocolName": "range"}
        given |= {"generationId": joined["generationId"], "memberId": joined["memberId"]}
        me = joined["memberId"]
        shares = [
            {"memberId": one["memberId"], "assignment": b"mine" if one["memberId"] == me else b"of"}
            for one in joined["members"]
        ]
        return self.begin("SyncGroup", 5, groupInstanceId=instance, assignments=shares, **given)

    def two(self, *instances: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the answers to two members that have joined, of which the first leads."""
        names = (*instances, None, None)[:2]
        if not instances:  # else Kafka forgets a group at once that has given out an id only
            self.create()
            place = self.of_topic(partitionIndex=0, committedOffset=1, committedMetadata="")
            self.ask("OffsetCommit", 2, groupId=self.name, topics=place)
        first = self.join(instance=names[0]).result()
        waits = self.join(instance=names[1])
        sleep_ms(500)
        leads = self.join(first["memberId"], names[0])
        found = leads.result(), waits.result()
        for one in found:
            self.keep("JoinGroup", one)
        return found

    def alive(self, joined: dict[str, Any], ms: int, instance: str | None = None) -> None:
        """Send heartbeats for some time, at most until one is refused, which is compared."""
        ids = {"generationId": joined["generationId"], "memberId": joined["memberId"]}
        given = {"groupId": self.name, "groupInstanceId": instance, **ids}
        for _ in range(ms // 100):
            answer = self.side.ask("Heartbeat", 4, given)
            if codes(answer) != {0}:
                break
            sleep_ms(100)
        self.keep("Heartbeat", answer)

    def show(self) -> None:
        """Look at the group, and at its position."""
        for version in (5, 6):
            answer = self.side.ask("DescribeGroups", version, {"groups": [self.name]})
            assert answer is not None
            for member in answer["groups"][0]["members"]:
                member["clientHost"] = ""
            self.keep("DescribeGroups", answer)
        topics = [{"name": self.name, "partitionIndexes": [0]}]
        self.ask("OffsetFetch", 7, groupId=self.name, topics=topics)


# Scenes


def a_producer_falls_silent(scene: Scene) -> None:
    """Its transaction is aborted; what it sends then is refused, until it begins again."""
    scene.create()
    producer = scene.init()
    ids = {"producer_id": producer[0], "producer_epoch": producer[1], "transactional": True}
    topics = [{"name": scene.name, "partitions": [0]}]
    scene.in_transaction("AddPartitionsToTxn", 3, producer, topics=topics)
    scene.produce(base_sequence=0, **ids)
    scene.ask("DescribeTransactions", 0, transactionalIds=[scene.name])
    sleep_ms(TRANSACTION_MS + 1000)
    scene.ask("DescribeTransactions", 0, transactionalIds=[scene.name])
    scene.producers()
    scene.offsets(-1)
    scene.fetch(0)
    scene.every_request(producer)
    scene.init(4, producer)
    scene.every_request(scene.init())
    scene.show()


def ids_are_not_used_for_long(scene: Scene) -> None:
    """They are forgotten, with their epochs."""
    scene.create()
    producer = scene.init()
    scene.produce(producer_id=producer[0], producer_epoch=producer[1], base_sequence=0)
    sleep_ms(EXPIRY_MS + ENOUGH_MS)
    scene.ask("DescribeTransactions", 0, transactionalIds=[scene.name])
    scene.producers()
    scene.every_request(producer)
    scene.init(4, producer)
    for sequence in (0, 7, 8, 8, 10):
        scene.produce(producer_id=producer[0], producer_epoch=0, base_sequence=sequence)


def a_member_does_not_sync(scene: Scene) -> None:
    """Though it sends heartbeats; the leader has synced."""
    leads, follows = scene.two()
    scene.keep("SyncGroup", scene.sync(leads).result())
    scene.show()
    scene.alive(leads, 2 * REBALANCE_MS)
    scene.alive(follows, 100)
    scene.show()
    scene.keep("JoinGroup", scene.join(leads["memberId"]).result())


def a_leader_does_not_assign(scene: Scene) -> None:
    """The others are not held up for longer than a rebalance takes."""
    leads, follows = scene.two()
    waits = scene.sync(follows)
    scene.alive(leads, 2 * REBALANCE_MS)
    scene.keep("SyncGroup", waits.result())
    scene.show()
    scene.keep("JoinGroup", scene.join(follows["memberId"]).result())


def a_session_ends(scene: Scene) -> None:
    """The other one rebalances; the late member is unknown."""
    leads, follows = scene.two()
    for one in (scene.sync(leads), scene.sync(follows)):
        scene.keep("SyncGroup", one.result())
    scene.alive(leads, 2 * SESSION_MS)
    scene.alive(follows, 100)
    scene.keep("JoinGroup", scene.join(leads["memberId"]).result())
    scene.show()
    scene.keep("JoinGroup", scene.join(follows["memberId"]).result())


def an_instance_restarts(scene: Scene) -> None:
    """Within its session nobody rebalances; after that it is a new member."""
    leads, follows = scene.two("one", "two")
    for one in (scene.sync(leads, "one"), scene.sync(follows, "two")):
        scene.keep("SyncGroup", one.result())
    back = scene.join(instance="two").result()
    scene.keep("JoinGroup", back)
    scene.keep("SyncGroup", scene.sync(back, "two").result())
    scene.alive(follows, 100, "two")
    scene.show()
    scene.alive(leads, 2 * SESSION_MS, "one")
    scene.alive(back, 100, "two")
    late = scene.join(instance="two")
    sleep_ms(300)
    scene.keep("JoinGroup", scene.join(leads["memberId"], "one").result())
    scene.keep("JoinGroup", late.result())
    scene.show()


def members_leave_nothing(scene: Scene) -> None:
    """Nobody knows the group any more."""
    scene.two("one", "two")
    ids = [{"memberId": "", "groupInstanceId": name} for name in ("one", "two")]
    scene.ask("LeaveGroup", 4, groupId=scene.name, members=ids)
    sleep_ms(ENOUGH_MS)
    scene.show()
    scene.keep("JoinGroup", scene.join(instance="one").result())


def records_grow_old(scene: Scene) -> None:
    """Segments go, the last one, too; then records are deleted by hand."""
    scene.create(internal_segment_bytes="200")
    for _ in range(5):
        scene.produce()
    scene.set("retention.ms", "1000")
    sleep_ms(ENOUGH_MS)
    scene.offsets(-1, -2, -3, -4, 0)
    scene.fetch(0, 4, 5, 6)
    scene.set("retention.ms", "-1")
    for _ in range(5):
        scene.produce()
    for offset in (4, 7, 6, 11, -1):
        place = scene.of_topic(partitionIndex=0, offset=offset)
        scene.ask("DeleteRecords", 2, timeoutMs=5000, topics=place)
        scene.offsets(-1, -2)
        scene.fetch(0, 6, 7, 10, 11)


SCENES: Final[tuple[Callable[[Scene], None], ...]] = (
    a_producer_falls_silent,
    ids_are_not_used_for_long,
    a_member_does_not_sync,
    a_leader_does_not_assign,
    a_session_ends,
    an_instance_restarts,
    members_leave_nothing,
    records_grow_old,
)


@pytest.fixture
def ports(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[int, int]]:
    """Run both brokers with the same settings; return their ports."""
    monkeypatch.setattr(transaction_coordinator, "_EXPIRY_LOOK_MS", LOOK_MS)
    shutil.rmtree(kafka.directory)
    # As our clients: with version 2 each end of a transaction gives its producer a new epoch.
    kafka.format("--feature", "transaction.version=1")
    with kafka.properties.open("a") as file:
        for name, value in {**OF_LISTENERS, **OF_LOGS, **OF_KAFKA}.items():
            file.write(f"{name}={value}\n")
    config = {name: str(value) for name, value in OF_LOGS.items()}
    listeners = {name.replace(".", "_"): value for name, value in OF_LISTENERS.items()}
    with kafka.running(), served(tmp_path / "ours", config=config, **listeners) as ours:
        yield kafka.port, int(ours.bootstrap.partition(":")[2])


def test_time_does_the_same_at_both_brokers(ports: tuple[int, int], enumerated: Enumerated) -> None:
    """To transactions, ids, groups and records that clients leave alone."""
    count = 0
    with ThreadPoolExecutor(2) as pool:
        for play in SCENES:
            both = [Scene(port, play.__name__) for port in ports]
            for one in [pool.submit(play, scene) for scene in both]:
                one.result()
            kafkas, ours = (scene.answers for scene in both)
            for at, (theirs, mine) in enumerate(zip(kafkas, ours, strict=True)):
                assert theirs[0] == mine[0]
                different = differences(theirs[0], theirs[1], mine[1])
                assert not different, f"{play.__name__}, {at}: {different}"
            count += len(kafkas)
            for scene in both:
                scene.close()
    enumerated("answers of both", count, at_least=150)
