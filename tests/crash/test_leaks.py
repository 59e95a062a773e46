"""Programs that run for long, or open directories again and again: nothing piles up in them."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from tests.machinery.scale import scaled

import tidelog
from tidelog.kernels.runtime import gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Enumerated

WARM: Final = 5
"""Rounds until caches have their size."""
ROUNDS: Final = scaled(50)
MOST_BLOCKS: Final = 2000
"""Python's blocks of memory: more than vary from round to round."""
SETTINGS: Final = {
    "internal.segment.bytes": "20000",
    "file.delete.delay.ms": "0",
    "retention.bytes": "10000",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc"),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing, since pytest keeps what is logged, and load no kernels, which stay loaded."""
    logger = logging.getLogger("tidelog")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    gate.force(False)
    yield
    gate.force(None)
    logger.setLevel(before)


class Used(NamedTuple):
    """What this process has in use."""

    descriptors: int
    threads: int
    blocks: int


def used() -> Used:
    """Return what is in use once all garbage is collected."""
    gc.collect()
    count = len(os.listdir("/proc/self/fd"))
    return Used(count, threading.active_count(), sys.getallocatedblocks())


def grown(round_: Callable[[int], None], count: int) -> Used:
    """Return by how much more is in use after ``count`` rounds than after the first few."""
    for number in range(WARM):
        round_(number)
    before = used()
    for number in range(WARM, WARM + count):
        round_(number)
    after = used()
    return Used(*(now - then for now, then in zip(after, before, strict=True)))


def write_and_read(logs: tidelog.Logs, number: int) -> None:
    """Use a bit of everything; delete what was written."""
    logs.append_all("t", [b"%d" % number * 100] * 20)
    with logs.reader("t", group="g") as reader, logs.transaction() as txn:
        for record in reader.read():
            txn.append("u", record.value)
        reader.commit(txn)
    for topic in ("t", "u"):
        for partition in logs.partitions(topic):
            partition.log.roll()
        logs.retain(topic)
    logs.delete_records("u", 0, "highWatermark")
    logs.compact("__consumer_offsets")


def prepared(path: Path) -> Path:
    """Make the topics."""
    with tidelog.open(path) as logs:
        logs.create_topic("t", 2, config=SETTINGS)
        logs.create_topic("u", config=SETTINGS)
    return path


def test_a_program_that_runs_for_long_keeps_nothing(tmp_path: Path, enumerated: Enumerated) -> None:
    """No descriptor, thread or memory of segments, transactions and readers that are gone."""
    with tidelog.open(prepared(tmp_path / "data")) as logs:
        found = grown(lambda number: write_and_read(logs, number), ROUNDS)

    enumerated("rounds", ROUNDS, at_least=ROUNDS)
    assert found.descriptors < ROUNDS // 5, found  # of files that are about to be deleted
    assert found.threads == 0
    assert found.blocks < MOST_BLOCKS, found


def test_a_directory_that_is_opened_again_and_again_leaves_nothing(
    tmp_path: Path, enumerated: Enumerated
) -> None:
    """For writing and for reading, closed in order or only dropped."""
    path = prepared(tmp_path / "data")

    def open_and_close(number: int) -> None:
        with tidelog.open(path) as logs:
            write_and_read(logs, number)
        directory = tidelog.open_directory_read_only(path)
        list(directory.read("t", 0))

    found = grown(open_and_close, ROUNDS)

    enumerated("rounds", ROUNDS, at_least=ROUNDS)
    assert found[:2] == (0, 0)
    assert found.blocks < MOST_BLOCKS, found
