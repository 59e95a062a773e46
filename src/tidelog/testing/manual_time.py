"""A clock that tests advance by hand, and a scheduler that follows it.

Kafka: ``MockTime``, ``MockScheduler``.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.env.clock import NS_PER_MS
from tidelog.env.scheduler import results_in_turn
from tidelog.env.waiting import ThreadBell
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from tidelog.env.scheduler import Handle

T = TypeVar("T")

_START_MS: Final = 1_700_000_000_000
_MOST_RUNS: Final = 1000
_EXACT_RUNS: Final = 100


class ManualClock:
    """A clock that moves only on request, and runs the tasks that become due.

    ``start_ms`` is the initial time of day, in milliseconds since the Unix epoch.
    """

    def __init__(self, start_ms: int = _START_MS) -> None:
        self._wall_ms = start_ms
        self._elapsed_ms = 0
        self._advance = _Advance(0, 0)
        self._schedulers: list[ManualScheduler] = []

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return self._wall_ms

    def monotonic_ns(self) -> int:
        """Return the nanoseconds advanced so far."""
        return self._elapsed_ms * NS_PER_MS

    def advance(self, ms: int) -> None:
        """Advance by ``ms``; tasks run when they become due, in order, on this thread.

        A task sees the time at which it was due. An error of a task stops the clock there; the next
        call runs the remaining tasks.

        A task whose period would end more than 1,000 times in one call is run about as often as
        that, and at the end of its last 100 periods: a day would else take seconds of looks, once a
        second each, at what nothing has changed.
        """
        if ms < 0:
            raise InvalidArgument("the clock cannot go back; use set_time_of_day")
        end_ms = self._elapsed_ms + ms
        before, self._advance = self._advance, _Advance(ms, end_ms)  # a task may advance it, too
        try:
            while (task := self._next_due(end_ms)) is not None:
                self._move_to(task.due_ms)
                task.scheduler.run(task)
        finally:
            self._advance = before
        self._move_to(end_ms)

    def due_after(self, due_ms: int, period_ms: int) -> int:
        """Return when a periodic task is due next that was due at ``due_ms``; see ``advance``."""
        ms, end_ms = self._advance
        left = (end_ms - due_ms) // period_ms - _EXACT_RUNS
        many = ms // (period_ms * _MOST_RUNS)
        return due_ms + period_ms * max(1, min(many, left))

    def set_time_of_day(self, now_ms: int) -> None:
        """Set the time of day, as an operator would; it may go back, and no task becomes due."""
        self._wall_ms = now_ms

    def follow(self, scheduler: ManualScheduler) -> None:
        """Make ``scheduler`` run its tasks as this clock advances."""
        self._schedulers.append(scheduler)

    def forget_tasks(self) -> None:
        """Run no task of the schedulers so far any more, as when their process ends."""
        self._schedulers.clear()

    def scheduler(self) -> ManualScheduler:
        """Return a scheduler that follows this clock."""
        return ManualScheduler(self)

    def bell(self) -> ManualBell:
        """Return a bell whose waiters advance this clock."""
        return ManualBell(self)

    def elapsed_ms(self) -> int:
        """Return the milliseconds advanced so far."""
        return self._elapsed_ms

    def _next_due(self, end_ms: int) -> _ManualTask | None:
        waiting = [scheduler.first() for scheduler in self._schedulers]
        return min((t for t in waiting if t is not None and t.due_ms <= end_ms), default=None)

    def _move_to(self, elapsed_ms: int) -> None:
        # A task may itself have advanced the clock past the time of the next one.
        step = max(elapsed_ms - self._elapsed_ms, 0)
        self._elapsed_ms += step
        self._wall_ms += step


class _Advance(NamedTuple):
    """By how much a clock is being advanced, and to where."""

    ms: int
    end_ms: int


class ManualBell(ThreadBell):
    """Wakes waiting readers. To wait is to advance the clock, as no other thread may do so."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, seen: int, timeout_ms: int) -> bool:
        """Advance the clock by ``timeout_ms`` unless the bell has rung; tasks run meanwhile."""
        if self.rings == seen:
            self._clock.advance(timeout_ms)
        return self.rings != seen


@dataclass(order=True, slots=True)
class _ManualTask:
    due_ms: int
    number: int
    name: str = field(compare=False)
    task: Callable[[], object] = field(compare=False)
    period_ms: int | None = field(compare=False)
    scheduler: ManualScheduler = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


# Shared by all schedulers, so that several schedulers of one clock have a common order.
_NUMBERS: Final = itertools.count()


class ManualScheduler:
    """Runs tasks as its clock advances, on the thread that advances it.

    Errors of tasks are raised by ``advance``; a periodic task continues afterwards. ``_lock``
    guards the queue: the event loop of a broker schedules while a test advances.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._queue: list[_ManualTask] = []
        clock.follow(self)

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        *,
        delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> Handle:
        """Queue ``task``; without a delay it runs in the next ``advance``, even by 0 ms."""
        due_ms = self._clock.elapsed_ms() + max(delay_ms, 0)
        entry = _ManualTask(due_ms, next(_NUMBERS), name, task, period_ms, self)
        with self._lock:
            heapq.heappush(self._queue, entry)
        return entry

    def run_all(self, name: str, tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
        """Run all tasks one after another on this thread, then raise the first error."""
        del name, threads
        return results_in_turn(tasks)

    def run_ahead(
        self, name: str, tasks: Iterable[Callable[[], T]], threads: int
    ) -> Generator[T, None, None]:
        """Take tasks as far ahead as threads would; run each when its result is requested."""
        del name
        waiting: deque[Callable[[], T]] = deque()
        for task in tasks:
            waiting.append(task)
            if len(waiting) > threads:
                yield waiting.popleft()()
        yield from (task() for task in waiting)

    def pending(self) -> list[str]:
        """Return the names of the waiting tasks, in the order in which they will run."""
        with self._lock:
            return [entry.name for entry in sorted(self._queue) if not entry.cancelled]

    def forget(self) -> None:
        """Drop all tasks, as when the process ends."""
        with self._lock:
            self._queue.clear()

    def first(self) -> _ManualTask | None:
        """Return the task that is due first, None if there is none."""
        with self._lock:
            while self._queue and self._queue[0].cancelled:
                heapq.heappop(self._queue)
            return self._queue[0] if self._queue else None

    def run(self, entry: _ManualTask) -> None:
        """Run a task that ``first`` has returned, and queue it again if it is periodic."""
        with self._lock:
            self._take(entry)
            if entry.period_ms is not None:
                entry.due_ms = self._clock.due_after(entry.due_ms, max(entry.period_ms, 1))
                heapq.heappush(self._queue, entry)
        entry.task()

    def _take(self, entry: _ManualTask) -> None:
        """Take a task out of the queue, in which another thread may have put one before it."""
        if self._queue[0] is entry:
            heapq.heappop(self._queue)
        else:
            self._queue.remove(entry)
            heapq.heapify(self._queue)
