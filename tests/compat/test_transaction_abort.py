"""Kafka reads the marker that ``tidelog txns abort`` writes as one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.cli.main import main
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Java

pytestmark = pytest.mark.compat

TOOL = "org.apache.kafka.tools.DumpLogSegments"


def test_kafkas_dump_tool_prints_the_marker_and_the_aborted_transaction(
    java: Java, tmp_path: Path
) -> None:
    """An abort of the producer's epoch, and its entry in the index of transactions."""
    with tidelog.open(tmp_path, transaction_partition_verification_enable=False) as logs:
        logs.create_topic("t")
        logs.append("t", b"plain")
        fields = {"transactional": True, "producer_id": 9, "producer_epoch": 3, "base_sequence": 0}
        record = (1_700_000_000_000, b"k", b"v", ())
        logs.partition("t", 0).append(build_batch([record], **fields))  # type: ignore[arg-type]  # fields of a batch
    words = ["txns", "abort", "t-0", "--producer-id", "9", "--execute", "-d", str(tmp_path)]
    assert main(words) == 0

    base = tmp_path / "t-0" / f"{0:020d}"
    log = java.run(TOOL, "--files", f"{base}.log", "--deep-iteration", "--print-data-log")
    index = java.run(TOOL, "--files", f"{base}.txnindex")

    [batch] = [line for line in log.splitlines() if line.startswith("baseOffset: 2 ")]
    assert "producerId: 9 producerEpoch: 3" in batch
    assert "isTransactional: true isControl: true" in batch
    assert "size: 78" in batch
    assert "isvalid: true" in batch
    assert "endTxnMarker: ABORT coordinatorEpoch: 0" in log
    assert "producerId: 9 firstOffset: 1 lastOffset: 2 lastStableOffset: 3" in index
