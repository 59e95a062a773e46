"""Power cuts at every moment of a short-lived writer's life: the directory opens again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.scale import scaled

from tidelog.errors import CorruptMessage
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Enumerated

CONFIG = {"retention.ms": "-1"}
VALUES = [b"a", b"b", b"c", b"d", b"e"]
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, scaled(6)))]
FLUSHED = 2
"""How many of the values are flushed before the others are appended."""


def create(home: DataHome) -> None:
    """Make a topic."""
    with home.open() as directory:
        directory.create_topic("t", 2, CONFIG)


def append(home: DataHome) -> None:
    """Append values, with a flush in between."""
    with home.open() as directory:
        log = directory.partition("t", 0)
        for number, value in enumerate(VALUES):
            if number == FLUSHED:
                directory.flush()
            if number == FLUSHED + 1:
                log.log.roll()
            log.append_records([record(value)])


def is_flushed(home: DataHome) -> bool:
    """Say whether the checkpoint of high watermarks was written."""
    return "replication-offset-checkpoint" in home.files()


def new_home(seed: int) -> DataHome:
    """Return a machine without a data directory."""
    return DataHome(seed)


def home_with_topic(seed: int) -> DataHome:
    """Return a machine with a data directory that was closed in order."""
    home = DataHome(seed)
    create(home)
    return home


def each_cut(
    seed: int, prepare: Callable[[int], DataHome], work: Callable[[DataHome], None]
) -> Iterator[DataHome]:
    """Do the work again and again, and cut the power one operation later each time.

    Yields the machine after each cut.
    """
    whole = prepare(seed)
    before = len(whole.fs.operations)
    work(whole)
    for operations in range(len(whole.fs.operations) - before):
        home = prepare(seed)
        home.fs.crash_after(operations)
        with suppress(PowerCut):
            work(home)
        home.fs.power_cut()
        yield home


@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_is_made_whole_or_not_at_all(seed: int, enumerated: Enumerated) -> None:
    """After the cut it has all partitions and settings, or can be made again."""
    cuts = 0
    for home in each_cut(seed, new_home, create):
        cuts += 1
        with home.open() as directory:
            if "t" not in directory.topics():
                directory.create_topic("t", 2, CONFIG)
            topic = directory.topic("t")
            directory.partition("t", 1).append_records([record(b"x")])

            assert (sorted(topic.partitions), topic.config) == ([0, 1], CONFIG)
        assert home.values("t-1") == [b"x"]
    enumerated("power cuts", cuts, at_least=10)


@pytest.mark.parametrize("seed", SEEDS)
def test_appends_lose_only_an_unflushed_suffix(seed: int, enumerated: Enumerated) -> None:
    """What was flushed is there, then a part of the others from their beginning."""
    cuts = 0
    for home in each_cut(seed, home_with_topic, append):
        cuts += 1
        was_flushed = is_flushed(home)
        with home.open() as directory:
            directory.partition("t", 0)
        survivors = home.values("t-0")

        assert VALUES[: len(survivors)] == survivors
        assert len(survivors) >= (FLUSHED if was_flushed else 0)
    enumerated("power cuts", cuts, at_least=10)


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_that_come_before_the_recovery_get_what_was_flushed(
    seed: int, enumerated: Enumerated
) -> None:
    """The high watermark on disk is never above what is durable, and damage lies after it."""
    cuts = 0
    for home in each_cut(seed, home_with_topic, append):
        cuts += 1
        read: list[bytes | None] = []
        with home.read_only("t-0") as log, suppress(CorruptMessage):
            read.extend(record.value for record in log.records())
        promised = home.text("replication-offset-checkpoint").split() if is_flushed(home) else []

        assert VALUES[: len(read)] == read
        assert len(read) >= int(promised[-1] if promised else 0)
    enumerated("power cuts", cuts, at_least=10)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_torn_directory_never_passes_for_clean(seed: int, enumerated: Enumerated) -> None:
    """Where the mark is found, every log reads back whole without recovery."""
    cuts = 0
    for home in each_cut(seed, home_with_topic, append):
        cuts += 1
        if home.is_marked:
            assert home.values("t-0") in ([], VALUES)
    enumerated("power cuts", cuts, at_least=10)
