"""A segment of an old Kafka, split here and by Kafka's own log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.compat.two_logs import KafkaLog, OwnLog, opening
from tests.machinery.overflowed_segment import COMMITTED, NOW_MS, OVERFLOWED, TXN_INDEX

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.two_logs import OneLog

pytestmark = [pytest.mark.compat, pytest.mark.slow]


def lay(directory: Path) -> Path:
    """Write the segment, without an offset index."""
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(OVERFLOWED)
    (directory / f"{0:020d}.txnindex").write_bytes(TXN_INDEX)
    return directory


def committed(log: OneLog, directory: Path, **how: Any) -> list[int]:
    """Open a log, return the offsets that readers of committed records get, and close it."""
    opened = log.ask("open", **opening(directory, {}, NOW_MS, **how))
    log.ask("update high watermark", offset=opened["state"]["logEndOffset"])
    found = log.ask("consume", isolation="TXN_COMMITTED")
    log.ask("close")
    return [offset for offset, _ in found["result"]]


def test_kafka_reads_no_aborted_record_of_a_segment_that_was_split_here(
    kafka_log: KafkaLog, tmp_path: Path
) -> None:
    """Its own split loses the aborted transactions."""
    ours, theirs = (lay(tmp_path / side / "flights-0") for side in ("here", "kafka"))

    assert committed(OwnLog(), ours) == [*COMMITTED]
    assert committed(kafka_log, ours, recovery_point=COMMITTED[-1] + 1) == [*COMMITTED]
    assert committed(kafka_log, theirs) != [*COMMITTED]
