"""Random requests, each to a broker of Kafka and to ours: the answers are the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.compat.two_brokers import Id, Pair, Side
from tests.machinery.brokers import served
from tests.machinery.scale import scaled

from tidelog.codec.compression import Codec
from tidelog.codec.messages.function_text import default_value
from tidelog.codec.protocol.apis import api_named
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.compat.conftest import Kafka
    from tests.conftest import Enumerated

    from tidelog.codec.messages.message_table import Field, Type

pytestmark = [pytest.mark.compat, pytest.mark.slow]

PROPERTIES = """\
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
log.retention.ms=-1
"""
FIRST_MS = 1_700_000_000_000
STEPS = 25
AREAS: Final = {
    "records": "Produce Produce Fetch ListOffsets OffsetForLeaderEpoch DeleteRecords",
    "transactions": "InitProducerId AddPartitionsToTxn AddPartitionsToTxn Produce EndTxn Fetch"
    " AddOffsetsToTxn TxnOffsetCommit DescribeTransactions OffsetFetch",
    "groups": "JoinGroup JoinGroup SyncGroup Heartbeat LeaveGroup OffsetCommit OffsetFetch"
    " DescribeGroups",
    "topics": "CreateTopics CreatePartitions IncrementalAlterConfigs ElectLeaders"
    " DescribeCluster AlterPartitionReassignments",
    "tools": "InitProducerId AddPartitionsToTxn Produce EndTxn AddOffsetsToTxn TxnOffsetCommit"
    " OffsetCommit DescribeProducers ListTransactions DescribeTopicPartitions Metadata"
    " DescribeLogDirs DescribeConfigs AlterConfigs Fetch",
}
DELETIONS: Final = "DeleteTopics CreateTopics CreatePartitions"
"""Not with others: Kafka's broker hears later than its controller that a topic is gone."""
LATEST: Final = {"CreateTopics": 6, "InitProducerId": 2, "Metadata": 9}
"""Later versions have ids of topics that are not created, or do at once what Kafka asks to try
again, or are refused with an id."""
FIRST: Final = {"Produce": 3, "OffsetFetch": 2, "CreateTopics": 2, "Metadata": 4}


class Requests:
    """Makes requests: each field gets one of a few values, most of which are good."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.random = pair, pair.random
        self.topics = [f"{pair.prefix}-0", f"{pair.prefix}-1"]
        self.producer, self.epoch, self.sequence = Id("p-none"), -1, 0
        self.member, self.generation = "", -1
        for kind in (0, 1):
            pair.ask("FindCoordinator", 4, keyType=kind, coordinatorKeys=["g"])
        shape = {"numPartitions": 2, "replicationFactor": 1, "assignments": [], "configs": []}
        pair.ask("CreateTopics", 6, topics=[{"name": name, **shape} for name in self.topics])
        named = [{"topicId": Id("t-none"), "name": name} for name in self.topics]
        pair.ask("Metadata", 12, topics=named, allowAutoTopicCreation=False)
        ends = [{"partitionIndex": number, "timestamp": -1} for number in (0, 1)]
        both = [{"name": name, "partitions": ends} for name in self.topics]
        pair.ask("ListOffsets", 1, replicaId=-1, topics=both)
        # Kafka shows no group of which nothing was written down yet.
        place = {"partitionIndex": 0, "committedOffset": 3, "committedMetadata": ""}
        topics = [{"name": self.topics[0], "partitions": [place]}]
        pair.ask("OffsetCommit", 2, groupId=f"g-{pair.prefix}", topics=topics)

    def pool(self, name: str) -> tuple[Any, ...]:
        """Return the values of a field, the usual one first."""
        numbers = (0, 0, 1, 7)
        names = (*self.topics, *self.topics, f"none-{self.pair.prefix}")
        found: dict[str, tuple[Any, ...]] = {
            **dict.fromkeys(("name", "topic"), names),
            **dict.fromkeys(("partitionIndex", "partition", "partitions"), numbers),
            **dict.fromkeys(("index", "partitionIndexes", "partitionId"), numbers),
            "producerIdFilters": (self.producer,),
            "resourceName": (*self.topics,),
            "transactionalId": (*[f"x-{self.pair.prefix}"] * 8, ""),
            "transactionalIds": (f"x-{self.pair.prefix}", "none"),
            "producerId": (*[self.producer] * 8, Id("p-none")),
            "producerEpoch": (*[self.epoch] * 8, 5),
            **dict.fromkeys(("groupId", "groups", "groupsNames"), (f"g-{self.pair.prefix}",)),
            "topicNames": names,
            "memberId": (*[self.member] * 8, "stranger"),
            "generationId": (*[self.generation] * 8, 9),
        }
        return found.get(name, ()) or _VALUES.get(name, ())

    def struct(self, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
        """Return values for the fields of a structure; some are absent."""
        return {
            field.name: self.value(field, field.type, version)
            for field in fields
            if field.is_in(version) and field.tag is None
        }

    def value(self, field: Field, kind: Type, version: int) -> Any:
        """Return a value of a field, or of an element of it."""
        pool = self.pool(field.name)
        if field.name == "records":
            return self.batch()
        # Of all topics of a group, ours names those with undecided positions, too.
        is_nullable = kind.null_from <= version and field.name not in {"topics", "topicPartitions"}
        if is_nullable and not (pool and self.random.random() < 0.9):
            return default_value(field) if field.default else None
        if field.name == "configs" and kind.element is not None and self.random.randrange(2):
            return []
        if kind.element is not None:
            return [] if field.name in _EMPTY else [self.value(field, kind.element, version)]
        if kind.name == "struct":
            found = self.struct(kind.fields, version)
            if field.name in {"protocols", "configs"}:
                names = ("range", "sticky") if field.name == "protocols" else _SETTINGS
                found["name"] = self.random.choice(names)
            return found
        return self.random.choice(pool) if pool else default_value(field)

    def batch(self) -> Callable[[Side], bytes]:
        """Return a batch, sometimes a wrong one, for each side with its producer's id."""
        some = self.random.choice
        records = [(FIRST_MS + some((0, 1, 5)), b"k", b"v" * 50, ()) for _ in range(some((1, 3)))]
        codec, sequence = some(tuple(Codec)), max(self.sequence + some((0, 0, 0, 1)), 0)
        flaw, kind = some((None, None, None, None, 0, 16, "cut", "twice")), some((0, 0, 1, 2))
        who, epoch = self.producer, max(self.epoch, 0)

        def make(side: Side) -> bytes:
            how: dict[str, Any] = {"producer_id": max(side.ids[who], 0), "producer_epoch": epoch}
            how |= {"base_sequence": sequence, "transactional": kind == 1}
            data = bytearray(build_batch(records, codec=codec, **(how if kind else {})))
            if isinstance(flaw, int):
                data[flaw] = 1  # the base offset, or the magic
            return bytes(data[:-1] if flaw == "cut" else data * 2 if flaw == "twice" else data)

        self.sequence += len(records) if kind else 0
        return make

    def send(self, name: str) -> None:
        """Send a request, and keep what it was given."""
        api = api_named(name)
        first, last = FIRST.get(name, api.first_version), LATEST.get(name, api.last_version)
        version = self.random.randint(first, last)
        values = self.struct(api._requests[version].fields, version)
        if name == "JoinGroup" and self.generation > 0 and not values["memberId"]:
            return  # it would wait for the member that there is
        found = self.pair.ask(name, version, **values)
        if name == "InitProducerId" and not found["errorCode"] and values["transactionalId"]:
            self.producer, self.epoch, self.sequence = (
                found["producerId"],
                found["producerEpoch"],
                0,
            )
        if name == "JoinGroup" and not found["errorCode"]:
            self.member, self.generation = found["memberId"], found["generationId"]


_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("timeoutMs", "rebalanceTimeoutMs"), (30_000,)),
    **dict.fromkeys(("replicaId", "retentionTimeMs"), (-1,)),
    "topicId": (Id("t0"), Id("t1"), Id("t-none")),
    "allowAutoTopicCreation": (False,),
    "responsePartitionLimit": (2000, 1, 2, 0),
    "configurationKeys": ("segment.bytes", "none"),
    "stateFilters": ("Ongoing", "Empty", "CompleteCommit", "x"),
    "acks": (-1, 1),
    "transactionTimeoutMs": (60_000, 60_000, 0),
    "committed": (True, False),
    "sessionTimeoutMs": (30_000, 30_000, 30_000, 1),
    "protocolType": ("consumer", "consumer", "consumer", ""),
    "protocolName": ("range", "range", "sticky"),
    "assignment": (b"a",),
    "committedOffset": (3,),
    "committedMetadata": ("", "m", "m" * 5000),
    "fetchOffset": (0, 1, 2, 100, -1),
    "offset": (0, 1, 2, -1, 100),
    "partitionMaxBytes": (1 << 20, 1),
    "maxBytes": (1 << 20, 0),
    "timestamp": (-1, -2, -3, -4, -5, -6, -7, FIRST_MS, FIRST_MS + 1, FIRST_MS + 9),
    **dict.fromkeys(("currentLeaderEpoch", "lastFetchedEpoch"), (-1, -1, 0, 3)),
    "leaderEpoch": (0, 1, -1),
    "isolationLevel": (0, 1),
    "requireStable": (True, False),
    **dict.fromkeys(("numPartitions", "count"), (1, 2, 3, 0, -1)),
    "replicationFactor": (1, 1, 0),
    "resourceType": (2,),
    "configOperation": (0, 1, 2, 3),
    "value": ("5", "x", "compact"),
    "validateOnly": (True,),
    "electionType": (0, 1),
    "endpointType": (1, 1, 2, 3),
    "replicas": (1, 1, 2),
}
_EMPTY: Final = {"forgottenTopicsData", "assignments"}
_SETTINGS: Final = ("retention.ms", "cleanup.policy", "none")


@pytest.fixture
def ports(kafka: Kafka, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Run both brokers; return their ports."""
    with kafka.properties.open("a") as file:
        file.write(PROPERTIES)
    with kafka.running(), served(tmp_path / "ours") as ours:
        yield kafka.port, int(ours.bootstrap.partition(":")[2])


def test_both_brokers_answer_the_same(ports: tuple[int, int], enumerated: Enumerated) -> None:
    """In each area, and mixed; a failure ends with the last requests."""
    count = 0
    areas = {**AREAS, "all": " ".join(AREAS.values()), "deletions": DELETIONS}
    for area, names in areas.items():
        for seed in range(scaled(12)):
            pair = Pair(ports, random.Random(f"{area} {seed}"), f"{area}{seed}")
            requests = Requests(pair)
            for _ in range(STEPS):
                requests.send(pair.random.choice(names.split()))
            count += len(pair.asked)
            pair.close()
    enumerated("requests to both", count, at_least=1000)
