"""Partitions whose cleaning failed: the error, the number of failures, and when to retry.

Kafka never cleans such a partition again before a restart (its ``uncleanablePartitions``); here it
is retried with a growing delay.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FIRST_RETRY_MS: Final = 60_000
MAX_RETRY_MS: Final = 3_600_000


class Failure(NamedTuple):
    """Why a partition could not be cleaned, the last of ``times`` failures in a row. Times in ms.

    The fields are the keys of ``tidelog.cleaner.failures.json``.
    """

    error: str
    times: int
    first_ms: int
    last_ms: int
    retry_ms: int

    def is_due(self, now_ms: int) -> bool:
        """Return whether it is time to retry."""
        return now_ms >= self.retry_ms


def next_failure(before: Failure | None, error: BaseException, now_ms: int) -> Failure:
    """Return the failure that follows ``before``: the delay doubles, up to an hour."""
    times = 1 if before is None else before.times + 1
    wait_ms = min(FIRST_RETRY_MS << min(times - 1, 16), MAX_RETRY_MS)
    first_ms = now_ms if before is None else before.first_ms
    return Failure(f"{type(error).__name__}: {error}", times, first_ms, now_ms, now_ms + wait_ms)
