"""A batch that a test has damaged is an error for its readers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.errors import CorruptMessage, InvalidArgument
from tidelog.testing import CrashFileSystem, ManualClock, damage_batch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_records_before_the_damage_are_read(tmp_path: Path, compression: str) -> None:
    """Then an error says where it is; whether the batch is compressed does not matter."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", partitions=2, config={"compression.type": compression})
        for value in (b"0", b"1", b"2"):
            logs.append("t", value, partition=1)
    damage_batch(tmp_path, "t", 1, partition=1)

    found: list[bytes | None] = []
    with (
        tidelog.open_read_only(tmp_path / "t-1") as log,
        pytest.raises(CorruptMessage, match="CRC"),
    ):
        found.extend(record.value for record in log.records())

    assert found == [b"0"]


def test_a_batch_of_an_open_log_in_memory_may_be_damaged() -> None:
    """In the segment that holds the offset, not in the last one."""
    clock = ManualClock()
    disk = CrashFileSystem(clock=clock)
    with tidelog.open("/data", clock=clock, files=disk, segment_ms=1000) as logs:
        logs.create_topic("t")
        for number in range(3):
            logs.append("t", b"%d" % number)
            clock.advance(2000)
        assert sum(name.endswith(".log") for name in disk.list("/data/t-0")) == 3
        damage_batch("/data", "t", 1, files=disk)

        assert [record.value for record in logs.read("t", start_offset=2)] == [b"2"]
        with pytest.raises(CorruptMessage):
            list(logs.read("t"))


@pytest.mark.parametrize("offset", [-1, 1])
def test_an_offset_that_is_not_there_is_refused(tmp_path: Path, offset: int) -> None:
    """A test that damages nothing would pass for the wrong reason."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")

    with pytest.raises(InvalidArgument, match=rf"t-0 has no batch with offset {offset} to damage"):
        damage_batch(os.fspath(tmp_path), "t", offset)
