"""Background and delayed tasks.

Every background thread of the storage engine is started here. Kafka: ``Scheduler`` and
``KafkaScheduler``.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tidelog.env.clock import NS_PER_MS
from tidelog.env.forks import call_after_fork
from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from concurrent.futures import Future

T = TypeVar("T")

_LOGGER: Final = logging.getLogger(__name__)
_FEW: Final = 16
"""Queue length, cancelled tasks included, below which it does not pay to remove those."""


class Handle(Protocol):
    """A scheduled task."""

    def cancel(self) -> None:
        """Prevent further runs; a run in progress completes. Calling it twice has no effect."""


class Scheduler(Protocol):
    """Runs tasks in the background. Source: Kafka Scheduler."""

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        *,
        delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> Handle:
        """Run ``task`` once after ``delay_ms``, then every ``period_ms`` if it is given.

        Runs of the same task never overlap.
        """

    def run_all(self, name: str, tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
        """Run all tasks on at most ``threads`` threads and return their results in order.

        Raises:
            BaseException: the error of the first failed task in order, after all tasks have ended.
        """

    def run_ahead(
        self, name: str, tasks: Iterable[Callable[[], T]], threads: int
    ) -> Generator[T, None, None]:
        """Run tasks on at most ``threads`` threads and yield their results in order.

        Tasks are taken from ``tasks`` only when they can soon run: at most ``threads + 1`` are
        between ``tasks`` and the consumer of the results. Closing the iterator waits for running
        tasks and takes no more; the caller must close it.

        Raises:
            BaseException: the error of a task, in place of its result; no results follow it.
        """


def run_ahead(
    name: str, tasks: Iterable[Callable[[], T]], threads: int
) -> Generator[T, None, None]:
    """Run tasks as ``Scheduler.run_ahead``, on a pool that exists as long as the iterator."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    running: deque[Future[T]] = deque()
    try:
        for task in tasks:
            running.append(pool.submit(task))
            if len(running) > threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class OwnThreads(Scheduler, Protocol):
    """A scheduler whose threads run nobody else's tasks, and end with ``shutdown``."""

    def shutdown(self) -> None:
        """Drop delayed and periodic tasks, and wait for those that run."""


def start_threads(threads: int, name: str) -> OwnThreads:
    """Start threads for some tasks alone, which wait for no other tasks, nor these for them."""
    scheduler = ThreadScheduler(threads, name)
    scheduler.start()
    return scheduler


@dataclass(order=True, slots=True)
class _Task:
    """A queue entry, ordered by time and then by order of scheduling."""

    due_ns: int
    number: int
    name: str = field(compare=False)
    task: Callable[[], object] = field(compare=False)
    period_ns: int | None = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Prevent further runs."""
        self.cancelled = True

    def run(self) -> None:
        """Run once. An error is logged and not raised, so that other tasks continue."""
        try:
            self.task()
        except (TidelogError, OSError) as error:
            # It names what failed, such as a full disk: no fault of the program.
            _LOGGER.error("task-failed name=%s reason=%s", self.name, error)  # noqa: TRY400 - one line
        except Exception:
            _LOGGER.exception("task-failed name=%s", self.name)


def _result_or_error(task: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return task(), None
    except BaseException as error:  # noqa: BLE001 - raised again by run_all once all have ended
        return None, error


def _results(ended: Sequence[tuple[Any, BaseException | None]]) -> list[Any]:
    for _, error in ended:
        if error is not None:
            raise error
    return [result for result, _ in ended]


def results_in_turn(tasks: Iterable[Callable[[], T]]) -> list[T]:
    """Run tasks one after another on this thread, then raise the first error, if there was one."""
    return _results([_result_or_error(task) for task in tasks])


class ThreadScheduler:
    """Runs tasks on its own daemon threads. Source: Kafka KafkaScheduler.

    A periodic task keeps its rate: if a run takes longer than the period, the missed runs are
    skipped. Cancelled tasks are removed whenever the queue has doubled since the last removal, so
    that they do not pile up while all threads are busy. ``_lock`` guards the queue and the flags.
    """

    def __init__(self, threads: int, name: str = "tidelog-scheduler") -> None:
        self._size = threads
        self._name = name
        self._numbers = itertools.count()
        self._queue: list[_Task] = []
        self._full_at = _FEW
        # Not held through the condition: that is code in Python, in which a handler of a signal may
        # raise, and then the lock stays held.
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._stopped = False
        call_after_fork(self)

    def after_fork(self, _parent: int) -> None:
        """End, in a forked child, which has no threads but the one that forked."""
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._threads, self._queue, self._stopped = [], [], True

    def start(self) -> None:
        """Start the threads; tasks scheduled earlier have waited for this."""
        with self._lock:
            if self._threads or self._stopped:
                return
            for number in range(self._size):
                name = f"{self._name}-{number}"
                self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def shutdown(self) -> None:
        """Drop delayed and periodic tasks, run one-time tasks that are due and join the threads."""
        with self._lock:
            self._stopped = True
            now_ns = time.monotonic_ns()
            self._queue = [t for t in self._queue if t.period_ns is None and t.due_ns <= now_ns]
            heapq.heapify(self._queue)
            self._wake.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join()

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        *,
        delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> Handle:
        """Run ``task`` on one of the threads; after ``shutdown`` it is logged and ignored."""
        due_ns = time.monotonic_ns() + delay_ms * NS_PER_MS
        period_ns = None if period_ms is None else max(period_ms, 1) * NS_PER_MS
        entry = _Task(due_ns, next(self._numbers), name, task, period_ns)
        with self._lock:
            if self._stopped:
                _LOGGER.info("task-ignored name=%s reason=shutdown", name)
            else:
                self._push(entry)
        return entry

    def _push(self, entry: _Task) -> None:
        """Queue a task, and wake a thread if it is due before all others.

        At least one idle thread waits for the first task in the queue, and the thread that takes it
        wakes the next one. A task that is due later therefore need not wake a thread now.
        """
        if len(self._queue) >= self._full_at:
            self._queue = [task for task in self._queue if not task.cancelled]
            heapq.heapify(self._queue)
            self._full_at = max(2 * len(self._queue), _FEW)
        heapq.heappush(self._queue, entry)
        if self._queue[0] is entry:
            self._wake.notify()

    def run_all(self, name: str, tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
        """Run all tasks on a pool that exists for this call; a single task runs on this thread."""
        workers = min(threads, len(tasks))
        if workers <= 1:
            return results_in_turn(tasks)
        with ThreadPoolExecutor(workers, thread_name_prefix=name) as pool:
            return _results(list(pool.map(_result_or_error, tasks)))

    def run_ahead(
        self, name: str, tasks: Iterable[Callable[[], T]], threads: int
    ) -> Generator[T, None, None]:
        """Run tasks on a pool that exists as long as the iterator."""
        return run_ahead(name, tasks, threads)

    def _work(self) -> None:
        while (entry := self._take()) is not None:
            entry.run()
            if entry.period_ns is not None:
                self._put_back(entry, entry.period_ns)

    def _take(self) -> _Task | None:
        """Wait for a task to become due and take it; None once there will be no more."""
        with self._lock:
            while True:
                while self._queue and self._queue[0].cancelled:
                    heapq.heappop(self._queue)
                now_ns = time.monotonic_ns()
                if self._queue and self._queue[0].due_ns <= now_ns:
                    taken = heapq.heappop(self._queue)
                    if self._queue:
                        self._wake.notify()
                    return taken
                if self._stopped:
                    return None
                wait_ns = self._queue[0].due_ns - now_ns if self._queue else None
                # Python waits at most TIMEOUT_MAX; waking up early does no harm.
                wait_s = None if wait_ns is None else min(wait_ns / 1e9, threading.TIMEOUT_MAX)
                self._wake.wait(wait_s)

    def _put_back(self, entry: _Task, period_ns: int) -> None:
        with self._lock:
            if self._stopped or entry.cancelled:
                return
            late_ns = max(time.monotonic_ns() - entry.due_ns, 0)
            entry.due_ns += (late_ns // period_ns + 1) * period_ns
            self._push(entry)


class InlineScheduler:
    """Runs tasks on the calling thread, for short-lived processes.

    Tasks without a delay run inside ``schedule``. Delayed tasks run in ``run_pending``, which does
    not wait until they are due. Periodic tasks never run.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._pending: list[_Task] = []

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        *,
        delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> Handle:
        """Run ``task`` now if it has no delay and no period; errors are logged, not raised."""
        entry = _Task(delay_ms * NS_PER_MS, next(self._numbers), name, task, None)
        if period_ms is None and delay_ms <= 0:
            entry.run()
        elif period_ms is None:
            with self._lock:
                heapq.heappush(self._pending, entry)
        return entry

    def run_all(self, name: str, tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
        """Run all tasks one after another on the calling thread."""
        del name, threads
        return results_in_turn(tasks)

    def run_ahead(
        self, name: str, tasks: Iterable[Callable[[], T]], threads: int
    ) -> Generator[T, None, None]:
        """Run each task on the calling thread when its result is requested."""
        del name, threads
        yield from (task() for task in tasks)

    def run_pending(self) -> int:
        """Run all delayed tasks now, shortest delay first; return the number of tasks run."""
        ran = 0
        while (entry := self._take()) is not None:
            entry.run()
            ran += 1
        return ran

    def close(self) -> None:
        """Run all delayed tasks now."""
        self.run_pending()

    def _take(self) -> _Task | None:
        with self._lock:
            while self._pending:
                entry = heapq.heappop(self._pending)
                if not entry.cancelled:
                    return entry
        return None
