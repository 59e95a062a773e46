"""A cleaning that ends while its helping threads are at work."""

from __future__ import annotations

import threading
from typing import Any

from tidelog.cleaner.background_writers import BackgroundWriters, Job
from tidelog.env.scheduler import ThreadScheduler

SOON_S = 30.0  # far longer than the test takes; a broken one fails then


def test_the_end_waits_for_what_was_begun() -> None:
    """A helping thread has let go of all files when ``end`` returns."""
    started, go, done = threading.Event(), threading.Event(), list[int]()

    class Cancelled:
        """Shows that ``end`` is on its way."""

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
        writers.submit(Job(lambda: (started.set(), go.wait(SOON_S), done.append(1))))
        assert started.wait(SOON_S)

        writers.close()

        assert done == [1]
    finally:
        scheduler.shutdown()
