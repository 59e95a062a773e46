"""Which transactions may write where. Kafka: ``AddPartitionsToTxnManager``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.log.append_info import NO_GUARD

if TYPE_CHECKING:
    from tidelog.broker.request import Request
    from tidelog.codec.layout import Buffer
    from tidelog.manager.partition import Partition


class Verification:
    def guard(self, request: Request, partition: Partition, records: Buffer) -> int:
        return NO_GUARD
