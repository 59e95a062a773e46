"""A write and another process that holds the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.errors import DirectoryLocked
from tidelog.spark.options.source_options import WriteOptions
from tidelog.spark.write.batch_writer import check_not_busy, open_when_free

if TYPE_CHECKING:
    from pathlib import Path


def options(path: Path, **others: str) -> WriteOptions:
    return WriteOptions.parse({"path": str(path), "topic": "t"} | others)


def test_a_write_to_a_directory_in_use_fails_before_its_tasks_work(tmp_path: Path) -> None:
    """Unless the user asks to wait for the lock at the commit."""
    check_not_busy(options(tmp_path))
    with tidelog.open(tmp_path), pytest.raises(DirectoryLocked):
        check_not_busy(options(tmp_path))
    with tidelog.open(tmp_path):
        check_not_busy(options(tmp_path, commitTimeoutMs="1000"))


def test_the_commit_waits_for_the_lock(tmp_path: Path) -> None:
    """It opens the directory once the other writer closes it, or fails after the timeout."""
    logs = tidelog.open(tmp_path)
    with pytest.raises(DirectoryLocked):
        open_when_free(options(tmp_path, commitTimeoutMs="10"))
    waits: list[int] = []

    def close(wait_ms: int) -> None:
        waits.append(wait_ms)
        logs.close()

    with open_when_free(options(tmp_path), close) as opened:
        assert opened.topics() == {}
    assert len(waits) == 1
