"""A cleaning that ends while background writers run."""

from __future__ import annotations

import threading
from typing import Any

from tidelog.cleaner.rewriting.background_writers import BackgroundWriters, Job
from tidelog.env.scheduler import ThreadScheduler

SOON_S = 30.0  # far longer than the test takes; a broken one fails then


def test_close_waits_for_jobs_that_were_begun() -> None:
    """No background writer uses a file any more when ``close`` returns."""
    started, go, done = threading.Event(), threading.Event(), list[int]()

    class Cancelled:
        """Lets the job end once ``close`` has begun."""

        def cancel(self) -> None:
            go.set()

    class Scheduler(ThreadScheduler):
        def schedule(self, *task: Any, **when: Any) -> Cancelled:
            super().schedule(*task, **when)
            return Cancelled()

    scheduler = Scheduler(1)
    scheduler.start()
    try:
        writers = BackgroundWriters(scheduler)

        def run() -> None:
            started.set()
            go.wait(SOON_S)
            done.append(1)

        writers.submit(Job(run))
        assert started.wait(SOON_S)

        writers.close()

        assert done == [1]
    finally:
        scheduler.shutdown()
