"""The system clock."""

from __future__ import annotations

from tidelog.env.clock import SYSTEM_CLOCK

YEAR_2023_MS = 1_672_531_200_000
YEAR_2200_MS = 7_258_118_400_000


def test_time_of_day_is_in_milliseconds_since_1970() -> None:
    """Unit and origin are those of Kafka's timestamps."""
    assert YEAR_2023_MS < SYSTEM_CLOCK.now_ms() < YEAR_2200_MS


def test_monotonic_time_never_goes_back() -> None:
    """Consecutive readings do not decrease."""
    readings = [SYSTEM_CLOCK.monotonic_ns() for _ in range(100)]

    assert readings == sorted(readings)
