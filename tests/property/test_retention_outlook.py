"""What the plan of retention predicts is what a service does, when its time comes."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machinery.manager_home import ManagerHome
from tests.machinery.scale import examples

from tidelog.explain.plans.disk_share_plan import plan_disk_share
from tidelog.explain.plans.retention_plan import plan_retention
from tidelog.log.retention.retention_rules import Rule
from tidelog.manager.partition import Hold
from tidelog.readonly.read_only_log import open_read_only

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


@settings(max_examples=examples(60), deadline=None)
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


SHARES = st.tuples(
    st.lists(st.lists(st.integers(0, 30), max_size=10), min_size=1, max_size=4),
    st.integers(1, 100),
    st.integers(0, 3_000),
)
"""Ages of the records of each partition, the share in percent, and the free bytes."""


@settings(max_examples=examples(40), deadline=None)
@given(case=SHARES)
@example(case=([[0, 0, 21], [0, 0, 0]], 50, 0))  # one log has expired except its first segment
def test_the_share_of_the_disk_deletes_what_its_plan_names(
    case: tuple[list[list[int]], int, int],
) -> None:
    """The oldest segments of all logs, never the active ones."""
    logs, percent, free_bytes = case
    home = ManagerHome("/data", internal_segment_bytes=160, retention_ms=20_000)
    with home.open(tidelog_retention_disk_percent=percent) as manager:
        manager.create_topic("t", len(logs))
        now_ms = home.clock.now_ms()
        for number, ages in enumerate(logs):
            for age in ages:
                record = (now_ms - age * 1_000, b"k", b"v" * 9, ())
                manager.partition("t", number).append_records([record])
        manager.flush()
        plans = [
            plan_retention(
                partial(open_read_only, f"/data/t-{number}", fs=home.fs),
                manager.partition("t", number).config,
                home.clock,
                with_times=True,
            )
            for number in range(len(logs))
        ]
        config = manager.partition("t", 0).config
        share = plan_disk_share(plans, {"t": config}, free_bytes, percent, now_ms)
        home.fs.free_bytes = lambda path: free_bytes  # type: ignore[method-assign]  # at the pass  # noqa: ARG005 - mypy wants the name
        manager.tasks.cleanup_logs()
        left = [manager.partition("t", number).log for number in range(len(logs))]

        assert [log.log_start_offset for log in left] == [
            plan.log_start_offset for plan in share.logs
        ]
        assert [log.size_bytes for log in left] == [plan.size_bytes for plan in share.logs]
