"""Commits of many bytes, which work on several partitions at the same time."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.embedded.doors import open_briefly
from tidelog.errors import CommitUnfinished, KafkaStorageError
from tidelog.staging import transaction as staging
from tidelog.staging.placing import place_moves
from tidelog.staging.staged_run import check_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARTITIONS = 4
VALUES = [random.Random(20130101).randbytes(900_000) for _ in range(24)]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with topic t, used by a machine with two cores."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("t", PARTITIONS)
    return tmp_path / "data"


def write(logs: tidelog.Logs) -> None:
    """Commit the values under one id, to the partitions in turn."""
    with logs.transaction("x") as txn:
        for number, value in enumerate(VALUES):
            txn.append("t", value, partition=number % PARTITIONS)


def check(path: Path) -> None:
    """Check that each partition has its values once, in order."""
    with tidelog.open(path) as logs:
        for number in range(PARTITIONS):
            found = [record.value for record in logs.read("t", number)]
            assert found == VALUES[number::PARTITIONS]


@pytest.mark.parametrize("opened", [tidelog.open, open_briefly], ids=["service", "brief"])
def test_two_partitions_are_checked_and_written_at_the_same_time(
    path: Path, opened: Callable[[Path], tidelog.Logs], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check and each write waits until another one has begun."""
    for name, function in (("check_run", check_run), ("place_moves", place_moves)):
        both = threading.Barrier(2)

        def call(*args: Any, both: Any = both, then: Any = function, **more: Any) -> Any:
            both.wait(30)
            return then(*args, **more)

        monkeypatch.setattr(staging, name, call)

    with opened(path) as logs:
        write(logs)

    monkeypatch.undo()
    check(path)


def test_a_partition_that_fails_does_not_stop_the_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed stays so, and the next opening writes what is missing, once."""
    placed = []

    def place(fs: Any, data_dir: str, log: Any, *args: Any, **more: Any) -> Any:
        number = int(log.directory.rpartition("-")[2])
        if number == 1:
            raise KafkaStorageError("the disk is full")
        placed.append(number)
        return place_moves(fs, data_dir, log, *args, **more)

    monkeypatch.setattr(staging, "place_moves", place)
    with open_briefly(path) as logs, pytest.raises(CommitUnfinished, match="the disk is full"):
        write(logs)

    assert sorted(placed) == [0, 2, 3]
    monkeypatch.undo()
    check(path)


def test_a_partition_that_fails_its_check_refuses_the_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, to no partition, and the staged files are gone."""

    def check_one(fs: Any, data_dir: str, run: Any, limits: Any) -> Any:
        if run.partition == 2:
            raise KafkaStorageError("damaged")
        return check_run(fs, data_dir, run, limits)

    monkeypatch.setattr(staging, "check_run", check_one)
    with open_briefly(path) as logs, pytest.raises(KafkaStorageError, match="damaged"):
        write(logs)

    assert not list(path.glob("*.staged"))
    with tidelog.open(path) as logs:
        for number in range(PARTITIONS):
            assert logs.offsets("t", number).log_end_offset == 0
