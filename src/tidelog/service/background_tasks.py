"""The periodic work of a log manager. One pass is one call, so a test needs no thread.

Kafka: ``LogManager.startupWithConfigOverrides``, ``cleanupLogs``, ``flushDirtyLogs`` and the
checkpoint tasks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.env.clock import NS_PER_MS
from tidelog.env.task_gate import Pass, SharedRounds, TaskGate
from tidelog.errors import KafkaStorageError
from tidelog.manager.manager_part import ManagerPart
from tidelog.manager.staged_commits import RETRY_MS
from tidelog.service.disk_share_pass import retain_by_percent
from tidelog.service.ready_commits import ReadyCommits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.env.scheduler import Handle
    from tidelog.log.log import Log
    from tidelog.manager.lifecycle.deleter import LogDeleter
    from tidelog.manager.lifecycle.reopening import LogReopener
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.staged_commits import StagedCommits
    from tidelog.service.archive_upkeep import Archiving
    from tidelog.service.late_loading import LateLoader

_log = logging.getLogger(__name__)
_RESERVE_MS = 1000
_REQUESTS_MS = 1000


class RequestLook(Protocol):
    """What answers the requests of other processes."""

    def look(self) -> None:
        """Look for requests, and continue with those in hand."""

    def stop(self) -> None:
        """Begin nothing more, and wait for what runs."""


class BackgroundTasks(ManagerPart):
    """The background tasks; ``start`` schedules them, each can be run by hand."""

    def __init__(
        self,
        shared: Shared,
        *,
        deleter: LogDeleter,
        requests: RequestLook,
        reopener: LogReopener,
        late: LateLoader,
        staged: StagedCommits,
        archiving: Callable[[Callable[[], bool]], Archiving] | None = None,
    ) -> None:
        """``archiving`` makes what archives logs, with what says that it should stop."""
        super().__init__(shared)
        self._deleter = deleter
        self._requests = requests
        self.have_stopped = False
        self.answer_requests: Final = Pass(requests.look).run
        """Begins what other processes requested, and continues with what was begun."""
        self._reopener = reopener
        self._late = late
        self._staged = staged
        self._handles: list[Handle] = []
        self._gate = TaskGate()
        ready = ReadyCommits(staged, lambda: self._gate.is_closed)
        self.commit_ready: Final = Pass(ready.commit_all).run
        """Commits the transactions that other processes wait for."""
        watermarks = self.guarded(self._checkpointing.checkpoint_high_watermarks)
        self._watermarks = SharedRounds("tidelog-watermarks", watermarks, self._machine)
        self.archiving: Final = archiving and archiving(lambda: self._gate.is_closed)

    def start(self) -> None:
        """Schedule all tasks with Kafka's names, delays and periods."""
        config, checkpointing = self._config(), self._checkpointing
        delay_ms = config.log_initial_task_delay_ms
        retention_ms = config.log_retention_check_interval_ms
        flush_ms = config.log_flush_scheduler_interval_ms
        _log.info("Starting log cleanup with a period of %d ms.", retention_ms)
        _log.info("Starting log flusher with a default period of %d ms.", flush_ms)
        recovery_ms = config.log_flush_offset_checkpoint_interval_ms
        start_ms = config.log_flush_start_offset_checkpoint_interval_ms
        watermark_ms = config.replica_high_watermark_checkpoint_interval_ms
        recovery_points = checkpointing.checkpoint_recovery_points
        log_starts = checkpointing.checkpoint_log_start_offsets
        high_watermarks = checkpointing.checkpoint_high_watermarks
        for name, task, first_ms, period_ms in (
            ("kafka-log-retention", self.cleanup_logs, delay_ms, retention_ms),
            ("kafka-log-flusher", self.flush_dirty_logs, delay_ms, flush_ms),
            ("kafka-recovery-point-checkpoint", recovery_points, delay_ms, recovery_ms),
            ("kafka-log-start-offset-checkpoint", log_starts, delay_ms, start_ms),
            ("tidelog-disk-reserve", self._registry.reserve.look, 0, _RESERVE_MS),
            ("tidelog-reopen-logs", self._reopener.reopen_due, 0, _RESERVE_MS),
            ("tidelog-load-logs-late", self.load_late, 0, _RESERVE_MS),
            ("tidelog-staged-commits", self._staged.finish_due, 0, RETRY_MS),
            ("tidelog-ready-commits", self.commit_ready, 0, _REQUESTS_MS),
            ("tidelog-requests", self.answer_requests, 0, _REQUESTS_MS),
            ("highwatermark-checkpoint", high_watermarks, 0, watermark_ms),
            *self._archive_task(),
        ):
            handle = self._machine.scheduler.schedule(
                name, self.guarded(task), delay_ms=first_ms, period_ms=period_ms
            )
            self._handles.append(handle)

    def _archive_task(self) -> Iterator[tuple[str, Callable[[], object], int, int]]:
        if self.archiving is not None:
            config = self._config()
            period_ms = config.remote_log_manager_task_interval_ms
            where = config.tidelog_archive_uri, period_ms, config.log_initial_task_delay_ms
            _log.info("archiving-started to=%s period_ms=%d rolls_after_ms=%d", *where)
            yield "tidelog-archive", self.archiving.run, 0, period_ms

    def guarded(self, task: Callable[[], object]) -> Callable[[], None]:
        """Return ``task`` as one that ``stop`` waits for and that does nothing afterwards."""
        return self._gate.guarded(task)

    def stop(self) -> None:
        """Begin no further pass; wait until the passes that run end, each after its current log."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.cancel()
        if handles:
            # Nobody is answered any more, and it may take long to close all logs.
            self._checkpointing.checkpoint_high_watermarks()
        self._gate.close()
        self._watermarks.close()
        self._requests.stop()
        self.have_stopped = True

    def cleanup_logs(self) -> int:
        """Delete the segments that have expired by now, and return their number.

        Compacted logs are left to the cleaner, if there is one.
        """
        clock = self._machine.clock
        now_ms, began_ns = clock.now_ms(), clock.monotonic_ns()
        _log.debug("Beginning log cleanup...")
        try:
            self._deleter.finish_if_unfinished()
        except KafkaStorageError as error:
            _log.warning("topic-deletion-put-off reason=%s", error)
        logs = self._registry.logs()
        futures = {(key[0], key[1]): log for key, log in self._registry.futures().items()}
        total = 0
        with self._cleaning.not_compacted(logs) as chosen:
            for key, log in chosen:
                if self._gate.is_closed:
                    break
                _log.debug("Garbage collecting '%s'", log.directory)
                total += _delete_old_segments(log, now_ms)
                if (future := futures.get(key)) is not None:
                    _log.debug("Garbage collecting future log '%s'", future.directory)
                    total += _delete_old_segments(future, now_ms)
        if not self._gate.is_closed:
            if percent := self._config().tidelog_retention_disk_percent:
                total += retain_by_percent(self.shared, percent=percent, now_ms=now_ms)
            self.delete_old_files()
        seconds = (clock.monotonic_ns() - began_ns) // NS_PER_MS / 1000
        _log.debug("Log cleanup completed. %d files deleted in %s seconds", total, seconds)
        return total

    def load_late(self) -> int:
        """Load or create logs for which there was no space before; return how many."""
        count = 0
        for key in self._late.due():
            if self._gate.is_closed:
                break
            count += self._late.load(key, lambda: self._gate.is_closed)
        return count

    def answer_mail(self, looked: Callable[[], None], done: Callable[[], None]) -> None:
        """Do both now, on a thread of the scheduler, then checkpoint high watermarks.

        ``looked`` is called in between, ``done`` in the end, and at once where no task begins any
        more. Where tasks wait for a clock to be advanced, high watermarks are checkpointed on this
        thread: readers do not advance it.
        """
        has_threads = self._machine.start_threads is not None

        def look() -> None:
            try:
                self._gate.run(self.commit_ready)
                self._gate.run(self.answer_requests)
            finally:
                looked()
                if has_threads:
                    self._watermarks.ask(done)

        if self._gate.is_closed:
            done()
            return
        self._machine.scheduler.schedule("tidelog-mail", look)
        if not has_threads:
            self._watermarks.ask(done)

    def delete_old_files(self) -> None:
        """Delete the staged files of writers that are gone, and what recoveries cut long ago.

        A process that writes and ends does not know how long the latter are to be kept.
        """
        self.delete_staged_files()
        self._deleter.delete_cut_files(self._config().tidelog_cut_retention_ms)

    def delete_staged_files(self) -> None:
        """Delete the staged files of writers that are gone."""
        self._deleter.delete_staged_files(self._config().tidelog_staged_retention_ms)

    def flush_dirty_logs(self) -> None:
        """Flush the logs whose last flush is ``flush.ms`` ago."""
        _log.debug("Checking for dirty logs to flush...")
        now_ms = self._machine.clock.now_ms()
        for log in self._registry.all_logs():
            if self._gate.is_closed:
                return
            # Also after a clock that was set back: the log would stay dirty until it gets there.
            if abs(now_ms - log.last_flush_ms) >= log.config.flush_ms:
                try:
                    log.flush()
                except KafkaStorageError as error:
                    _log.error("flush-failed directory=%s reason=%s", log.directory, error)


def _delete_old_segments(log: Log, now_ms: int) -> int:
    try:
        return log.delete_old_segments(now_ms)
    except KafkaStorageError as error:
        # An error in one log must not stop the others.
        _log.error("retention-failed directory=%s reason=%s", log.directory, error)
        return 0
