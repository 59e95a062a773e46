"""Where partitions lie, and who leads them: log directories, moves, elections.

Kafka: ``ReplicaManager.describeLogDirs`` and ``alterReplicaLogDirs``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import OnThread, Refusal, refused
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidArgument, KafkaError

if TYPE_CHECKING:
    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.node import Node
    from tidelog.datadir.log_dir_description import LogDirDescription
    from tidelog.manager.log_manager import LogManager


_ELECTIONS: Final = frozenset({0, 1})
"""Of the preferred replica, and of any. Source: Kafka ElectionType."""


class PlacementAdmin:
    """Shows and changes where partitions lie. This broker leads all, so nothing else changes."""

    def __init__(self, manager: LogManager, node: Node) -> None:
        self._manager = manager
        self._node = node

    def describe_log_dirs(self, request: Request) -> Answer:
        """DescribeLogDirs."""
        return OnThread(lambda: self._describe_log_dirs(request))

    def _describe_log_dirs(self, request: Request) -> dict[str, Any]:
        found = self._manager.describe_log_dirs()
        topics = request.values["topics"]
        wanted = None
        if topics is not None:
            wanted = {(one["topic"], number) for one in topics for number in one["partitions"]}
        return {"results": [_shown(one, wanted) for one in found.values()]}

    async def alter(self, request: Request) -> dict[str, Any]:
        """AlterReplicaLogDirs: moves begin, and continue after the answer."""
        moves = {
            (topic["name"], number): given["path"]
            for given in request.values["dirs"]
            for topic in given["topics"]
            for number in topic["partitions"]
        }
        answers = defaultdict(list)
        for (topic, number), path in moves.items():
            code = await in_thread(partial(self._move, topic, number, path))
            answers[topic].append({"partitionIndex": number, "errorCode": int(code)})
        return {"results": [{"topicName": t, "partitions": found} for t, found in answers.items()]}

    def _move(self, topic: str, number: int, path: str) -> ErrorCode:
        try:
            self._manager.move_partition(topic, number, path)
        except InvalidArgument:
            return ErrorCode.INVALID_REQUEST
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def elect(self, request: Request) -> Answer:
        """ElectLeaders: every partition has its leader."""
        kind = request.values["electionType"]
        if kind not in _ELECTIONS:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{kind} is not a kind of election")
        asked = request.values["topicPartitions"] or []
        return {
            "replicaElectionResults": [
                {
                    "topic": one["topic"],
                    "partitionResult": [
                        {"partitionId": number, **self._elected(one["topic"], number)}
                        for number in one["partitions"]
                    ],
                }
                for one in asked
            ]
        }

    def _elected(self, topic: str, number: int) -> dict[str, Any]:
        try:
            self._manager.topic(topic).home_of(number)
            raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "the one broker leads it")
        except KafkaError as error:
            return refused(error)

    def reassign(self, request: Request) -> Answer:
        """AlterPartitionReassignments: every partition is where it can be."""
        return {
            "allowReplicationFactorChange": request.values["allowReplicationFactorChange"],
            "responses": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {"partitionIndex": one["partitionIndex"], **self._placed(topic, one)}
                        for one in topic["partitions"]
                    ],
                }
                for topic in request.values["topics"]
            ],
        }

    def _placed(self, topic: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        name, number, replicas = topic["name"], given["partitionIndex"], given["replicas"]
        try:
            self._manager.topic(name).home_of(number)
            if replicas is None:
                raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            self._node.check_replicas(replicas)
        except KafkaError as error:
            return refused(error)
        return {"errorCode": int(ErrorCode.NONE), "errorMessage": None}

    def reassignments(self, _request: Request) -> Answer:
        """ListPartitionReassignments: there is no other broker to move to."""
        return {"topics": []}


def _shown(found: LogDirDescription, wanted: set[tuple[str, int]] | None) -> dict[str, Any]:
    if found.error is not None:
        return {"logDir": found.path, "errorCode": int(ErrorCode.KAFKA_STORAGE_ERROR)}
    topics = defaultdict(list)
    for one in found.replicas:
        if wanted is None or (one.topic, one.partition) in wanted:
            topics[one.topic].append(
                {
                    "partitionIndex": one.partition,
                    "partitionSize": one.size_bytes,
                    "offsetLag": -1 if one.offset_lag is None else one.offset_lag,
                    "isFutureKey": one.is_future,
                }
            )
    return {
        "logDir": found.path,
        "totalBytes": -1 if found.total_bytes is None else found.total_bytes,
        "usableBytes": -1 if found.usable_bytes is None else found.usable_bytes,
        "topics": [{"name": name, "partitions": some} for name, some in topics.items()],
    }
