"""Produce: batches of clients, appended as they come. Kafka: ``ReplicaManager.appendRecords``."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Disconnect, Later, Refusal
from tidelog.broker.data.held import is_held
from tidelog.codec.compression import Codec
from tidelog.config.serve_config import FlushPolicy
from tidelog.datadir.catalogue import INTERNAL_SETTINGS
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidRecord, InvalidTimestamp, KafkaError
from tidelog.records.batch import BATCH_HEADER, BatchFlags

if TYPE_CHECKING:
    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.data.flushes import Flushes
    from tidelog.broker.transactions.verification import Verification
    from tidelog.codec.varint import Bytes
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition

_log = logging.getLogger(__name__)

FIRST_SERVED_VERSION: Final = 3
"""Lower ones are only offered: their records are of formats that Kafka 4 does not take either, but
a client that does not see version 0 in the offer thinks the broker too old to compress for."""
_ZSTD_VERSION: Final = 7
ALL_REPLICAS: Final = -1


class Produce:
    """Appends what clients send. ``verification`` says which transactions may write where."""

    def __init__(self, manager: LogManager, flushes: Flushes, verification: Verification) -> None:
        self._manager = manager
        self._flushes = flushes
        self._verification = verification

    def handle(self, request: Request) -> Answer:
        """Append the batches of all partitions; each succeeds or fails by itself."""
        if request.version < FIRST_SERVED_VERSION:
            raise Disconnect(f"version {request.version} of Produce is not served")
        if self._is_busy(request):
            return self._handle_on_thread(request)
        return self._answered(request, *self._append_all(request))

    def _answered(
        self,
        request: Request,
        responses: list[dict[str, Any]],
        appended: list[tuple[Partition, int, dict[str, Any]]],
    ) -> dict[str, Any] | Later | None:
        acks = request.values["acks"]
        if acks == 0:
            _check_all_taken(responses)
            return None
        if self._waits(acks) and appended:
            return Later(self._flushed({"responses": responses}, appended))
        return {"responses": responses}

    def _is_busy(self, request: Request) -> bool:
        """Whether another thread holds one of the partitions."""
        for topic in request.values["topicData"]:
            for one in topic["partitionData"]:
                try:
                    partition = self._manager.partition(topic["name"], one["index"])
                except KafkaError:
                    continue
                if is_held(partition):
                    return True
        return False

    async def _handle_on_thread(self, request: Request) -> dict[str, Any] | None:
        """Append on a thread, which may wait; later requests of the connection wait, too."""
        done = await in_thread(partial(self._append_all, request))
        answer = self._answered(request, *done)
        return await answer.answer if isinstance(answer, Later) else answer

    def _append_all(
        self, request: Request
    ) -> tuple[list[dict[str, Any]], list[tuple[Partition, int, dict[str, Any]]]]:
        """Return what the response says, and up to where each partition was appended to."""
        values = request.values
        appended: list[tuple[Partition, int, dict[str, Any]]] = []
        responses = [
            {
                "name": topic["name"],
                "partitionResponses": [
                    self._append(request, topic["name"], one, appended)
                    for one in topic["partitionData"]
                ],
            }
            for topic in values["topicData"]
        ]
        return responses, appended

    def _waits(self, acks: int) -> bool:
        policy = self._flushes.policy
        return policy is FlushPolicy.EACH or (policy is FlushPolicy.GROUP and acks == ALL_REPLICAS)

    async def _flushed(
        self, answer: dict[str, Any], appended: list[tuple[Partition, int, dict[str, Any]]]
    ) -> dict[str, Any]:
        # All at once: a request may be for a hundred partitions.
        waits = [self._flushes.wait(partition, end) for partition, end, _ in appended]
        ended = await asyncio.gather(*waits, return_exceptions=True)
        for (_, _, one), error in zip(appended, ended, strict=True):
            if isinstance(error, KafkaError):
                one.update(_failed(one["index"], error))
            elif error is not None:
                raise error
        return answer

    def _append(
        self,
        request: Request,
        topic: str,
        given: dict[str, Any],
        appended: list[tuple[Partition, int, dict[str, Any]]],
    ) -> dict[str, Any]:
        number = given["index"]
        try:
            _check(request, topic, given["records"])
            partition = self._manager.partition(topic, number)
            records = given["records"]
            guard = self._verification.guard(partition, records)
            info = partition.append(records, verification_guard=guard)
        except KafkaError as error:
            return _failed(number, error)
        except Exception:  # noqa: BLE001 - the other partitions are not to blame
            _log.exception("append-failed topic=%s partition=%d", topic, number)
            return {"index": number, "errorCode": int(ErrorCode.UNKNOWN_SERVER_ERROR)}
        answer = {
            "index": number,
            "baseOffset": info.first_offset,
            "logAppendTimeMs": info.log_append_time,
            "logStartOffset": info.log_start_offset,
        }
        appended.append((partition, info.last_offset + 1, answer))
        return answer


def _check_all_taken(responses: list[dict[str, Any]]) -> None:
    """Have the connection closed where something failed: a client without acks hears nothing else.

    Source: Kafka KafkaApis.handleProduceRequest.
    """
    for topic in responses:
        for one in topic["partitionResponses"]:
            if one.get("errorCode", 0):
                reason = one.get("errorMessage") or "see the service's log"
                raise Disconnect(f"{topic['name']}-{one['index']} took no records: {reason}")


def _check(request: Request, topic: str, records: Bytes | None) -> None:
    if request.values["acks"] not in {ALL_REPLICAS, 0, 1}:
        raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
    if topic in INTERNAL_SETTINGS:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by brokers alone")
    if not records:
        raise InvalidRecord("there are no records")
    if request.version < _ZSTD_VERSION and len(records) >= BATCH_HEADER.size:
        flags = BATCH_HEADER.unpack_field("attributes", records)
        if int(flags & BatchFlags.CODEC) == int(Codec.ZSTD):
            raise Refusal(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs version {_ZSTD_VERSION} of Produce",
            )


def _failed(number: int, error: KafkaError) -> dict[str, Any]:
    records = error.record_errors if isinstance(error, (InvalidRecord, InvalidTimestamp)) else ()
    return {
        "index": number,
        "errorCode": int(error.code),
        "baseOffset": -1,
        "recordErrors": [
            {"batchIndex": index, "batchIndexErrorMessage": reason} for index, reason in records
        ],
        "errorMessage": str(error),
    }
