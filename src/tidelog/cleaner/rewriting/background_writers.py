"""Writes and syncs of one cleaning that run on other threads while it reads on.

Each job is run by a thread of the scheduler if one gets to it in time, else by the thread that
needs its result. So a cleaning ends even if no thread is free, or none ever runs. Kafka has no such
step: its cleaner thread writes by itself and waits for the disk.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.errors import CleaningAborted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.scheduler import Handle, Scheduler

TASK_NAME: Final = "log-cleaner-writer"
MAX_WRITERS: Final = 2
"""Threads that help one cleaning: one writes while the other waits for the disk."""


class Job:
    """A task that is run once, by the first thread that gets to it.

    The thread that runs it holds ``_running``, which also guards the other fields. An interrupt at
    any point leaves it either not begun, or ended with an error.
    """

    def __init__(self, task: Callable[[], object]) -> None:
        self._task: Callable[[], object] | None = task
        self._error: BaseException | None = CleaningAborted("the task was not completed")
        self._running: Final = Lock()
        self.handle: Handle | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it was run (with or without an error) or cancelled, and nothing runs it now."""
        return self._task is None and not self._running.locked()

    def run(self) -> None:
        """Run it, unless a thread runs it already. Its error is kept for ``join``."""
        if not self._running.locked():
            self.wait()

    def wait(self) -> None:
        """Return when it has ended; run it on this thread if none has begun to."""
        with self._running:
            self._run_locked()

    def join(self) -> None:
        """Wait until it has ended; raise its error, on each call."""
        self.wait()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Prevent it from being run; if a thread has begun to, wait until it has ended."""
        with self._running:
            self._task = None

    def _run_locked(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            try:
                task()
                self._error = None
            except BaseException as error:  # noqa: BLE001 - raised again by join
                self._error = error


class WriterSlots:
    """Limits how many jobs background writers have at a time, over all cleanings that share it.

    ``limit`` may be changed at any time. ``_lock`` guards ``_busy``.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock: Final = Lock()
        self._busy: list[Job] = []

    def try_acquire(self, job: Job) -> bool:
        """Give ``job`` a slot until it has ended; return False if none is free."""
        with self._lock:
            self._busy = [other for other in self._busy if not other.has_ended]
            if len(self._busy) >= self.limit:
                return False
            self._busy.append(job)
            return True


class BackgroundWriters:
    """Up to ``MAX_WRITERS`` threads of the scheduler that write for one cleaning.

    With a scheduler that runs tasks at once, jobs run in the order of submission; with one that
    never runs them, in the order in which they are awaited. The caller keeps a reference to a job
    before it submits it: an interrupt in between cannot leave a job that nobody awaits.

    Args:
        scheduler: runs the jobs.
        slots: a limit shared with other cleanings; None for no other limit.
    """

    def __init__(self, scheduler: Scheduler, slots: WriterSlots | None = None) -> None:
        self._scheduler: Final = scheduler
        self._slots: Final = slots or WriterSlots(MAX_WRITERS)
        self._submitted: list[Job] = []

    def submit(self, job: Job) -> None:
        """Have a background thread run ``job``; run it here if all of them are busy."""
        if not self.try_submit(job):
            job.run()

    def try_submit(self, job: Job) -> bool:
        """Have a background thread run ``job``; return False if all of them are busy."""
        self.discard_ended()
        if len(self._submitted) == MAX_WRITERS or not self._slots.try_acquire(job):
            return False
        self._submitted.append(job)
        job.handle = self._scheduler.schedule(TASK_NAME, job.run)
        return True

    def discard_ended(self) -> None:
        """Remove jobs that have ended from the scheduler, where some may still be queued."""
        ended = [job for job in self._submitted if job.has_ended]
        self._submitted = [job for job in self._submitted if job not in ended]
        for job in ended:
            if job.handle is not None:
                job.handle.cancel()

    def close(self) -> None:
        """Cancel the jobs that no thread has begun; wait for the others."""
        for job in self._submitted:
            if job.handle is not None:
                job.handle.cancel()
        for job in self._submitted:
            job.cancel()
        self._submitted = []
