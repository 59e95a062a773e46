"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords.

Kafka: ``ReplicationControlManager`` and ``ReplicaManager.deleteRecords``.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Refusal, refused
from tidelog.broker.topics.each_part import answer_each
from tidelog.broker.topics.shown_settings import shown_settings
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.datadir.catalogue import check_new_names
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError, KafkaStorageError
from tidelog.manager.topics.topic_checks import check_topic
from tidelog.segment.filenames import TopicPartition, check_topic_name

if TYPE_CHECKING:
    from tidelog.broker.client_request import Request
    from tidelog.broker.node import Node
    from tidelog.broker.topics.topic_names import TopicNames
    from tidelog.manager.log_manager import LogManager


_DEFAULT: Final = -1
_IDS_VERSION: Final = 6
"""Of DeleteTopics: topics are named or given by their ids."""
_SETTING_FIELDS: Final = ("name", "value", "readOnly", "configSource", "isSensitive")


class TopicAdmin:
    """Changes topics, on a thread: each change is durable before it is answered."""

    def __init__(
        self, manager: LogManager, node: Node, names: TopicNames, num_partitions: int
    ) -> None:
        self._manager = manager
        self._node = node
        self._names = names
        self._num_partitions = num_partitions

    # CreateTopics

    async def create(self, request: Request) -> dict[str, Any]:
        """CreateTopics; each topic succeeds or fails by itself."""
        work = partial(self._create, request)
        return {"topics": _once_each(await answer_each(request.values["topics"], _head, work))}

    def _create(self, request: Request, given: dict[str, Any]) -> dict[str, Any]:
        name = given["name"]
        # In Kafka's order: its clients look at the first reason.
        check_topic_name(name)
        check_new_names([name], self._manager.topics())
        settings = _settings(given["configs"])
        check_topic(name, 1, settings, defaults=self._manager.config.log_defaults)
        count = self._partitions_of(given)
        if request.values["validateOnly"]:
            topic, config = self._manager.planned_topic(name, count, settings)
        else:
            topic = self._manager.create_topic(name, count, settings)
            config = self._manager.config_of(name)
        shown = shown_settings(self._manager, topic, config)
        return {
            "topicId": topic.topic_id,
            "numPartitions": count,
            "replicationFactor": 1,
            "configs": [{key: one[key] for key in _SETTING_FIELDS} for one in shown],
        }

    def _partitions_of(self, given: dict[str, Any]) -> int:
        count, factor = given["numPartitions"], given["replicationFactor"]
        assignments = given["assignments"]
        if assignments:
            if count != _DEFAULT or factor != _DEFAULT:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "partitions are assigned to brokers, or counted, not both",
                )
            self._check_assigned(given["assignments"])
            return len(assignments)
        if factor not in {_DEFAULT, 1}:
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"a replication factor of {factor} needs as many brokers; there is one",
            )
        return self._num_partitions if count == _DEFAULT else int(count)

    def _check_assigned(self, assignments: list[dict[str, Any]]) -> None:
        numbers = sorted(one["partitionIndex"] for one in assignments)
        if numbers != list(range(len(numbers))):
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions are numbered from 0 on, each once",
            )
        for one in assignments:
            self._node.check_replicas(one["brokerIds"])

    # DeleteTopics

    async def delete(self, request: Request) -> dict[str, Any]:
        """DeleteTopics; each topic succeeds or fails by itself."""
        values = request.values
        if request.version >= _IDS_VERSION:
            wanted = [(one["name"], one["topicId"]) for one in values["topics"]]
        else:
            wanted = [(name, ZERO_ID) for name in values["topicNames"]]
        names = self._names.of_ids(topic_id for name, topic_id in wanted if name is None)
        keys = [
            names.get(topic_id, topic_id) if name is None else name for name, topic_id in wanted
        ]
        counts = Counter(keys)
        responses = []
        for key, (name, topic_id) in dict(zip(keys, wanted, strict=True)).items():
            answer: dict[str, Any] = {"name": name, "topicId": topic_id}
            try:
                # Of a name and the id of another topic, one would be deleted that is not meant.
                if counts[key] > 1 or (name is None) is (topic_id == ZERO_ID):
                    reason = "a topic is to be given once, by its name or by its id"
                    raise Refusal(ErrorCode.INVALID_REQUEST, reason)
                found = names.get(topic_id) if name is None else name
                if found is None:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
                _check_own(found)
                answer |= {"name": found, "topicId": self._manager.topic(found).topic_id}
                if name is None and answer["topicId"] != topic_id:  # made again meanwhile
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
                # Others may make it again while this waits for their changes.
                only = topic_id if name is None else None
                await in_thread(partial(self._manager.delete_topic, found, only))
            except KafkaError as error:
                answer |= refused(error)
            responses.append(answer)
        return {"responses": responses}

    # CreatePartitions

    async def add_partitions(self, request: Request) -> dict[str, Any]:
        """CreatePartitions; each topic succeeds or fails by itself."""
        work = partial(self._add_partitions, request)
        return {"results": _once_each(await answer_each(request.values["topics"], _head, work))}

    def _add_partitions(self, request: Request, given: dict[str, Any]) -> dict[str, Any]:
        name, count = given["name"], given["count"]
        _check_own(name)
        topic = self._manager.topic(name)
        present = len(topic.partitions)
        # Otherwise nothing is added, or an increase is repeated.
        if given["assignments"] is not None and count > present:
            if len(given["assignments"]) != count - present:
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{count - present} partitions are new, {len(given['assignments'])} assigned",
                )
            for one in given["assignments"]:
                self._node.check_replicas(one["brokerIds"])
        if request.values["validateOnly"]:
            self._manager.check_more_partitions(name, count)
        else:
            self._manager.create_partitions(name, count)
        return {}

    # DeleteRecords

    async def delete_records(self, request: Request) -> dict[str, Any]:
        """DeleteRecords."""
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    await in_thread(partial(self._delete_before, topic["name"], one))
                    for one in topic["partitions"]
                ],
            }
            for topic in request.values["topics"]
        ]
        keys = [
            TopicPartition(topic["name"], one["partitionIndex"])
            for topic in topics
            for one in topic["partitions"]
        ]
        try:
            await in_thread(partial(self._manager.on_demand.keep_deleted, keys))
        except KafkaStorageError as error:
            for topic in topics:
                topic["partitions"] = [
                    _not_deleted(one["partitionIndex"], one.get("errorCode") or error.code)
                    for one in topic["partitions"]
                ]
        return {"topics": topics}

    def _delete_before(self, topic: str, given: dict[str, Any]) -> dict[str, Any]:
        number = given["partitionIndex"]
        try:
            self._manager.topic(topic).home_of(number)  # in Kafka's order
            _check_own(topic)
            key = TopicPartition(topic, number)
            done = self._manager.on_demand.delete_records(key, given["offset"])
        except KafkaError as error:
            return _not_deleted(number, error.code)
        return {"partitionIndex": number, "lowWatermark": done.log_start_offset}


def _once_each(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers about topics, one of each name."""
    return list({one["name"]: one for one in answers}.values())


def _head(given: dict[str, Any]) -> dict[str, Any]:
    return {"name": given["name"]}


def _not_deleted(partition: int, code: int) -> dict[str, Any]:
    return {"partitionIndex": partition, "lowWatermark": -1, "errorCode": int(code)}


def _settings(configs: list[dict[str, Any]]) -> dict[str, str]:
    nulls = sorted(one["name"] for one in configs if one["value"] is None)
    if nulls:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"no value is given for {', '.join(nulls)}")
    return {one["name"]: one["value"] for one in configs}


def _check_own(topic: str) -> None:
    """Refuse to change the topics that hold groups and transactions, which are in use."""
    if topic in INTERNAL_SETTINGS:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is the broker's own")
