"""What the plan of retention predicts is what a service does, when its time comes."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.explain.plans.retention_plan import plan_retention
from tidelog.log.retention_outlook import Rule
from tidelog.manager.partition import Hold
from tidelog.readonly.read_only_log import open_read_only
from tidelog.testing.manager_home import ManagerHome
from tidelog.testing.scale import scaled

PASS_MS = 1_000
"""How often retention looks."""
SECONDS = 40
"""How long time is simulated: longer than any retention."""


class Case(NamedTuple):
    """A log, its settings, and what keeps it."""

    settings: dict[str, Any]
    ages: list[int]
    """Ages of the records in seconds, in order of offset; below 0: in the future."""
    start: int
    """Records below it were deleted, if there are that many."""
    pinned_from: int | None
    """Where a transaction that is not applied yet begins, if there are that many records."""


CASES = st.builds(
    Case,
    st.fixed_dictionaries(
        {
            "internal_segment_bytes": st.sampled_from([80, 160, 400]),
            "retention_bytes": st.sampled_from([-1, 0, 100, 300]),
            "retention_ms": st.sampled_from([-1, 0, 5_000, 20_000]),
            "cleanup_policy": st.sampled_from([("delete",), ("delete",), ()]),
        }
    ),
    st.lists(st.integers(-10, 30), max_size=12),
    st.integers(0, 8),
    st.none() | st.integers(0, 12),
)


@settings(max_examples=scaled(60), deadline=None)
@given(case=CASES)
def test_segments_are_deleted_at_the_first_pass_after_they_are_due(case: Case) -> None:
    """Neither earlier nor later; those that are held, or due by no rule, stay."""
    home = ManagerHome("/data", **case.settings)
    delays: dict[str, Any] = {
        "log_initial_task_delay_ms": PASS_MS,
        "log_retention_check_interval_ms": PASS_MS,
    }
    with home.open(**delays) as manager:
        manager.create_topic("t")
        partition = manager.partition("t", 0)
        log, now_ms = partition.log, home.clock.now_ms()
        for age in case.ages:
            partition.append_records([(now_ms - age * 1_000, b"k", b"v" * 9, ())])
        log.maybe_increment_log_start_offset(min(case.start, log.log_end_offset))
        pinned = None if case.pinned_from is None else min(case.pinned_from, log.log_end_offset)
        if pinned is not None:
            partition.hold(Hold("txn", pinned, True))
        manager.flush()

        plan = plan_retention(
            lambda: open_read_only("/data/t-0", fs=home.fs),
            log.config,
            home.clock,
            pinned_from=pinned,
        )
        for _ in range(SECONDS):
            home.clock.advance(PASS_MS)
            present = {segment.base_offset for segment in log.segments if segment.size_bytes}
            expected = {
                one.base_offset
                for one in plan.kept
                if one.size_bytes
                and (one.held_by or one.due_ms is None or one.due_ms > home.clock.now_ms())
            }
            assert present == expected

    assert all(
        one.rule is Rule.TIME for one in plan.kept if one.due_ms is not None and not one.held_by
    )
