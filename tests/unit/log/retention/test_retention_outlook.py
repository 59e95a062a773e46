"""When segments that stay will go, and what holds them."""

from __future__ import annotations

from typing import Any

from tidelog.config.log_config import LogConfig
from tidelog.log.retention.retention_outlook import LateSegment, late_segment, predict
from tidelog.log.retention.retention_rules import Rule, SegmentFacts


def fact(
    base: int,
    end: int,
    time_ms: int,
    *,
    size: int = 100,
    last: bool = False,
    first_ms: int | None = None,
) -> SegmentFacts:
    first = time_ms if first_ms is None else first_ms
    return SegmentFacts(base, end, size, last, lambda: time_ms, lambda: first)


def look(*facts: SegmentFacts, high_watermark: int = 100, **config: Any) -> list[tuple[Any, ...]]:
    size_bytes = sum(segment.size_bytes for segment in facts)
    found = predict(facts, LogConfig(**config), high_watermark, size_bytes)
    return [tuple(one[3:6]) for one in found]


def test_a_segment_goes_when_its_newest_record_is_too_old() -> None:
    """One millisecond after its age has reached the limit."""
    assert look(fact(0, 10, 1000), retention_ms=50) == [(1051, None, "")]


def test_no_segment_goes_before_an_older_one() -> None:
    """The oldest one holds the others."""
    found = look(fact(0, 10, 2000), fact(10, 20, 1000), retention_ms=50)

    assert [due for due, _, _ in found] == [2051, 2051]


def test_the_log_has_to_grow_for_a_segment_to_be_too_much() -> None:
    """By what is missing until all from that segment's end on fill the limit."""
    found = look(fact(0, 10, 0), fact(10, 20, 0), retention_ms=-1, retention_bytes=250)

    assert found == [(None, 150, ""), (None, 250, "")]


def test_the_high_watermark_holds_what_lies_above_it() -> None:
    """Whatever its age."""
    [(_, _, held_by)] = look(fact(0, 10, 0), high_watermark=9)

    assert held_by == "the high watermark, 9"


def test_an_empty_active_segment_stays() -> None:
    """There is always one: neither its file's time nor a larger log ends that."""
    assert look(fact(0, 0, 0, size=0, last=True), retention_ms=1, retention_bytes=250) == [
        (None, None, "the active segment, which is empty")
    ]


def test_a_policy_that_deletes_nothing_holds_all() -> None:
    """It has no limits of time or size."""
    assert look(fact(0, 10, 0), cleanup_policy=("compact",)) == [
        (None, None, "cleanup.policy=compact")
    ]


def test_the_rule_that_deletes_a_segment_is_named() -> None:
    """By size now where too much is held, by time where that is sure, else by growth."""

    def rules(*facts: SegmentFacts, start: int = 0, **config: Any) -> list[Rule | None]:
        size_bytes = sum(segment.size_bytes for segment in facts)
        found = predict(facts, LogConfig(**config), 100, size_bytes, log_start_offset=start)
        return [one.rule for one in found]

    two = fact(0, 10, 0), fact(10, 20, 0, last=True)
    assert rules(*two, retention_ms=50) == [Rule.TIME, Rule.TIME]
    assert rules(*two, retention_ms=-1, retention_bytes=250) == [Rule.SIZE, Rule.SIZE]
    assert rules(*two, retention_ms=50, retention_bytes=100) == [Rule.SIZE, Rule.TIME]
    assert rules(*two, retention_ms=-1) == [None, None]
    assert rules(*two, retention_ms=-1, start=20) == [Rule.LOG_START, None]


def test_a_transaction_that_is_being_applied_holds_what_lies_behind_its_start() -> None:
    """Retention must not delete what a repetition compares its records with."""
    facts = fact(0, 10, 0), fact(10, 20, 0)
    found = predict(facts, LogConfig(retention_ms=50), 100, 200, pinned_from=10)

    assert [one.held_by for one in found] == [
        "",
        "a transaction that is committed and not applied yet, from 10 on",
    ]


def test_a_segment_is_late_when_some_of_its_records_have_expired() -> None:
    """It is due once the newest has, too; an active one is closed ``segment.ms`` later."""
    config = LogConfig(retention_ms=50, segment_ms=70)
    closed = fact(0, 10, 1000, first_ms=940)

    assert late_segment([closed, fact(10, 20, 1001)], config, 1001) == LateSegment(
        0, 10, oldest_ms=940, due_ms=1051, closing_ms=None
    )
    active = fact(0, 10, 1000, first_ms=940, last=True)
    assert late_segment([active], config, 1001) == LateSegment(0, 10, 940, 1051, 1010)


def test_no_segment_is_late_without_an_expired_record_or_a_limit() -> None:
    """Nor where nothing is deleted by time, nor an empty one."""
    config, late = LogConfig(retention_ms=50), fact(0, 10, 1000, first_ms=940)

    assert late_segment([late], config, 990) is None
    assert late_segment([], config, 1001) is None
    assert late_segment([late._replace(size_bytes=0)], config, 1001) is None
    for other in (LogConfig(), LogConfig(retention_ms=50, cleanup_policy=("compact",))):
        assert late_segment([late], other, 1001) is None
