"""Any history, cleaned by many processes and by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machinery.scale import examples
from tests.machinery.spread_workers import SerialWorkers
from tests.property.test_cleaner import RETENTION_MS, STEPS, History, counts

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.pick import examine
from tidelog.cleaner.spread.spread_cleaner import SpreadCleaner

pytestmark = pytest.mark.usefixtures("engine")

WAYS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 99),
        "buckets": st.integers(1, 4),
        "max_entries": st.sampled_from([1, 3, 1000]),
        "is_exact": st.booleans(),
    }
)


class SpreadHistory(History):
    """A history whose cleanings are all spread, in one of several ways."""

    def __init__(self, *, seed: int, buckets: int, max_entries: int, is_exact: bool) -> None:
        super().__init__()
        fs, clock, rng = self.home.fs, self.home.clock, Random(seed)
        workers = SerialWorkers(fs, clock, rng, buckets=buckets, max_entries=max_entries)
        self.cleaner = SpreadCleaner(workers, clock=clock, fs=fs, rng=rng, is_exact=is_exact)

    def clean(self, keys: int) -> None:
        """Clean the log; ``keys`` has no meaning here."""
        now_ms = self.home.clock.now_ms()
        offsets = examine(self.log, self.dirty, now_ms).offsets
        if not offsets.is_empty:
            assert keys > 0
            self.dirty = self.cleaner.clean(self.log, offsets, now_ms).end_offset


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, way=WAYS)
def test_many_processes_leave_the_files_that_one_leaves(
    steps: list[Any], way: dict[str, Any]
) -> None:
    """For any history, buckets and order of arrival: names, bytes and times of change."""
    steps = [("clean", 100, None) if step[0] == "clean" else step for step in steps]

    assert files_left_by(History(), steps) == files_left_by(SpreadHistory(**way), steps)


def files_left_by(history: History, steps: list[Any]) -> dict[str, Any]:
    """Play the steps, then clean twice; return all files with their bytes and times of change."""
    with history.log as log:
        for step in steps:
            history.play(step)
        if log.segments.active.size_bytes:
            log.roll()
        history.clean(keys=100)
        history.home.clock.advance(2 * RETENTION_MS)
        history.clean(keys=100)
        history.dirty = 0
        history.clean(keys=100)
        modified = {each.base_offset: each.modified_ms for each in log.segments}
    home = history.home
    home.clock.advance(60_000)
    return {**{name: home.read(name) for name in home.files()}, "modified": modified}


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, way=WAYS)
def test_a_plan_counts_what_a_cleaning_does(steps: list[Any], way: dict[str, Any]) -> None:
    """Records, bytes and causes, as many processes and as one count them; nothing is written."""
    history = SpreadHistory(**way)
    with history.log as log:
        for step in steps:
            history.play(step)
        now_ms = history.home.clock.now_ms()
        found = examine(log, 0, now_ms).offsets
        if found.is_empty:
            return
        files = history.home.files()

        planned = history.cleaner.plan(log, found, now_ms)

        assert files == history.home.files()
        alone = history.home.cleaner().plan(log, OffsetsToClean(*found), now_ms)
        assert planned.end_offset == alone.end_offset
        for name, value in counts(alone.stats).items():
            if not name.startswith(("map_", "buffer_", "oldest_")):
                assert getattr(planned.stats, name) == value, name
        done = history.cleaner.clean(log, found, now_ms)
        assert counts(done.stats) == counts(planned.stats)
    history.home.clock.advance(60_000)
