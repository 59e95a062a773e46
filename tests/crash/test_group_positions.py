"""Positions of a group, and results committed with them, wherever the machine stops."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome
from tests.machinery.scale import scaled

from tidelog.config.log_config import LogConfig
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.testing.disk import Kept

SETTINGS = LogConfig(segment_index_bytes=1200, retention_ms=-1)
INPUT = [b"%d" % number for number in range(9)]
ROUND = 4
"""Records that a round of the program reads and commits."""


def prepared(seed: int) -> DataHome:
    """Return a machine with topics in, of two partitions, and out."""
    home = DataHome(seed)
    with home.open(defaults=SETTINGS) as logs:
        logs.create_topic("in", 2)
        logs.create_topic("out")
        for number, value in enumerate(INPUT):
            logs.append("in", value, partition=number % 2)
        logs.flush()
    return home


def transform(home: DataHome) -> None:
    """Write each record of in to out, in rounds; results and positions are committed together."""
    with home.open(defaults=SETTINGS) as logs, logs.reader("in", group="g") as reader:
        while sum(reader.lag().values()):
            with logs.transaction() as txn:
                for record in islice(reader.read(), ROUND):
                    txn.append("out", record.value)
                reader.commit(txn)


def results(home: DataHome) -> list[bytes]:
    """Return what is in out, sorted."""
    with home.open(defaults=SETTINGS) as logs:
        return sorted(record.value or b"" for record in logs.read("out"))


def enumerate_transforms(step: int, kept: list[tuple[Kept | None, int]]) -> int:
    """Cut the program off after each ``step`` operations and run it again; return the crashes."""
    home = prepared(0)
    before = len(home.fs.operations)
    transform(home)
    count = len(home.fs.operations) - before
    assert results(home) == sorted(INPUT)
    crashes = 0
    for operations in range(0, count + 1, step):
        for outcome, seed in kept:
            home = prepared(seed)
            home.fs.crash_after(operations)
            with suppress(PowerCut):
                transform(home)
            home.fs.power_cut(outcome)
            transform(home)
            assert results(home) == sorted(INPUT), (operations, outcome, seed)
            crashes += 1
    return crashes


def test_what_is_committed_with_positions_is_written_exactly_once(enumerated: Enumerated) -> None:
    """Each record of the input has one result, and no position runs ahead of the results."""
    enumerated("crashes", enumerate_transforms(29, [("all", 0), ("none", 0)]), at_least=10)


@pytest.mark.slow
def test_results_are_written_exactly_once_at_each_moment(enumerated: Enumerated) -> None:
    """After each operation, and with parts of what was not synced."""
    kept: list[tuple[Kept | None, int]] = [("all", 0), ("none", 0)]
    kept += [(None, seed) for seed in range(scaled(2))]
    enumerated("crashes", enumerate_transforms(1, kept), at_least=500)


def read_alone(home: DataHome, committed: list[dict[TopicPartition, int]]) -> list[bytes]:
    """Read what is left in rounds, each with a commit of its own; note what was committed."""
    seen = []
    with home.open(defaults=SETTINGS) as logs, logs.reader("in", group="g") as reader:
        for _ in range(len(INPUT)):
            seen += [record.value or b"" for record in islice(reader.read(), ROUND)]
            reader.commit()
            committed.append(dict(reader.positions))
    return seen


def test_a_commit_survives_and_nothing_is_skipped(enumerated: Enumerated) -> None:
    """No position is behind the last commit that returned, and no record is left out."""
    home = prepared(0)
    before = len(home.fs.operations)
    read_alone(home, [])
    count = len(home.fs.operations) - before
    crashes = 0
    for operations in range(0, count + 1, 7):
        for outcome in ("all", "none"):
            home = prepared(1)
            committed: list[dict[TopicPartition, int]] = [
                {TopicPartition("in", 0): 0, TopicPartition("in", 1): 0}
            ]
            home.fs.crash_after(operations)
            with suppress(PowerCut):
                read_alone(home, committed)
            home.fs.power_cut(outcome)
            with home.open(defaults=SETTINGS) as logs, logs.reader("in", group="g") as reader:
                start = dict(reader.positions)
                later = {(r.topic, r.partition, r.offset) for r in reader.read()}
            assert all(start[key] >= offset for key, offset in committed[-1].items())
            ends = {TopicPartition("in", 0): 5, TopicPartition("in", 1): 4}
            assert later == {(*key, n) for key in start for n in range(start[key], ends[key])}
            crashes += 1
    enumerated("crashes", crashes, at_least=10)
