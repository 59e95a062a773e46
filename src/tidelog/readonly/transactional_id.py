"""One transactional id: its producer, and the transaction that is open.

Kept as Kafka keeps them: records of ``__transaction_state``, of which the newest of a key counts.
Kafka: ``TransactionMetadata``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.messages.keyed_message import read_keyed, write_key, write_value
from tidelog.errors import InvalidRecord
from tidelog.records.batch import NO_PRODUCER_ID
from tidelog.records.known_records import known_records
from tidelog.segment.filenames import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.records.builder import RecordFields
    from tidelog.records.record import Record

TRANSACTIONS_TOPIC: Final = "__transaction_state"
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LAST_EPOCH: Final = 2**15 - 2
"""The greatest epoch that a producer gets; the one above fences it when its id is used up."""
_NUMBER: Final = 0
_WRITTEN_VERSION: Final = 0
"""The one that Kafka writes without the feature ``transaction.version``."""


class State(IntEnum):
    """What a transaction has come to. Source: Kafka TransactionState."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """The name that tools show."""
        return self.name.title().replace("_", "")


DECIDED: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
"""Markers are still to be written."""
ENDED: Final = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


@dataclass(slots=True, eq=False)
class Transaction:
    """A transactional id. Times are in ms, -1 none; ``previous_epoch`` is that before a bump.

    ``previous_epoch`` is known only since the coordinator has started: it lets a producer repeat a
    request whose answer was lost. A decision of a Kafka broker's may be of ``version`` 2: its epoch
    was raised for the markers, and where that was the last one, ``next_id`` is the producer from
    then on. Source: KIP-890.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: set[TopicPartition] = field(default_factory=set)
    updated_ms: int = NO_TIME
    started_ms: int = NO_TIME
    previous_id: int = NO_PRODUCER_ID
    previous_epoch: int = NO_EPOCH
    version: int = 0
    next_id: int = NO_PRODUCER_ID

    def is_to_end_in(self, key: TopicPartition) -> bool:
        """Whether a marker of it is still to be written in a partition."""
        return self.state not in ENDED and key in self.partitions

    def decided(self, state: State, epoch: int) -> Transaction:
        """Return this once it is decided here, where the epoch is not raised for the markers."""
        return replace(self, state=state, epoch=epoch, version=0, next_id=NO_PRODUCER_ID)

    def ended(self) -> Transaction:
        """Return this once all markers are written.

        Source: Kafka TransactionMetadata.prepareComplete.
        """
        is_commit = self.state is State.PREPARE_COMMIT
        ended = replace(
            self,
            state=State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
            partitions=set(),
            version=0,
            next_id=NO_PRODUCER_ID,
        )
        if self.next_id != NO_PRODUCER_ID:
            ended.producer_id, ended.epoch = self.next_id, 0
        return ended


class Stored(NamedTuple):
    """What a record says; ``transaction`` None: the id was forgotten."""

    transactional_id: str
    transaction: Transaction | None


def transaction_key(transactional_id: str) -> bytes:
    """Return the key of the record of a transactional id."""
    return write_key("transaction", _NUMBER, {"transactionalId": transactional_id})


def transaction_record(found: Transaction, now_ms: int) -> RecordFields:
    """Return the record of a transactional id as it is now."""
    partitions = None if found.state is State.EMPTY else numbers_by_topic(sorted(found.partitions))
    values = {
        "producerId": found.producer_id,
        "producerEpoch": found.epoch,
        "transactionTimeoutMs": found.timeout_ms,
        "transactionStatus": int(found.state),
        "transactionPartitions": partitions
        and [{"topic": name, "partitionIds": numbers} for name, numbers in partitions.items()],
        "transactionLastUpdateTimestampMs": found.updated_ms,
        "transactionStartTimestampMs": found.started_ms,
    }
    value = write_value("transaction", _NUMBER, _WRITTEN_VERSION, values)
    return (now_ms, transaction_key(found.transactional_id), value, ())


def transaction_tombstone(transactional_id: str, now_ms: int) -> RecordFields:
    """Return the record that forgets a transactional id."""
    return (now_ms, transaction_key(transactional_id), None, ())


def read_transaction(record: Record) -> Stored | None:
    """Return what a record of the topic says; None for one of a kind that is not known.

    Raises InvalidRecord for one that is malformed, or of a version that is not known.
    """
    found = read_keyed("transaction", (_NUMBER,), record.key, record.value)
    if found is None:
        return None
    key, values = found.key["transactionalId"], found.value
    if values is None:
        return Stored(key, None)
    try:
        state = State(values["transactionStatus"])
    except ValueError as error:
        raise InvalidRecord(str(error)) from error
    partitions = {
        TopicPartition(topic["topic"], number)
        for topic in values["transactionPartitions"] or ()
        for number in topic["partitionIds"]
    }
    return Stored(
        key,
        Transaction(
            *(key, values["producerId"], values["producerEpoch"], values["transactionTimeoutMs"]),
            state,
            partitions,
            values["transactionLastUpdateTimestampMs"],
            values["transactionStartTimestampMs"],
            version=max(values.get("clientTransactionVersion", 0), 0),
            next_id=values.get("nextProducerId", NO_PRODUCER_ID),
        ),
    )


def stored_transactions(records: Iterable[Record], directory: str) -> dict[str, Transaction]:
    """Return the transactional ids that the records of a partition of the topic leave, by name.

    ``directory`` is that of the partition.
    """
    found: dict[str, Transaction] = {}
    for _, stored in known_records(records, read_transaction, directory):
        if stored.transaction is None:
            found.pop(stored.transactional_id, None)
        else:
            found[stored.transactional_id] = stored.transaction
    return found
