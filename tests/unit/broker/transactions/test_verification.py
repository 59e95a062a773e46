"""Only batches of a transaction to which the partition was added are appended."""

from __future__ import annotations

from typing import Any

import pytest
from tests.machinery.broker_home import BrokerHome, add, begun, code, end, with_broker, write

from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transactions.verification import is_transactional
from tidelog.error_codes import ErrorCode
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

BATCH = build_batch(
    [(1, None, b"v", ())],
    transactional=True,
    producer_id=5,
    producer_epoch=0,
    base_sequence=0,
)


def changed(**fields: int) -> bytes:
    """Return the batch with other fields in its header."""
    header = BATCH_HEADER.unpack(BATCH)._replace(**fields)
    return BATCH_HEADER.pack(header) + BATCH[BATCH_HEADER.size :]


PLAIN = build_batch([(1, None, b"v", ())])
SIZE = BATCH_HEADER.size
FIRST: dict[str, tuple[bytes, bool]] = {
    "a batch": (BATCH, True),
    "and another one": (BATCH + PLAIN, True),
    "the second one": (PLAIN + BATCH, False),
    "cut short": (BATCH[:-1], False),
    "a header": (BATCH[:SIZE], False),
    "part of a header": (BATCH[: SIZE - 1], False),
    "nothing": (b"", False),
    "without records": (changed(length=SIZE - 12)[:SIZE], True),
    "compressed": (changed(attributes=BatchFlags.TRANSACTIONAL | 2), True),
    "plain": (changed(attributes=0), False),
    "a control batch": (changed(attributes=BatchFlags.CONTROL), False),
    "magic 1": (changed(magic=1), False),
    "magic 3": (changed(magic=3), False),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_batch_says_whether_records_are_of_a_transaction(name: str) -> None:
    """One that is cut short, or of another format, is refused by the append, as such."""
    records, expected = FIRST[name]

    assert is_transactional(records) == expected


def test_the_coordinator_is_asked_once_for_a_partition_of_a_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before its first batch; after that, the log knows that the transaction is open."""
    asked: list[object] = []
    check = TransactionCoordinator.check_writer

    def counted(coordinator: TransactionCoordinator, *given: Any) -> None:
        asked.append(given)
        check(coordinator, *given)

    monkeypatch.setattr(TransactionCoordinator, "check_writer", counted)

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        counts = []
        for transaction in range(2):
            await add(home, producer)
            for number in range(2):
                sequence = 2 * transaction + number
                assert await write(home, producer, b"v", sequence) is ErrorCode.NONE
                counts.append(len(asked))
            await end(home, producer)
        assert counts == [1, 1, 2, 2]
        for name in ("x", None):  # of whatever request a plain batch is
            data = [{"name": "t", "partitionData": [{"index": 0, "records": PLAIN}]}]
            fields: dict[str, Any] = {"acks": -1, "timeoutMs": 1, "topicData": data}
            answer = await home.ask("Produce", 9, transactionalId=name, **fields)
            assert code(answer["responses"][0]["partitionResponses"][0]) is ErrorCode.NONE
        assert len(asked) == 2

    with_broker(test)


def test_a_batch_that_was_checked_before_the_end_is_not_appended_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would begin a transaction that nobody ends. Source: KIP-890."""
    check = TransactionCoordinator.check_writer

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        partition = home.logs.partition("t", 0)

        def overtaken(coordinator: TransactionCoordinator, *given: Any) -> None:
            check(coordinator, *given)
            marker = build_marker(
                producer_id=producer[0],
                producer_epoch=producer[1],
                coordinator_epoch=0,
                is_commit=False,
                timestamp=home.clock.now_ms(),
            )
            partition.append_locked(marker, AppendOrigin.COORDINATOR, 0)

        monkeypatch.setattr(TransactionCoordinator, "check_writer", overtaken)
        assert await write(home, producer, b"late", 0) is ErrorCode.INVALID_TXN_STATE
        assert partition.log.log_end_offset == 1

    with_broker(test)
