"""A log with a batch whose base offset is wrong is not cleaned: no checksum covers that."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.cleaning import CleanerHome
from tests.machinery.spread_workers import SerialWorkers

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.spread.spread_cleaner import SpreadCleaner
from tidelog.errors import CorruptMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log

pytestmark = pytest.mark.usefixtures("engine")
FIRST = f"{0:020d}.log"


def damaged(number: int, bit: int) -> tuple[CleanerHome, Log]:
    """Return a log of two cleanable segments; a bit of a base offset of the first is wrong."""
    home = CleanerHome(internal_segment_bytes=1 << 20)
    log = home.open()
    for value in range(20):
        home.append(log, (value % 5, f"value-{value:02d}"))
        if value % 10 == 9:
            log.roll()
    log.close()
    data = bytearray(home.read(FIRST))
    data[number * (len(data) // 10) + 7 - bit // 8] ^= 1 << bit % 8
    home.write(FIRST, data)
    return home, home.open()


def clean(home: CleanerHome, log: Log) -> None:
    home.clean(log)


def plan(home: CleanerHome, log: Log) -> None:
    end = log.segments.active.base_offset
    home.cleaner().plan(log, OffsetsToClean(0, end), home.clock.now_ms())


def clean_already_cleaned(home: CleanerHome, log: Log) -> None:
    home.clean(log, first_dirty=10)


def clean_by_many(home: CleanerHome, log: Log) -> None:
    rng = Random(1)
    workers = SerialWorkers(home.fs, home.clock, rng)
    end = log.segments.active.base_offset
    cleaner = SpreadCleaner(workers, clock=home.clock, fs=home.fs, rng=rng)
    cleaner.clean(log, OffsetsToClean(0, end), home.clock.now_ms())


@pytest.mark.parametrize("act", [clean, plan, clean_already_cleaned, clean_by_many])
@pytest.mark.parametrize(
    ("number", "bit"),
    [(4, 3), (8, 0), (1, 1), (9, 0), (3, 16), (9, 33), (0, 62), (5, 63)],
    ids=str,
)
def test_a_damaged_log_is_left_as_it_is(
    act: Callable[[CleanerHome, Log], None], number: int, bit: int
) -> None:
    """The error names the batch, or the two of which one is damaged; no record is dropped."""
    home, log = damaged(number, bit)
    before = {name: home.read(name) for name in home.files(".log")}

    with pytest.raises(CorruptMessage, match=r"impossible offsets|contradict") as caught:
        act(home, log)

    assert before == {name: home.read(name) for name in home.files(".log")}
    assert caught.value.path == log.segments.all[0].path
    size = len(before[FIRST]) // 10
    assert caught.value.position in {number * size, (number - 1) * size}
