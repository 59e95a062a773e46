"""Records of ``__transaction_state``, as Kafka's broker writes and reads them."""

from __future__ import annotations

from tidelog.readonly.transactional_id import (
    LAST_EPOCH,
    State,
    Transaction,
    transaction_record,
    transaction_tombstone,
)
from tidelog.segment.filenames import TopicPartition


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
