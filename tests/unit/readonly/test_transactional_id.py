"""Records of ``__transaction_state``, as Kafka's broker writes and reads them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from tidelog.codec.messages.keyed_message import write_value
from tidelog.errors import InvalidRecord
from tidelog.readonly.transactional_id import (
    LAST_EPOCH,
    State,
    Stored,
    Transaction,
    read_transaction,
    stored_transactions,
    transaction_key,
    transaction_record,
    transaction_tombstone,
)
from tidelog.records.batch import TimestampType
from tidelog.records.record import Record
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.records.builder import RecordFields


def test_states_have_kafkas_numbers() -> None:
    """They are on the disk. Source: Kafka TransactionState."""
    assert [state.shown for state in State] == [
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
        *("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"),
    ]
    assert [*State] == [*range(8)]
    assert LAST_EPOCH == 32_766


def test_a_record_is_kafkas_byte_for_byte() -> None:
    """Of value version 0: producer, epoch, timeout, state, partitions, last update, start."""
    found = Transaction("x", 5, 4, 60_000, State.ONGOING, {TopicPartition("t", 2)}, 7, 6)
    _, key, value, headers = transaction_record(found, 9)

    assert key is not None
    assert value is not None
    assert key.hex(" ", 2) == "00 0000 0178"
    fields = [
        *("0000", "0000000000000005", "0004", "0000ea60", "01"),
        *("00000001", "000174", "00000001", "00000002"),
        *("0000000000000007", "0000000000000006"),
    ]
    assert value.hex() == "".join(fields)
    assert headers == ()
    assert transaction_tombstone("x", 9) == (9, key, None, ())


def test_a_new_producer_has_no_partitions_and_no_times() -> None:
    """Null and -1, as Kafka writes them; nobody has asked twice for its epoch yet."""
    new = Transaction("x", 5, 0, 60_000)
    _, _, value, _ = transaction_record(new, 9)

    assert value is not None
    assert value[-20:].hex() == "ff" * 20
    assert (new.previous_id, new.previous_epoch, new.version, new.next_id) == (-1, -1, 0, -1)


def test_what_is_decided_and_ended_here_is_of_version_0() -> None:
    """Whatever a Kafka broker had begun: markers of version 2 raise the epoch."""
    found = Transaction("x", 5, 4, 1, State.ONGOING, version=2, next_id=9)
    decided = found.decided(State.PREPARE_ABORT, 5)

    assert (decided.version, decided.next_id, decided.epoch) == (0, -1, 5)
    ended = decided.ended()
    assert (ended.state, ended.version, ended.producer_id) == (State.COMPLETE_ABORT, 0, 5)


def stored(fields: RecordFields) -> Record:
    """Return a record as a reader sees it."""
    time_ms, key, value, headers = fields
    return Record(0, time_ms, TimestampType.CREATE_TIME, key, value, tuple(headers))


def read(fields: RecordFields) -> Stored | None:
    """Return what is read of a record."""
    return read_transaction(stored(fields))


@pytest.mark.parametrize("state", State)
def test_what_is_written_is_read(state: State) -> None:
    """All but what only a coordinator that runs knows, and the partitions of an empty one."""
    partitions = {TopicPartition("t", 2), TopicPartition("t", 0), TopicPartition("u", 1)}
    written = Transaction("x", 5, 4, 60_000, state, partitions, 7, 6, 3, 2, 2, 9)
    expected = replace(written, previous_id=-1, previous_epoch=-1, version=0, next_id=-1)
    if state is State.EMPTY:
        expected.partitions = set()

    found = read(transaction_record(written, 9))

    assert found is not None
    assert found.transactional_id == "x"
    assert found.transaction is not None
    assert asdict(found.transaction) == asdict(expected)
    assert read(transaction_tombstone("x", 9)) == Stored("x", None)


VALUE_1 = {
    "producerId": 5,
    "producerEpoch": 4,
    "transactionTimeoutMs": 60_000,
    "transactionStatus": 3,
    "transactionPartitions": None,
    "transactionLastUpdateTimestampMs": 7,
    "transactionStartTimestampMs": 6,
}


@pytest.mark.parametrize(
    ("tagged", "version", "next_id"),
    [
        ({}, 0, -1),
        ({"clientTransactionVersion": 1}, 1, -1),
        ({"clientTransactionVersion": 2, "nextProducerId": 9}, 2, 9),
        ({"clientTransactionVersion": -1}, 0, -1),
    ],
)
def test_a_kafka_broker_may_have_raised_the_epoch_for_the_markers(
    tagged: dict[str, int], version: int, next_id: int
) -> None:
    """Value version 1 says how its client ends it, and who comes after it. Source: KIP-890."""
    value = write_value("transaction", 0, 1, VALUE_1 | tagged)
    found = read((9, transaction_key("x"), value, ()))

    assert found is not None
    assert found.transaction is not None
    assert (found.transaction.version, found.transaction.next_id) == (version, next_id)
    assert (found.transaction.state, found.transaction.partitions) == (
        State.PREPARE_ABORT,
        set(),
    )


def test_records_of_other_kinds_are_not_read_and_malformed_ones_are_refused() -> None:
    """A kind, by the version of its key; a state that Kafka does not have is malformed."""
    key, value = transaction_key("x"), write_value("transaction", 0, 1, VALUE_1)
    unknown = write_value("transaction", 0, 1, VALUE_1 | {"transactionStatus": 8})

    assert read((9, b"\x00\x01" + key[2:], value, ())) is None
    assert read((9, b"\xff\xff" + key[2:], value, ())) is None
    for key_given, value_given in ((key, unknown), (key, value[:9]), (None, value)):
        with pytest.raises(InvalidRecord):
            read((9, key_given, value_given, ()))


def test_the_newest_record_of_an_id_counts() -> None:
    """One that was forgotten is not there; records that cannot be read are left out."""
    first, newer = Transaction("x", 5, 4, 1), Transaction("x", 6, 0, 1)
    fields = [
        transaction_tombstone("z", 9),
        transaction_record(first, 9),
        transaction_record(Transaction("y", 7, 0, 1), 9),
        (9, None, b"v", ()),
        transaction_record(newer, 9),
        transaction_tombstone("y", 9),
    ]

    found = stored_transactions(map(stored, fields), "/a/t-0")

    assert {name: one.producer_id for name, one in found.items()} == {"x": 6}


@pytest.mark.parametrize("state", State)
def test_markers_are_to_be_written_while_a_transaction_has_not_ended(state: State) -> None:
    """Only in its partitions."""
    found = Transaction("x", 5, 4, 1, state, {TopicPartition("t", 2)})
    has_ended = state in {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}

    assert found.is_to_end_in(TopicPartition("t", 2)) == (not has_ended)
    assert not found.is_to_end_in(TopicPartition("t", 1))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
        (State.PREPARE_ABORT, State.COMPLETE_ABORT),
        (State.PREPARE_EPOCH_FENCE, State.COMPLETE_ABORT),
    ],
)
def test_an_ended_transaction_has_no_partitions(state: State, expected: State) -> None:
    """Its next producer begins with epoch 0, if the epochs of this one are used up."""
    found = Transaction("x", 5, 4, 1, state, {TopicPartition("t", 2)}, version=2)
    ended, followed = found.ended(), replace(found, next_id=0).ended()

    assert (ended.state, ended.partitions, ended.version) == (expected, set(), 0)
    assert (ended.producer_id, ended.epoch) == (5, 4)
    assert (followed.producer_id, followed.epoch, followed.next_id) == (0, 0, -1)
