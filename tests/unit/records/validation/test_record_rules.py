"""A leader's rules for single records."""

from __future__ import annotations

import numpy as np
import pytest

from tidelog.records.validation.record_rules import RecordRules, time_limits
from tidelog.records.validation.rejection import ignore_rejections


@pytest.mark.parametrize(
    ("now", "before", "after", "expected"),
    [
        (1000, 10, 20, (990, 1020)),
        (1000, 2**63 - 1, 0, (1001 - 2**63, 1000)),
        (2**62, 2**63 - 1, 2**63 - 1, (2**62 - 2**63 + 1, 2**63 - 1)),
        (-5, 2**63 - 1, 0, (-(2**63), -5)),
    ],
)
def test_limits_stay_within_64_bits(
    now: int, before: int, after: int, expected: tuple[int, int]
) -> None:
    """Limits are clamped to the range of timestamps."""
    assert time_limits(now, before, after) == expected


@pytest.mark.parametrize(
    ("use_append_time", "is_append_time", "expected"),
    [
        (False, False, [False, True, True, False]),
        (False, True, [True, True, True, False]),
        (True, False, [False, False, False, False]),
        (True, True, [True, True, True, True]),
    ],
)
def test_a_timestamp_is_checked_by_topic_and_batch(
    use_append_time: bool, is_append_time: bool, expected: list[bool]
) -> None:
    """With CreateTime, limits apply; without a timestamp or with LogAppendTime, the type."""
    rules = RecordRules(False, 10, 20, use_append_time, ignore_rejections)
    timestamps = np.array([-1, 9, 21, 15])

    found = rules.has_bad_time(timestamps, is_append_time=is_append_time)

    assert found.tolist() == expected
