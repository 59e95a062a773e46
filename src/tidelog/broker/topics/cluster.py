"""Metadata, DescribeTopicPartitions and DescribeCluster: which topics there are, and where.

Kafka: ``MetadataCache``.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.allowed_operations import OF_CLUSTER, OF_TOPIC
from tidelog.broker.client_request import MANY, Refusal, at_once_or_not
from tidelog.broker.partitions import partition_at_once
from tidelog.broker.seldom_lines import SeldomLines
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidTopic, KafkaError, TopicAlreadyExists
from tidelog.segment.filenames import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.node import Node
    from tidelog.broker.topics.topic_names import TopicNames
    from tidelog.datadir.catalogue import Topic
    from tidelog.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

_IDS_VERSION: Final = 12
_BROKERS: Final = 1
_CONTROLLERS: Final = 2
"""Types of endpoints, of which DescribeCluster asks for one."""
_NULL_FOR_ALL_VERSION: Final = 1
_PAGE_PARTITIONS: Final = 2000
"""Most partitions in an answer to DescribeTopicPartitions. Kafka: the default of a broker."""


_NO_ELIGIBLE_LEADERS: Final[dict[str, Any]] = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
"""Of a partition. Kafka's own client cannot read null there, though the protocol has it."""


class Cluster:
    """Says which topics there are, and that this broker leads all of their partitions.

    ``create`` creates a topic that a client has asked for by name; None: nothing does.
    """

    def __init__(
        self,
        manager: LogManager,
        node: Node,
        names: TopicNames,
        create: Callable[[str], Topic] | None,
    ) -> None:
        self._manager = manager
        self._node = node
        self._names = names
        self._create = create
        self._lines: Final = SeldomLines(manager.machine.clock)

    def metadata(self, request: Request) -> Answer:
        """Answer at once, unless topics are to be created first."""
        wanted = self._wanted(request)
        missing = self._missing(request, wanted)
        if missing and self._create is not None:
            return self._create_first(request, wanted, missing)
        is_long = self._count(wanted) > MANY
        return at_once_or_not(partial(self._answer, request, wanted, {}), takes_long=is_long)

    def _topics(self) -> dict[str, Topic]:
        """Return every topic by name, without partitions that are being created.

        They appear together, in service. So a client meets none that it could not use.
        """
        topics = self._manager.topics()
        creating = self._manager.shared.registry.creating
        for name in {key.topic for key in creating} & topics.keys():
            topic = topics.pop(name)
            homes = topic.partitions.items()
            kept = {number: home for number, home in homes if (name, number) not in creating}
            if kept:
                topics[name] = replace(topic, partitions=kept)
        return topics

    def _count(self, wanted: list[tuple[UUID, str | None]] | None) -> int:
        """Return about how many partitions the answer names; a topic by its id counts as one."""
        topics = self._topics()
        if wanted is None:
            return sum(len(topic.partitions) for topic in topics.values())
        found = (topics.get(name or "") for _, name in wanted)
        return sum(1 if topic is None else len(topic.partitions) for topic in found)

    def describe_partitions(self, request: Request) -> Answer:
        """DescribeTopicPartitions: a page, in the order of names, from a cursor on."""
        values, topics = request.values, self._topics()
        left = max(1, min(values["responsePartitionLimit"], _PAGE_PARTITIONS))
        cursor = values["cursor"] or {"topicName": "", "partitionIndex": 0}
        wanted = sorted({one["name"] for one in values["topics"]} or topics)
        is_elsewhere = values["cursor"] and values["topics"] and cursor["topicName"] not in wanted
        if is_elsewhere or cursor["partitionIndex"] < 0:  # there is no other place to say so
            code = int(ErrorCode.INVALID_REQUEST)
            return {"topics": [{"errorCode": code, "name": name} for name in wanted]}
        found: list[dict[str, Any]] = []
        for name in wanted:
            if name < cursor["topicName"]:
                continue
            answer = self._topic(topics, ZERO_ID, name, {})
            start = cursor["partitionIndex"] if name == cursor["topicName"] else 0
            rest = [
                one | _NO_ELIGIBLE_LEADERS
                for one in answer.get("partitions", ())
                if one["partitionIndex"] >= start
            ]
            if rest and not left:
                return _page(found, name, rest)
            answer["topicAuthorizedOperations"] = OF_TOPIC
            found.append(answer | {"partitions": rest[:left]})
            if len(rest) > left:
                return _page(found, name, rest[left:])
            left -= len(rest)
        return {"topics": found}

    def describe_cluster(self, request: Request) -> Answer:
        """Answer at once; refuse a client that takes this for a controller."""
        kind = request.values["endpointType"] if request.version else _BROKERS
        if kind != _BROKERS:
            is_known = kind == _CONTROLLERS
            raise Refusal(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE
                if is_known
                else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                "this is a broker: clients need its address as their bootstrap server",
            )
        host, port = request.peer.advertised
        answer = {
            "clusterId": self._node.cluster_id,
            "controllerId": self._node.node_id,
            "brokers": [{"brokerId": self._node.node_id, "host": host, "port": port}],
        }
        if request.values["includeClusterAuthorizedOperations"]:
            answer["clusterAuthorizedOperations"] = OF_CLUSTER
        return answer

    def _wanted(self, request: Request) -> list[tuple[UUID, str | None]] | None:
        """Return the ids and names of the topics that are asked for, each once; None: all."""
        topics = request.values["topics"]
        if topics is None or (not topics and request.version < _NULL_FOR_ALL_VERSION):
            return None
        if request.version < _IDS_VERSION:  # the answer has no place for a null
            return list(dict.fromkeys((ZERO_ID, topic["name"] or "") for topic in topics))
        return list(dict.fromkeys((topic["topicId"], topic["name"]) for topic in topics))

    def _missing(self, request: Request, wanted: list[tuple[UUID, str | None]] | None) -> list[str]:
        if wanted is None or not request.values["allowAutoTopicCreation"]:
            return []
        topics = self._manager.topics()
        names = dict.fromkeys(name for _, name in wanted if name is not None)
        return [name for name in names if name not in topics and name != METADATA_TOPIC]

    async def _create_first(
        self,
        request: Request,
        wanted: list[tuple[UUID, str | None]] | None,
        missing: list[str],
    ) -> dict[str, Any]:
        create, refused = self._create, {}
        assert create is not None
        for name in missing:
            try:
                await in_thread(partial(create, name))
            except TopicAlreadyExists:
                pass  # another client was first
            except KafkaError as error:
                if self._lines.is_due(name, str(error)):
                    _log.warning("topic-not-created topic=%r reason=%s", name, error)
                refused[name] = int(error.code)
        return self._answer(request, wanted, refused)

    def _answer(
        self,
        request: Request,
        wanted: list[tuple[UUID, str | None]] | None,
        refused: dict[str, int],
    ) -> dict[str, Any]:
        topics = self._topics()
        if wanted is None:
            wanted = [(ZERO_ID, name) for name in sorted(topics)]
        host, port = request.peer.advertised
        names = self._names.of_ids(key for key, name in wanted if name is None)
        found = [
            self._topic(topics, key, names.get(key) if name is None else name, refused)
            for key, name in wanted
        ]
        answer = {
            "brokers": [{"nodeId": self._node.node_id, "host": host, "port": port}],
            "clusterId": self._node.cluster_id,
            "controllerId": self._node.node_id,
            "topics": found,
        }
        if request.values.get("includeTopicAuthorizedOperations"):
            for one in found:
                one["topicAuthorizedOperations"] = OF_TOPIC
        if request.values.get("includeClusterAuthorizedOperations"):
            answer["clusterAuthorizedOperations"] = OF_CLUSTER
        return answer

    def _topic(
        self, topics: dict[str, Topic], topic_id: UUID, name: str | None, refused: dict[str, int]
    ) -> dict[str, Any]:
        topic = None if name is None else topics.get(name)
        if topic is None:
            code = refused.get(name or "") or int(_code_of_missing(name))
            return {"errorCode": code, "name": name, "topicId": topic_id}
        return {
            "name": name,
            "topicId": topic.topic_id,
            "isInternal": name in INTERNAL_SETTINGS,
            "partitions": [self._partition(topic, number) for number in sorted(topic.partitions)],
        }

    def _partition(self, topic: Topic, number: int) -> dict[str, Any]:
        node_id = self._node.node_id
        found = {
            "partitionIndex": number,
            "leaderId": node_id,
            "replicaNodes": [node_id],
            "isrNodes": [node_id],
        }
        try:
            partition = partition_at_once(self._manager, topic.name, number)
            return found | {"leaderEpoch": partition.leader_epoch}
        except KafkaError as error:
            return found | {
                "errorCode": int(error.code),
                "leaderId": -1,
                "isrNodes": [],
                "offlineReplicas": [node_id],
            }


def _code_of_missing(name: str | None) -> ErrorCode:
    """Return why there is no topic of a name: one that cannot be, clients do not wait for."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _page(found: list[dict[str, Any]], name: str, rest: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a page that ends before the rest of a topic."""
    following = {"topicName": name, "partitionIndex": rest[0]["partitionIndex"]}
    return {"topics": found, "nextCursor": following}
