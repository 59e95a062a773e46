"""Which partitions are being cleaned, are paused or failed, and how far each has been cleaned.

Kafka: ``LogCleanerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidelog.cleaner.cleaner_checkpoints import CleanerCheckpoints
from tidelog.cleaner.failed_cleanings import Failure, next_failure
from tidelog.cleaner.failed_cleanings_file import read_failures, write_failures
from tidelog.cleaner.pick import LogToClean, examine
from tidelog.cleaner.states import IDLE, CleaningState, Event, Phase
from tidelog.env.clock import NS_PER_MS
from tidelog.errors import CleaningAborted, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log

Key: TypeAlias = tuple[str, int]
"""Topic and partition."""
Logs: TypeAlias = Mapping[Key, "Log"]
"""The current logs, as of one call."""

POLL_MS: Final = 10
MAX_WAIT_MS: Final = 30_000
"""How long ``begin`` waits for a partition."""

_logger = logging.getLogger(__name__)


class GrabbedLog(NamedTuple):
    """A log whose cleaning is now in progress, and what is to be cleaned of it."""

    key: Key
    log: Log
    to_clean: LogToClean

    @property
    def is_eligible(self) -> bool:
        """Whether it is dirty enough, or overdue."""
        return self.to_clean.is_eligible(self.log.config.min_cleanable_dirty_ratio)


class LogCleanerManager:
    """States, failures and checkpoints of all partitions.

    ``_lock`` guards ``_states``, ``_aborted`` and ``_failures``; no thread reads a log or sleeps
    while it holds the lock. The checkpoint of a finished cleaning is written while it is held, so
    that no abort comes in between. Source: Kafka LogCleanerManager.

    Args:
        logs: returns the current logs; None: not all are known, as none are loaded before their
            first use. ``logs_of`` can be set later.
        fs: contains the checkpoints.
        clock: decides when retries are due.
        sleep_ms: sleeps between polls, in ``abort_and_pause``.
    """

    def __init__(
        self,
        logs: Callable[[], Logs] | None,
        *,
        fs: FileSystem,
        clock: Clock,
        sleep_ms: Callable[[int], None],
    ) -> None:
        self.logs_of = logs
        self.checkpoints: Final = CleanerCheckpoints(fs, self._known)
        self._fs: Final = fs
        self._clock: Final = clock
        self._sleep_ms: Final = sleep_ms
        self._lock: Final = RLock()
        self._owners: dict[Key, object] = {}
        """Who has put each partition in progress, where that was said."""
        self._states: dict[Key, CleaningState] = {}
        self._aborted: set[Key] = set()
        self._failures: dict[Key, Failure] = {}
        self.max_dirty_ratio = 0.0
        self.max_delay_ms = 0
        self.last_run_ms = clock.now_ms()

    def logs(self) -> Logs:
        """Return the current logs, as far as they are known."""
        return {} if self.logs_of is None else self.logs_of()

    def _known(self) -> Logs | None:
        """Return the logs whose lines are kept; None: all lines are."""
        return None if self.logs_of is None else self.logs_of()

    # States

    def state(self, key: Key) -> CleaningState:
        """Return the state of a partition."""
        with self._lock:
            return self._states.get(key, IDLE)

    def _apply(self, key: Key, event: Event) -> CleaningState:
        """Apply an event to a partition and return its new state. Only this method changes one."""
        with self._lock:
            new = self._states.get(key, IDLE).after(event)
            if new == IDLE:
                self._states.pop(key, None)
            else:
                self._states[key] = new
            return new

    def abort_and_pause(self, *keys: Key) -> None:
        """Abort the cleaning of partitions, wait until all have stopped, and block until resumed.

        Several callers may do so at once: each waits, and each pause has to be undone.
        Source: Kafka abortAndPauseCleaning, which refuses a second abort.
        """
        states: dict[Key, CleaningState] = {}
        try:
            # All at once: the one that is waited for first must not let others begin meanwhile.
            for key in keys:
                states[key] = self._apply(key, Event.PAUSE)
            for key in [key for key, state in states.items() if state.phase is Phase.ABORTED]:
                while self.state(key).phase is Phase.ABORTED:
                    self._sleep_ms(POLL_MS)
                with self._lock:
                    self._aborted.add(key)
                _logger.info("cleaning-aborted-and-paused topic=%s partition=%d", *key)
        except BaseException:  # an interrupt: the caller undoes only pauses that it was given
            self.resume(states)
            raise

    def abort(self, key: Key) -> None:
        """Abort the cleaning of a partition and wait until it has stopped; a new one may begin.

        Source: Kafka abortCleaning.
        """
        self.abort_and_pause(key)
        self.resume([key])

    def resume(self, keys: Iterable[Key]) -> None:
        """Undo one pause of each partition; InvalidArgument for one that is not paused.

        Only the end of a pause that aborted a cleaning is logged. Source: Kafka resumeCleaning.
        """
        for key in keys:
            with self._lock:
                is_logged = self._apply(key, Event.RESUME) == IDLE and key in self._aborted
                if is_logged:
                    self._aborted.discard(key)
            if is_logged:
                _logger.info("cleaning-resumed topic=%s partition=%d", *key)

    def check(self, key: Key) -> None:
        """Raise CleaningAborted if the cleaning of this partition has to stop.

        Source: Kafka checkCleaningAborted.
        """
        if self.state(key).phase is Phase.ABORTED:
            raise CleaningAborted(f"the cleaning of {key[0]}-{key[1]} was aborted")

    # Choosing

    def grab_filthiest(self, now_ms: int) -> GrabbedLog | None:
        """Put the dirtiest log that is eligible in progress; return None if there is none.

        The checkpoint of each data directory is read once, and again for the log that is chosen,
        which is examined again. If a log cannot be examined, its cleaning counts as failed and
        nothing is chosen this time, or the next one.
        Source: Kafka grabFilthiestCompactedLog.
        """
        self.last_run_ms = now_ms
        free = [
            (key, log)
            for key, log in self.logs().items()
            if log.config.is_compacted and self._is_free(key, now_ms)
        ]
        # Read after the choice of free logs: a cleaning that ended before it is in the file.
        paths = {log.data_dir for _, log in free}
        checkpoints = {path: self.checkpoints.read(path) for path in paths}
        candidates = []
        for key, log in free:
            try:
                checkpoint = checkpoints[log.data_dir].get(key)
                found = self._examine(key, log, checkpoint, now_ms)
            except Exception as error:  # noqa: BLE001 - one log must not stop all others
                self.mark_uncleanable(key, error, now_ms)
                return None
            candidates.append(GrabbedLog(key, log, found))
        self.max_dirty_ratio = max((c.to_clean.dirty_ratio for c in candidates), default=0.0)
        self.max_delay_ms = max((c.to_clean.compaction_delay_ms for c in candidates), default=0)
        eligible = [candidate for candidate in candidates if candidate.is_eligible]
        eligible.sort(key=lambda candidate: candidate.to_clean.dirty_ratio, reverse=True)
        grabbed = (self._grab(each.key, now_ms) for each in eligible if self.maybe_begin(each.key))
        return next((log for log in grabbed if log is not None), None)

    def _grab(self, key: Key, now_ms: int) -> GrabbedLog | None:
        """Examine a log again, now that it is in progress; if it is not to be cleaned, end that.

        Before it was in progress it could be truncated, moved, or get another cleanup policy.
        Returns None if it is not to be cleaned.
        """
        grabbed = None
        try:
            log = self.logs().get(key)
            if log is not None and log.config.is_compacted:
                found = self._examine(key, log, self.checkpoint(key, log), now_ms)
                again = GrabbedLog(key, log, found)
                grabbed = again if again.is_eligible else None
        except Exception as error:  # noqa: BLE001 - as in grab_filthiest
            self.mark_uncleanable(key, error, now_ms)
        finally:
            if grabbed is None:
                self.done(key)
        return grabbed

    def _examine(self, key: Key, log: Log, checkpoint: int | None, now_ms: int) -> LogToClean:
        """Return what of a log is to be cleaned; correct a checkpoint outside of the log."""
        with log.watch("examining what there is to clean"):
            found = examine(log, checkpoint, now_ms)
        if found.is_reset:
            self._write(key, log, found.offsets.first_dirty_offset)
        return found

    def _is_free(self, key: Key, now_ms: int) -> bool:
        with self._lock:
            failure = self._failures.get(key)
            return key not in self._states and (failure is None or failure.is_due(now_ms))

    def maybe_begin(self, key: Key, owner: object = None) -> bool:
        """Put a partition in progress; return False if it is no longer free.

        ``owner`` is known before it is: see ``done_by``.
        """
        with self._lock:
            if key in self._states:
                return False
            self._owners[key] = owner
            self._apply(key, Event.BEGIN)
            return True

    def done_by(self, owner: object, key: Key) -> None:
        """End what ``owner`` has begun; nothing if an interrupt came before it had."""
        with self._lock:
            if self._owners.get(key) is owner:
                if key in self._states:
                    self.done(key)
                del self._owners[key]

    def begin(
        self, key: Key, is_stopped: Callable[[], bool] = lambda: False, owner: object = None
    ) -> None:
        """Put a partition in progress as soon as it is free; ``done`` ends that.

        Raises CleaningAborted if it is not free within ``MAX_WAIT_MS``, as while it is moved, or
        once ``is_stopped``.
        """
        until_ns = self._clock.monotonic_ns() + MAX_WAIT_MS * NS_PER_MS
        while not self.maybe_begin(key, owner):
            if is_stopped() or self._clock.monotonic_ns() >= until_ns:
                state = self.state(key).phase.value
                raise CleaningAborted(f"{key[0]}-{key[1]} is busy: its cleaning is {state}")
            self._sleep_ms(POLL_MS)

    def note_swapped(self, key: Key, log: Log, end_offset: int) -> None:
        """Raise the checkpoint of a partition whose cleaning has come to an offset.

        Also while that is aborted: what is swapped in stays, and the offsets that it lacks would
        pass for lost once the log is compacted no longer. Records below are clean, since the later
        ones of their keys are either below, too, or dirty.
        """
        with log.watch("writing the cleaner's checkpoint"):
            self.checkpoints.change(
                log.data_dir,
                lambda lines: lines.update({key: max(end_offset, lines.get(key, 0))}),
            )

    def note_cleaned(self, key: Key, log: Log, end_offset: int) -> None:
        """Write the checkpoint of a partition in progress, unless it was aborted meanwhile."""
        with self._lock:
            if self.state(key).phase is Phase.IN_PROGRESS:
                self._write(key, log, end_offset)
                self._clear_failure(key)

    def grab_deletable(self) -> list[tuple[Key, Log]]:
        """Put all free compacted logs in progress, for their retention pass, and return them.

        Source: Kafka deletableLogs.
        """
        now_ms = self._clock.now_ms()
        return [
            (key, log)
            for key, log in self.logs().items()
            if log.config.is_compacted and self._is_free(key, now_ms) and self.maybe_begin(key)
        ]

    def pause_not_compacted(self, logs: Iterable[tuple[Key, Log]]) -> list[tuple[Key, Log]]:
        """Pause the free ones of ``logs`` that are not compacted, for retention, and return them.

        So a change of ``cleanup.policy`` cannot start a cleaning at the same time.
        Source: Kafka pauseCleaningForNonCompactedPartitions.
        """
        with self._lock:
            free = [
                (key, log)
                for key, log in logs
                if not log.config.is_compacted and key not in self._states
            ]
            for key, _ in free:
                self._apply(key, Event.PAUSE)
            return free

    # Ends

    def done_cleaning(self, key: Key, log: Log, end_offset: int) -> None:
        """End a cleaning and write its checkpoint, unless it was aborted meanwhile."""
        with self._lock:
            try:
                self.note_cleaned(key, log, end_offset)
            finally:
                self._apply(key, Event.END)

    def done(self, key: Key) -> None:
        """End what is in progress without writing a checkpoint. Source: Kafka doneDeleting."""
        self._apply(key, Event.END)

    # Failures

    def mark_uncleanable(self, key: Key, error: BaseException, now_ms: int) -> None:
        """Record that a partition could not be cleaned; it is not chosen before its retry is due.

        Source: Kafka markPartitionUncleanable.
        """
        with self._lock:
            failure = next_failure(self._failures.get(key), error, now_ms)
            self._failures[key] = failure
        _logger.warning(
            "cleaning-failed topic=%s partition=%d times=%d retry_in_ms=%d error=%s",
            *(*key, failure.times, failure.retry_ms - now_ms, failure.error),
        )
        self._write_failures(key)

    def _clear_failure(self, key: Key) -> None:
        with self._lock:
            had_failed = self._failures.pop(key, None) is not None
        if had_failed:
            self._write_failures(key)

    def _write_failures(self, key: Key) -> None:
        """Write the failures file of a log's data directory, for other processes to read."""
        logs = self.logs()
        if key in logs:
            directory = logs[key].data_dir
            with self._lock:
                there = {
                    other: failure
                    for other, failure in self._failures.items()
                    if other in logs and logs[other].data_dir == directory
                }
            write_failures(self._fs, directory, there)

    def retry(self, key: Key) -> None:
        """Make the retry of a failed partition due now, since its settings have changed."""
        with self._lock:
            failure = self._failures.get(key)
            if failure is not None:
                self._failures[key] = failure._replace(retry_ms=self._clock.now_ms())

    def load_failures(self) -> None:
        """Load the failures that an earlier process wrote, all due for a retry.

        They are reported as failures until they are cleaned.
        """
        logs, now_ms = self.logs(), self._clock.now_ms()
        for directory in {log.data_dir for log in logs.values()}:
            for key, failure in read_failures(self._fs, directory).items():
                if key in logs and logs[key].data_dir == directory:
                    with self._lock:
                        self._failures.setdefault(key, failure._replace(retry_ms=now_ms))

    def failures(self) -> dict[Key, Failure]:
        """Return the partitions that could not be cleaned; drop those that no longer exist.

        Source: Kafka uncleanablePartitions, maintainUncleanablePartitions.
        """
        current = self.logs()
        with self._lock:
            self._failures = {k: failed for k, failed in self._failures.items() if k in current}
            return dict(self._failures)

    # Checkpoints

    def checkpoint(self, key: Key, log: Log) -> int | None:
        """Return how far a log has been cleaned (exclusive), None if never."""
        return self.checkpoints.read(log.data_dir).get(key)

    def _write(self, key: Key, log: Log, offset: int) -> None:
        with log.watch("writing the cleaner's checkpoint"):
            self.checkpoints.change(log.data_dir, lambda lines: lines.update({key: offset}))

    def maybe_truncate_checkpoint(self, key: Key, log: Log, offset: int) -> None:
        """Lower the line of a log that is truncated to ``offset``.

        Kafka lowers that of a compacted log only, as if it would never be compacted again.
        """
        with log.watch("lowering the cleaner's checkpoint"):
            self.checkpoints.lower(log.data_dir, key, offset)

    def uncleanable_bytes(self, key: Key, log: Log) -> int:
        """Return the cleanable bytes of a failed partition; 0 if they cannot be determined."""
        try:
            return examine(log, self.checkpoint(key, log), self._clock.now_ms()).cleanable_bytes
        except (KafkaStorageError, OSError):
            return 0
