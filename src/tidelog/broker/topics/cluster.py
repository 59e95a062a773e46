"""Metadata and DescribeCluster: which topics there are, and where. Kafka: ``MetadataCache``."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.uuid_text import ZERO_ID
from tidelog.datadir.catalogue import INTERNAL_SETTINGS, METADATA_TOPIC
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError, TopicAlreadyExists

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
_NULL_FOR_ALL_VERSION: Final = 1


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

    def metadata(self, request: Request) -> Answer:
        """Answer at once, unless topics are to be created first."""
        wanted = self._wanted(request)
        missing = self._missing(request, wanted)
        if missing and self._create is not None:
            return self._create_first(request, wanted, missing)
        return self._answer(request, wanted, {})

    def describe_cluster(self, request: Request) -> Answer:
        """Answer at once."""
        host, port = request.peer.advertised
        return {
            "clusterId": self._node.cluster_id,
            "controllerId": self._node.node_id,
            "brokers": [{"brokerId": self._node.node_id, "host": host, "port": port}],
        }

    def _wanted(self, request: Request) -> list[tuple[UUID, str | None]] | None:
        """Return the ids and names of the topics that are asked for; None: all."""
        topics = request.values["topics"]
        if topics is None or (not topics and request.version < _NULL_FOR_ALL_VERSION):
            return None
        if request.version < _IDS_VERSION:  # the answer has no place for a null
            return [(ZERO_ID, topic["name"] or "") for topic in topics]
        return [(topic["topicId"], topic["name"]) for topic in topics]

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
                _log.warning("topic-not-created topic=%r reason=%s", name, error)
                refused[name] = int(error.code)
        return self._answer(request, wanted, refused)

    def _answer(
        self,
        request: Request,
        wanted: list[tuple[UUID, str | None]] | None,
        refused: dict[str, int],
    ) -> dict[str, Any]:
        topics = self._manager.topics()
        if wanted is None:
            wanted = [(ZERO_ID, name) for name in sorted(topics)]
        host, port = request.peer.advertised
        return {
            "brokers": [{"nodeId": self._node.node_id, "host": host, "port": port}],
            "clusterId": self._node.cluster_id,
            "controllerId": self._node.node_id,
            "topics": [self._topic(topics, key, name, refused) for key, name in wanted],
        }

    def _topic(
        self, topics: dict[str, Topic], topic_id: UUID, name: str | None, refused: dict[str, int]
    ) -> dict[str, Any]:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name is None:
            name, unknown = self._names.of_id(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        topic = None if name is None else topics.get(name)
        if topic is None:
            code = int(unknown) if name is None else refused.get(name, int(unknown))
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
            partition = self._manager.partition(topic.name, number)
            return found | {"leaderEpoch": partition.leader_epoch}
        except KafkaError as error:
            return found | {
                "errorCode": int(error.code),
                "leaderId": -1,
                "isrNodes": [],
                "offlineReplicas": [node_id],
            }
