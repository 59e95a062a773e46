"""The requests of transactional producers. Kafka: ``KafkaApis`` and ``TransactionCoordinator``."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Refusal, refused
from tidelog.broker.groups.committed_offsets import any_known, positions_refused
from tidelog.broker.partitions import partition_at_once
from tidelog.broker.shards import code_for_client
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.env.event_loop import to_the_end
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError
from tidelog.manager.group_home import home_of_group
from tidelog.readonly.group_positions import position_records
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.records.batch import NO_PRODUCER_EPOCH
from tidelog.records.builder import build_batch
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import TopicPartition, check_topic_name

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.data.appends import Appends
    from tidelog.broker.data.flushes import Flushes
    from tidelog.broker.groups.committed_offsets import CommittedOffsets
    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
    from tidelog.broker.transactions.verification import Verification
    from tidelog.log.append_info import AppendInfo
    from tidelog.manager.consumer_groups import Groups
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition
    from tidelog.readonly.group_positions import Position

_log = logging.getLogger(__name__)

_FENCED_VERSIONS: Final = {
    "InitProducerId": 4,
    "AddPartitionsToTxn": 2,
    "AddOffsetsToTxn": 2,
    "EndTxn": 2,
}
"""From which version on a request may be answered with PRODUCER_FENCED. Source: KIP-588."""


class TransactionRequests:
    """Answers producers. Only the event loop uses it."""

    def __init__(
        self,
        manager: LogManager,
        coordinator: TransactionCoordinator,
        verification: Verification,
        *,
        groups: GroupCoordinator,
        offsets: CommittedOffsets,
        positions: Groups,
        appends: Appends,
        flushes: Flushes,
    ) -> None:
        self._manager = manager
        self._coordinator = coordinator
        self._verification = verification
        self._groups = groups
        self._offsets = offsets
        self._positions = positions
        self._appends = appends
        self._flushes = flushes

    async def init_producer_id(self, request: Request) -> dict[str, Any]:
        """InitProducerId."""
        try:
            producer_id, epoch = await self._init_producer_id(request)
        except KafkaError as error:  # the protocol's default epoch would be a valid one
            return {**refused(error), "producerEpoch": NO_PRODUCER_EPOCH}
        return {"producerId": producer_id, "producerEpoch": epoch}

    async def _init_producer_id(self, request: Request) -> tuple[int, int]:
        values = request.values
        known = values["producerId"], values["producerEpoch"]
        if (known[0] < 0) != (known[1] < 0):
            raise Refusal(ErrorCode.INVALID_REQUEST, "a producer has an id and an epoch")
        name = values["transactionalId"]
        if name is None:
            try:
                return await self._coordinator.new_id(), 0
            except KafkaError as error:  # it has no coordinator that it could look for
                _log.warning("no-producer-id topic=%s reason=%s", TRANSACTIONS_TOPIC, error)
                raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        init = self._coordinator.init_producer(name, values["transactionTimeoutMs"], *known)
        found: tuple[int, int] = await _in_words_of(request, init)
        return found

    async def add_partitions(self, request: Request) -> dict[str, Any]:
        """AddPartitionsToTxn; all partitions or none."""
        values = request.values
        keys = [
            TopicPartition(topic["name"], number)
            for topic in values["topics"]
            for number in topic["partitions"]
        ]
        refusals = self._not_addable(keys)
        code = ErrorCode.NONE
        if refusals:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
        else:
            try:
                add = self._coordinator.add_partitions(
                    values["transactionalId"], _producer(values), keys
                )
                await _in_words_of(request, add)
            except KafkaError as error:
                code = error.code
        return {
            "results": [
                {
                    "name": topic["name"],
                    "resultsByPartition": [
                        {
                            "partitionIndex": number,
                            "partitionErrorCode": int(refusals.get((topic["name"], number), code)),
                        }
                        for number in topic["partitions"]
                    ],
                }
                for topic in values["topics"]
            ]
        }

    def _not_addable(self, keys: Iterable[TopicPartition]) -> dict[tuple[str, int], ErrorCode]:
        """Return why partitions cannot be a part of a transaction of a client."""
        known = self._manager.topics()
        found: dict[tuple[str, int], ErrorCode] = {}
        for key in keys:
            if key.topic in INTERNAL_SETTINGS:
                found[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif key.topic not in known or key.partition not in known[key.topic].partitions:
                found[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return found

    async def add_offsets(self, request: Request) -> dict[str, Any]:
        """AddOffsetsToTxn: the partition that holds a group becomes a part of the transaction."""
        await _in_words_of(request, self._add_offsets(request.values))
        return {}

    async def _add_offsets(self, values: dict[str, Any]) -> None:
        home = home_of_group(self._manager, values["groupId"])
        key = TopicPartition(home.topic, home.partition)
        name = values["transactionalId"]
        await self._coordinator.add_partitions(name, _producer(values), [key])

    async def end(self, request: Request) -> dict[str, Any]:
        """EndTxn."""
        values = request.values
        end = self._coordinator.end(
            values["transactionalId"], _producer(values), is_commit=values["committed"]
        )
        await _in_words_of(request, end)
        return {}

    async def commit_offsets(self, request: Request) -> dict[str, Any]:
        """TxnOffsetCommit: positions that count if the transaction is committed."""
        values = request.values
        group = values["groupId"]
        positions, answer = self._offsets.accepted(values["topics"])
        try:
            if not group:
                raise Refusal(ErrorCode.INVALID_GROUP_ID)
            self._groups.shards.check(group)
            if not any_known(answer):
                return answer
            home = home_of_group(self._manager, group)
            self._verification.check(request, home, _producer(values))
            self._offsets.check_member(request)
            if not positions:
                return answer
            append = partial(self._append_positions, request, home, positions)
            # Who takes the partitions over meanwhile would begin where the group was before.
            with self._positions.arriving(group, positions):
                await self._appends.run(home, append)
            self._offsets.read_ahead(home)
            await self._flushes.wait_if_wanted(home)
        except KafkaError as error:
            _log.info("positions-refused group=%s reason=%s", group, error)
            return positions_refused(answer, error)
        return answer

    def _append_positions(
        self, request: Request, home: Partition, positions: dict[TopicPartition, Position]
    ) -> AppendInfo:
        producer_id, epoch = producer = _producer(request.values)
        guard = self._verification.guard_of(request, home, producer, 0)
        batch = build_batch(
            position_records(request.values["groupId"], positions),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        return home.append(batch, AppendOrigin.COORDINATOR, verification_guard=guard)

    # What tools ask

    def describe(self, request: Request) -> Answer:
        """DescribeTransactions."""
        return {
            "transactionStates": [self._described(n) for n in request.values["transactionalIds"]]
        }

    def _described(self, name: str) -> dict[str, Any]:
        try:
            return self._coordinator.described(name)
        except KafkaError as error:
            return {"transactionalId": name, "errorCode": int(error.code)}

    def list_all(self, request: Request) -> Answer:
        """ListTransactions."""
        return self._coordinator.listed(request.values)

    async def describe_producers(self, request: Request) -> dict[str, Any]:
        """DescribeProducers."""
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        await self._producers(topic["name"], number)
                        for number in topic["partitionIndexes"]
                    ],
                }
                for topic in request.values["topics"]
            ]
        }

    async def _producers(self, topic: str, number: int) -> dict[str, Any]:
        try:
            check_topic_name(topic)
            partition = partition_at_once(self._manager, topic, number)
            # What is known of producers is read under the lock.
            found = await self._appends.run(partition, partition.log.active_producers)
        except KafkaError as error:
            return {"partitionIndex": number, **refused(error)}
        return {
            "partitionIndex": number,
            "activeProducers": [
                {
                    "producerId": one.producer_id,
                    "producerEpoch": one.producer_epoch,
                    "lastSequence": one.last_sequence,
                    "lastTimestamp": one.last_timestamp,
                    "coordinatorEpoch": one.coordinator_epoch,
                    "currentTxnStartOffset": (
                        -1 if one.txn_first_offset is None else one.txn_first_offset
                    ),
                }
                for one in found.values()
            ],
        }


def _producer(values: dict[str, Any]) -> tuple[int, int]:
    return values["producerId"], values["producerEpoch"]


async def _in_words_of(request: Request, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - what the work returns
    """Await some work; what fails is said in words of a coordinator.

    An old client that is fenced hears it in the word that it knows.

    A client that leaves does not end it: a transaction that is decided would never get its markers.
    """
    try:
        return await to_the_end(work)
    except Refusal as error:
        is_old = request.version < _FENCED_VERSIONS[request.api.name]
        if error.code is ErrorCode.PRODUCER_FENCED and is_old:
            raise Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, error.reason) from None
        raise
    except KafkaError as error:
        raise Refusal(code_for_client(error), str(error)) from error
