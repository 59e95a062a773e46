"""A scheduler under which a month of a service takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.testing.manual_time import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.scheduler import Handle


class CoarseScheduler(ManualScheduler):
    """Runs each task at most every six hours, so that a month takes seconds."""

    PERIOD_MS: Final = 6 * 3_600_000

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        *,
        delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> Handle:
        """Schedule a task, later and less often."""
        period_ms = None if period_ms is None else max(period_ms, self.PERIOD_MS)
        delay_ms = max(delay_ms, self.PERIOD_MS) if delay_ms else 0
        return super().schedule(name, task, delay_ms=delay_ms, period_ms=period_ms)
