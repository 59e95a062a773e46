"""The epochs of producers, where a flush fails that does not take the disk offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.broker_home import BrokerHome, begun, code, with_broker

from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    import pytest


def test_an_epoch_is_not_given_out_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor to a producer that asks again: after a power cut it would be one that nobody knows."""

    async def test(home: BrokerHome) -> None:
        producer_id, epoch = await begun(home)

        async def fail(*_: object) -> None:
            raise KafkaStorageError("the disk is full")

        async def asked() -> ErrorCode:
            answer = await home.ask(
                *("InitProducerId", 4),
                transactionalId="x",
                transactionTimeoutMs=60_000,
                producerId=producer_id,
                producerEpoch=epoch,
            )
            return code(answer)

        with monkeypatch.context() as patch:
            patch.setattr(home.broker._flushes, "wait", fail)
            for _ in range(2):
                assert await asked() is ErrorCode.NOT_COORDINATOR
        assert await asked() is ErrorCode.NONE

    with_broker(test)
