"""Work of one cleaning that another thread does meanwhile: what is written, and made durable.

Owns who runs it: a thread of the scheduler if it comes to it, else whoever needs it done. So it
ends too where no thread is free, or none ever runs. Must not know what the work is. Kafka has no
such step: its cleaner thread writes itself, and waits for the disk.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.errors import CleaningAborted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.scheduler import Handle, Scheduler

NAME: Final = "log-cleaner-aside"
HANDS: Final = 2
"""One to write, while the other waits for the disk."""


class Job:
    """Something that is run once, by the first who comes to it.

    ``_running`` is held by whoever runs it, and guards the rest. An interrupt at any point leaves
    it as not begun, or as ended with an error.
    """

    def __init__(self, task: Callable[[], object]) -> None:
        self._task: Callable[[], object] | None = task
        self._error: BaseException | None = CleaningAborted("not run to its end")
        self._running: Final = Lock()
        self.handle: Handle | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nobody runs it, nor will: it was run, with or without an error, or dropped."""
        return self._task is None and not self._running.locked()

    def run(self) -> None:
        """Run it, unless somebody has begun to. Its error is kept for ``join``."""
        if not self._running.locked():
            self.wait()

    def wait(self) -> None:
        """Return when it has ended; run it here if nobody has begun to."""
        with self._running:
            self._run_locked()

    def join(self) -> None:
        """Wait for its end; raise its error, every time."""
        self.wait()
        if self._error is not None:
            raise self._error

    def drop(self) -> None:
        """Let nobody begin it any more; if somebody has, wait for its end."""
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


class Hands:
    """How many jobs helping threads may have at once, of all who share this.

    ``limit`` may change at any time. ``_lock`` guards ``_busy``.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock: Final = Lock()
        self._busy: list[Job] = []

    def take(self, job: Job) -> bool:
        """Say whether there is one for a job, which has it until it has ended."""
        with self._lock:
            self._busy = [other for other in self._busy if not other.has_ended]
            if len(self._busy) >= self.limit:
                return False
            self._busy.append(job)
            return True


class Aside:
    """Up to ``HANDS`` helping threads of the scheduler, as far as that has some free.

    ``hands`` is shared by those who may have only so many together; None: nobody else.
    A scheduler that runs tasks at once makes everything happen in the order in which it is given,
    one that never runs them in the order in which it is awaited. Whoever gives a job holds it
    already: so an interrupt between the two cannot leave one that nobody awaits.
    """

    def __init__(self, scheduler: Scheduler, hands: Hands | None = None) -> None:
        self._scheduler: Final = scheduler
        self._hands: Final = hands or Hands(HANDS)
        self._given: list[Job] = []

    def give(self, job: Job) -> None:
        """Let a helping thread do it; while all have something to do, do it here."""
        if not self.offer(job):
            job.run()

    def offer(self, job: Job) -> bool:
        """Let a helping thread do it, but return False while all have something to do."""
        self.forget_ended()
        if len(self._given) == HANDS or not self._hands.take(job):
            return False
        self._given.append(job)
        job.handle = self._scheduler.schedule(NAME, job.run)
        return True

    def forget_ended(self) -> None:
        """Leave nothing with the scheduler that was done without it."""
        ended = [job for job in self._given if job.has_ended]
        self._given = [job for job in self._given if job not in ended]
        for job in ended:
            if job.handle is not None:
                job.handle.cancel()

    def end(self) -> None:
        """Wait for what was begun; drop the rest, also from the scheduler."""
        for job in self._given:
            if job.handle is not None:
                job.handle.cancel()
        for job in self._given:
            job.drop()
        self._given = []
