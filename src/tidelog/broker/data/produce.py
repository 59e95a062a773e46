"""Produce: batches of clients, appended as they come. Kafka: ``ReplicaManager.appendRecords``."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Disconnect, Later, Refusal
from tidelog.broker.partitions import partition_at_once
from tidelog.broker.seldom_lines import SeldomLines
from tidelog.broker.transactions.verification import is_transactional
from tidelog.codec.compression import Codec
from tidelog.config.serve_config import FlushPolicy
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.error_codes import ErrorCode
from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    RecordListTooLarge,
)
from tidelog.records.batch import BATCH_HEADER, BATCH_PREFIX, MAGIC_V2, BatchFlags
from tidelog.records.scan import whole_batch_size
from tidelog.records.validation.record_rules import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.data.appends import Appends
    from tidelog.broker.data.flushes import Flushes
    from tidelog.broker.transactions.verification import Verification
    from tidelog.codec.varint import Bytes
    from tidelog.log.append_info import AppendInfo
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition

    _Appended = tuple[Partition, dict[str, Any]]
    """A partition that was appended to, and what the response says of it."""

    _Done = tuple[Partition | None, dict[str, Any]]
    """The same; None: it failed unexpectedly, and may have been appended to."""

_log = logging.getLogger(__name__)

FIRST_SERVED_VERSION: Final = 3
"""Lower ones are only offered: their records are of formats that Kafka 4 does not take either, but
a client that does not see version 0 in the offer thinks the broker too old to compress for."""
_ZSTD_VERSION: Final = 7
ALL_REPLICAS: Final = -1
_CODECS: Final = {codec.kafka_name: codec for codec in Codec}
_LONG_BYTES: Final = 64 << 10
"""Compressed batches from this size on take a thread: unpacking them takes up to milliseconds."""
_LONG_REPACKED_BYTES: Final = 2 << 10
"""The same for batches that are compressed again, or first here."""


_WITHOUT_START: Final = (CorruptMessage, KafkaStorageError, MessageTooLarge, RecordListTooLarge)
"""Errors of an append that do not name the log start. Source: Kafka ReplicaManager."""


class Produce:
    """Appends what clients send. ``verification`` says which transactions may write where."""

    def __init__(
        self,
        manager: LogManager,
        appends: Appends,
        flushes: Flushes,
        verification: Verification,
    ) -> None:
        self._manager = manager
        self._appends = appends
        self._flushes = flushes
        self._verification = verification
        self._lines = SeldomLines(manager.machine.clock)

    def handle(self, request: Request) -> Answer:
        """Append the batches of all partitions; each succeeds or fails by itself."""
        if request.version < FIRST_SERVED_VERSION:
            raise Disconnect(f"version {request.version} of Produce is not served")
        if request.values["transactionalId"] is None and _has_transactional(request):
            return self._answered(request, _unauthorized(request), [])
        return self._handle(request, {})

    def may_be_together(self, request: Request) -> bool:
        """Whether each batch of a request may be appended together with those of other requests."""
        values = request.values
        if request.api.name != "Produce" or request.version < FIRST_SERVED_VERSION:
            return False
        if values["transactionalId"] is not None or values["acks"] not in {ALL_REPLICAS, 1}:
            return False
        return all(
            _may_be_together(request, one["records"] or b"")
            for topic in values["topicData"]
            for one in topic["partitionData"]
        )

    def handle_together(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer requests that came together, all of which ``may_be_together``, as ``handle``.

        What they bring for one partition is appended with one write, if no batch needs more.
        """
        given: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for request in requests:
            for topic in request.values["topicData"]:
                for one in topic["partitionData"]:
                    given.setdefault((topic["name"], one["index"]), []).append(one)
        done: dict[int, _Done] = {}
        for (name, number), parts in given.items():
            if len(parts) > 1 and name not in INTERNAL_SETTINGS:
                with suppress(KafkaError):  # each is appended by itself, and hears its own error
                    self._append_together(name, number, parts, done)
        return [self._handle(request, done) for request in requests]

    def _append_together(
        self, topic: str, number: int, parts: list[dict[str, Any]], done: dict[int, _Done]
    ) -> None:
        """Append the batches of some requests, unless that has to wait; note each as ``done``.

        Raises KafkaError if one of them has to be appended by itself; then nothing was appended, or
        the log is offline.
        """
        partition = partition_at_once(self._manager, topic, number)
        if partition.begins_epoch:  # which takes long
            return
        batches, end = [part["records"] for part in parts], partition.log.log_end_offset
        try:
            found = self._appends.at_once(partition, partial(partition.append_locked, batches))
        except KafkaError:
            raise
        except Exception:  # noqa: BLE001 - other partitions are not to blame
            answer = _failed_unexpectedly(topic, number)
            # Appended by itself, a batch that is in the log already would be there twice.
            if partition.held_log.log_end_offset != end:
                done.update((id(part), (None, answer)) for part in parts)
            return
        if found is None or found[0].is_duplicate:
            return
        offset = found[0].first_offset
        for part in parts:
            done[id(part)] = partition, _appended(number, found[0], offset)
            offset += 1 + BATCH_HEADER.unpack_field("last_offset_delta", part["records"])

    def _handle(self, request: Request, done: dict[int, _Done]) -> Answer:
        """As ``handle``; ``done`` are the parts of the request that were appended before."""
        appended: list[_Appended] = []
        responses: list[dict[str, Any]] = []
        waiting: list[asyncio.Task[Any]] = []
        for topic in request.values["topicData"]:
            name, found = topic["name"], []
            for given in topic["partitionData"]:
                known = done.get(id(given))
                if known is None:
                    one = self._begin(request, name, given, appended)
                else:
                    partition, one = known
                    if partition is not None:
                        appended.append((partition, one))
                found.append(one)
                if not isinstance(one, dict):
                    waiting.append(one)
            responses.append({"name": name, "partitionResponses": found})
        if waiting:
            return self._handle_later(request, responses, waiting, appended)
        return self._answered(request, responses, appended)

    async def _handle_later(
        self,
        request: Request,
        responses: list[dict[str, Any]],
        waiting: list[asyncio.Task[Any]],
        appended: list[_Appended],
    ) -> dict[str, Any] | None:
        """Wait for partitions that are held; later requests of the connection wait, too."""
        await asyncio.gather(*waiting, return_exceptions=True)
        for topic, given in zip(responses, request.values["topicData"], strict=True):
            found = zip(topic["partitionResponses"], given["partitionData"], strict=True)
            topic["partitionResponses"] = [_ended(one, place["index"]) for one, place in found]
        answer = self._answered(request, responses, appended)
        return await answer if isinstance(answer, Later) else answer

    def _answered(
        self,
        request: Request,
        responses: list[dict[str, Any]],
        appended: list[_Appended],
    ) -> dict[str, Any] | Later | None:
        acks = request.values["acks"]
        if acks == 0:
            _check_all_taken(responses)
            return None
        if self._waits(acks) and appended:
            return _Flushed({"responses": responses}, appended, self._flushes)
        return {"responses": responses}

    def _waits(self, acks: int) -> bool:
        policy = self._flushes.policy
        return policy is FlushPolicy.EACH or (policy is FlushPolicy.GROUP and acks == ALL_REPLICAS)

    def _begin(
        self, request: Request, topic: str, given: dict[str, Any], appended: list[_Appended]
    ) -> dict[str, Any] | asyncio.Task[dict[str, Any]]:
        """Return what the response says of a partition, or a task that will."""
        if topic in INTERNAL_SETTINGS:
            reason = f"{topic} is written by brokers alone"
            return _failed(given["index"], Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason))
        try:
            partition = partition_at_once(self._manager, topic, given["index"])
            _check(request, given["records"])
            is_long = _takes_long(partition, given["records"])
        except KafkaError as error:
            return _failed(given["index"], error)
        except Exception:  # noqa: BLE001 - the other partitions are not to blame
            return _failed_unexpectedly(topic, given["index"])
        append = partial(self._append, request, partition, given, appended)
        return self._appends.call(partition, append, is_long=is_long)

    def _append(
        self,
        request: Request,
        partition: Partition,
        given: dict[str, Any],
        appended: list[_Appended],
    ) -> dict[str, Any]:
        number, records = given["index"], given["records"]
        log = None
        try:
            guard = self._verification.guard(request, partition, records)
            log = partition.log
            # The buffer of the request, which nobody reads again.
            info = partition.append_locked(records, verification_guard=guard, may_change=True)
        except KafkaError as error:
            answer = _failed(number, error)
            if log is not None and not isinstance(error, _WITHOUT_START):
                answer["logStartOffset"] = log.log_start_offset
            self._maybe_tell(partition.topic, answer["recordErrors"])
            return answer
        except Exception:  # noqa: BLE001 - as above
            return _failed_unexpectedly(partition.topic, number)
        answer = _appended(number, info, info.first_offset)
        appended.append((partition, answer))
        return answer

    def _maybe_tell(self, topic: str, errors: list[dict[str, Any]]) -> None:
        """Log that a topic takes only records with keys: clients show no more than a code."""
        reasons = {one["batchIndexErrorMessage"] for one in errors}
        for reason in reasons.intersection(NO_KEY.values()):
            if self._lines.is_due(topic, reason):
                _log.warning("records-refused topic=%s reason=%s", topic, reason)


class _Flushed(Later):
    """The answer once all flushes have ended, with the errors of those that failed."""

    __slots__ = ("_answer", "_left")

    def __init__(self, answer: dict[str, Any], appended: list[_Appended], flushes: Flushes) -> None:
        super().__init__()
        self._answer = answer
        self._left = len(appended)
        for partition, one in appended:  # at the same time: there may be a hundred
            flushes.begin(partition, partial(self._ended, one))

    def _ended(self, one: dict[str, Any], error: BaseException | None) -> None:
        if isinstance(error, KafkaError):
            # With its offset, which clients do not look at: what failed is not the append.
            one.update(_failed(one["index"], error) | {"baseOffset": one["baseOffset"]})
        elif error is not None:
            self.fail(error)
        self._left -= 1
        if not self._left:
            self.give(self._answer)


def _may_be_together(request: Request, records: Bytes) -> bool:
    if len(records) < BATCH_HEADER.size:
        return False
    attributes = BATCH_HEADER.unpack_field("attributes", records)
    if attributes & ~BatchFlags.CODEC:
        return False
    return not attributes or (request.version >= _ZSTD_VERSION and len(records) < _LONG_BYTES)


def _appended(number: int, info: AppendInfo, first_offset: int) -> dict[str, Any]:
    return {
        "index": number,
        "baseOffset": first_offset,
        "logAppendTimeMs": info.log_append_time,
        "logStartOffset": info.log_start_offset,
    }


def _check_all_taken(responses: list[dict[str, Any]]) -> None:
    """Have the connection closed where something failed: a client without acks hears nothing else.

    Source: Kafka KafkaApis.handleProduceRequest.
    """
    for topic in responses:
        for one in topic["partitionResponses"]:
            if one.get("errorCode", 0):
                reason = one.get("errorMessage") or "see the service's log"
                raise Disconnect(f"{topic['name']}-{one['index']} took no records: {reason}")


def _has_transactional(request: Request) -> bool:
    for topic in request.values["topicData"]:
        for given in topic["partitionData"]:
            if given["records"] and is_transactional(given["records"]):
                return True
    return False


def _unauthorized(request: Request) -> list[dict[str, Any]]:
    """Refuse all partitions of a request that has records of a transaction, and not its id.

    Source: Kafka KafkaApis.handleProduceRequest.
    """
    error = Refusal(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "the request has no transactional id, and records of a transaction",
    )
    return [
        {
            "name": topic["name"],
            "partitionResponses": [_failed(one["index"], error) for one in topic["partitionData"]],
        }
        for topic in request.values["topicData"]
    ]


def _check(request: Request, records: Bytes | None) -> None:
    """Refuse what Kafka refuses before it looks into the log, in its order.

    Source: Kafka ProduceRequest.validateRecords and ReplicaManager.appendRecords.
    """
    if not records:
        raise InvalidRecord("there are no records")
    view = memoryview(records)
    size = whole_batch_size(view, 0, len(view), in_memory=True)
    if not size:
        raise InvalidRecord("the batch is cut short: nothing was appended")
    magic = BATCH_PREFIX.unpack_field("magic", records)
    if magic != MAGIC_V2:
        raise InvalidRecord(f"the batch has magic {magic}: only {MAGIC_V2} is taken")
    if request.version < _ZSTD_VERSION and _codec_of(records) == Codec.ZSTD:
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs version {_ZSTD_VERSION} of Produce",
        )
    if len(view) > size and whole_batch_size(view, size, len(view), in_memory=True):
        raise InvalidRecord("a partition takes one batch of a request, not more")
    if request.values["acks"] not in {ALL_REPLICAS, 0, 1}:
        raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")


def _codec_of(records: Bytes) -> int:
    """Return the number of the codec, known or not."""
    number: int = BATCH_HEADER.unpack_field("attributes", records) & BatchFlags.CODEC
    return number


def _takes_long(partition: Partition, records: Bytes) -> bool:
    """Whether an append would hold up the event loop, by the topic's ``compression.type``."""
    if len(records) < _LONG_REPACKED_BYTES:
        return False
    compression_type = partition.config.compression_type
    is_kept = compression_type == "producer"
    if is_kept and len(records) < _LONG_BYTES:
        return False
    codec = _codec_of(records)
    if codec == Codec.NONE:
        return not is_kept and compression_type != "uncompressed"
    return len(records) >= _LONG_BYTES or codec != _CODECS.get(compression_type)


def _ended(found: dict[str, Any] | asyncio.Task[dict[str, Any]], number: int) -> dict[str, Any]:
    """Return what the response says of a partition, once its task has ended."""
    try:
        return found if isinstance(found, dict) else found.result()
    except KafkaError as error:  # its turn never came: the others are not to blame
        return _failed(number, error)


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


def _failed_unexpectedly(topic: str, number: int) -> dict[str, Any]:
    _log.exception("append-failed topic=%s partition=%d", topic, number)
    return {"index": number, "errorCode": int(ErrorCode.UNKNOWN_SERVER_ERROR)}
