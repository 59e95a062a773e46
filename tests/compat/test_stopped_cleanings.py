"""A replacement that a cleaning here has left half-way, and that Kafka's own log completes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.compat.two_logs import KafkaLog, opening

import tidelog
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = [pytest.mark.compat, pytest.mark.slow]

NOW_MS = 1_700_000_000_000
CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1"}


def batch(offset: int) -> bytes:
    return build_batch([(NOW_MS, b"key", b"value", ())], base_offset=offset, leader_epoch=0)


@pytest.mark.parametrize("is_complete", [True, False])
def test_the_mark_of_a_cleaned_segment_counts_if_kafka_completes_its_replacement(
    kafka_log: KafkaLog, tmp_path: Path, *, is_complete: bool
) -> None:
    """Kafka renames it with the segment, or deletes it with that; then the log opens here."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", config=CONFIG)
    directory = tmp_path / "t-0"
    for file in directory.glob("0*"):
        file.unlink()
    (directory / f"{0:020}.log").write_bytes(batch(0) + batch(1) + batch(2))
    (directory / f"{3:020}.log").write_bytes(batch(3))
    state = ".swap" if is_complete else ".cleaned"
    (directory / f"{0:020}.log{state}").write_bytes(batch(1))
    (directory / f"{0:020}.cleaned-3-{len(batch(1))}.swap").touch()
    (tmp_path / ".kafka_cleanshutdown").unlink()

    opened = kafka_log.ask("open", **opening(directory, CONFIG, NOW_MS, is_clean=False))
    kafka_log.ask("close")

    assert opened["state"]["logEndOffset"] == 4
    marks = [file.name for file in directory.iterdir() if ".cleaned" in file.name]
    assert marks == ([f"{0:020}.cleaned-3-{len(batch(1))}"] if is_complete else [])
    with tidelog.open(tmp_path) as logs:
        kept = [1, 3] if is_complete else [0, 1, 2, 3]
        assert [record.offset for record in logs.read("t")] == kept
    assert not list(directory.glob("*.cleaned*"))
