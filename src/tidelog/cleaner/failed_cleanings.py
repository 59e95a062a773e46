"""Partitions whose cleaning failed: with what, how often, and when to try again.

Owns the back-off. Must not know what failed. In Kafka such a partition is never cleaned again
before a restart (its ``uncleanablePartitions``); here it is tried again, later each time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FIRST_RETRY_MS: Final = 60_000
LONGEST_RETRY_MS: Final = 3_600_000


class Failure(NamedTuple):
    """Why a partition could not be cleaned, the last time of ``times`` in a row. Times in ms."""

    error: str
    times: int
    first_ms: int
    last_ms: int
    retry_ms: int

    def is_due(self, now_ms: int) -> bool:
        """Say whether to try again."""
        return now_ms >= self.retry_ms


def failed_again(before: Failure | None, error: BaseException, now_ms: int) -> Failure:
    """Return the failure after one more: the wait doubles, up to an hour."""
    times = 1 if before is None else before.times + 1
    wait_ms = min(FIRST_RETRY_MS << min(times - 1, 16), LONGEST_RETRY_MS)
    first_ms = now_ms if before is None else before.first_ms
    return Failure(f"{type(error).__name__}: {error}", times, first_ms, now_ms, now_ms + wait_ms)
