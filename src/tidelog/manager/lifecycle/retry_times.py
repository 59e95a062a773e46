"""When logs that could not be opened are tried again. A try may have to recover a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.env.clock import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tidelog.env.clock import Clock
    from tidelog.segment.filenames import TopicPartition

FIRST_NS: Final = 1_000 * NS_PER_MS
"""The time between the first try that fails and the next one."""
_MAX_NS: Final = 60_000 * NS_PER_MS
_LONG_NS: Final = 1_000 * NS_PER_MS
"""Time after which a pass of tries that fail ends."""
_REST: Final = 5
"""A log that could not be opened waits as many times as long as the try took."""


class RetryTimes:
    """Says which logs are to be tried now, and puts off those that failed.

    Tries are kept rare, as the registry's ``change_lock`` is held during each. The delay after a
    try that fails doubles, and is at least five times as long as the try took. A pass ends after a
    second of tries that fail; then no log is tried for as long as these took.
    """

    def __init__(self, clock: Clock, *, wait_ns: int) -> None:
        self._clock: Final = clock
        self._wait_ns: Final = wait_ns
        """How long a log waits for its first try."""
        self._next: dict[TopicPartition, tuple[int, int]] = {}
        """When each is tried again, and the delay after that, both in ns."""
        self._rests_until_ns = 0
        self._failing_ns = 0
        """How long the tries of this pass took that failed."""

    def due(self, waiting: Collection[TopicPartition]) -> Iterator[TopicPartition]:
        """Yield the waiting logs that are due; forget all that no longer wait."""
        self._failing_ns = 0
        first = self._clock.monotonic_ns() + self._wait_ns, _next_delay(self._wait_ns)
        self._next = {key: self._next.get(key, first) for key in waiting}
        for key in sorted(waiting, key=lambda key: (self._next[key], key)):
            due_ns, _ = self._next[key]
            if self._clock.monotonic_ns() >= max(due_ns, self._rests_until_ns):
                yield key

    def put_off(self, key: TopicPartition, began_ns: int) -> None:
        """Let a log wait after a try that failed, and all of them after a long time of such."""
        now_ns = self._clock.monotonic_ns()
        spent_ns = now_ns - began_ns
        _, delay_ns = self._next.get(key, (now_ns, FIRST_NS))
        self._next[key] = now_ns + max(delay_ns, _REST * spent_ns), _next_delay(delay_ns)
        self._failing_ns += spent_ns
        if self._failing_ns >= _LONG_NS:
            self._rests_until_ns = now_ns + self._failing_ns


def _next_delay(delay_ns: int) -> int:
    return min(max(2 * delay_ns, FIRST_NS), _MAX_NS)
