"""Work of one cleaning that another thread does meanwhile: what is written, and made durable.

Owns who runs it: a thread of the scheduler if it comes to it, else whoever needs it done. So it
ends too where no thread is free, or none ever runs. Must not know what the work is. Kafka has no
such step: its cleaner thread writes itself, and waits for the disk.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.scheduler import Handle, Scheduler

NAME: Final = "log-cleaner-aside"
HANDS: Final = 2
"""One to write, while the other waits for the disk."""


class Job:
    """Something that is run once, by the first who comes to it.

    ``_begun`` is taken by whoever runs it, ``_running`` is held until it has ended.
    """

    def __init__(self, task: Callable[[], object]) -> None:
        self._task: Callable[[], object] | None = task
        self._error: BaseException | None = None
        self._begun: Final = Lock()
        self._running: Final = Lock()
        self._running.acquire()

    @property
    def has_ended(self) -> bool:
        """Whether it has been run, with or without an error."""
        return not self._running.locked()

    def run(self) -> None:
        """Run it, unless somebody has begun to. Its error is kept for ``join``."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            task, self._task = self._task, None
            if task is not None:
                task()
        except BaseException as error:  # noqa: BLE001 - raised again by join, where it is awaited
            self._error = error
        finally:
            self._running.release()

    def wait(self) -> None:
        """Return when it has ended; run it here if nobody has begun to."""
        self.run()
        with self._running:
            pass

    def join(self) -> None:
        """Wait for its end; raise its error, every time."""
        self.wait()
        if self._error is not None:
            raise self._error


class Aside:
    """Up to ``HANDS`` helping threads of the scheduler, as far as that has some free.

    A scheduler that runs tasks at once makes everything happen in the order in which it is given,
    one that never runs them in the order in which it is awaited.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Final = scheduler
        self._given: list[tuple[Job, Handle]] = []

    def give(self, task: Callable[[], object]) -> Job:
        """Let a helping thread do it; while all have something to do, do it here."""
        job = self.offer(task)
        if job is None:
            job = Job(task)
            job.run()
        return job

    def offer(self, task: Callable[[], object]) -> Job | None:
        """Let a helping thread do it, but return None while all have something to do."""
        self.forget_ended()
        if len(self._given) == HANDS:
            return None
        job = Job(task)
        self._given.append((job, self._scheduler.schedule(NAME, job.run)))
        return job

    def forget_ended(self) -> None:
        """Leave nothing with the scheduler that was done without it."""
        still: list[tuple[Job, Handle]] = []
        for job, handle in self._given:
            if job.has_ended:
                handle.cancel()
            else:
                still.append((job, handle))
        self._given = still
