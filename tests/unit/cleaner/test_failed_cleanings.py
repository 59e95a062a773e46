"""When a failed partition is retried."""

from __future__ import annotations

from tidelog.cleaner.failed_cleanings import FIRST_RETRY_MS, MAX_RETRY_MS, next_failure


def test_each_failure_doubles_the_wait() -> None:
    """The delays are one minute, two, four, and never more than an hour."""
    failure, waits = None, []
    for _ in range(9):
        failure = next_failure(failure, ValueError("bad"), 1000)
        waits.append(failure.retry_ms - 1000)

    assert waits[:3] == [FIRST_RETRY_MS, 2 * FIRST_RETRY_MS, 4 * FIRST_RETRY_MS]
    assert waits[-1] == MAX_RETRY_MS


def test_a_failure_says_what_and_since_when() -> None:
    """A failure has the last error, the times of the first and the last one, and their count."""
    first = next_failure(None, ValueError("bad"), 1000)
    second = next_failure(first, KeyError("worse"), 5000)

    assert second.error == "KeyError: 'worse'"
    assert (second.times, second.first_ms, second.last_ms) == (2, 1000, 5000)
    assert not second.is_due(second.retry_ms - 1)
    assert second.is_due(second.retry_ms)
