"""Which partitions are being cleaned, are paused or have failed, and how far each has come.

Owns the states, the choice of the next log and the checkpoints. Must not know how a log is cleaned
or which thread does it. Kafka: ``LogCleanerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidelog.cleaner.cleaner_checkpoints import CleanerCheckpoints
from tidelog.cleaner.failed_cleanings import Failure, failed_again
from tidelog.cleaner.failed_cleanings_file import read_failures, write_failures
from tidelog.cleaner.pick import LogToClean, examine
from tidelog.cleaner.states import IDLE, CleaningState, Event, Phase
from tidelog.errors import CleaningAborted, InvalidArgument, KafkaStorageError

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

_logger = logging.getLogger(__name__)


class Grabbed(NamedTuple):
    """A log that is now in progress, and what is to be cleaned of it."""

    key: Key
    log: Log
    to_clean: LogToClean


class LogCleanerManager:
    """States, failures and checkpoints of all partitions.

    ``_lock`` guards ``_states``, ``_failures`` and the numbers of the last choice; nobody reads a
    log or sleeps with it held. The checkpoint is written under it when a cleaning is done, so that
    no abort comes between. Source: Kafka LogCleanerManager.

    Args:
        logs: returns the current logs.
        fs: where the checkpoints lie.
        clock: tells when retries are due.
        sleep_ms: waits, for ``abort_and_pause`` and ``await_cleaned``.
    """

    def __init__(
        self,
        logs: Callable[[], Logs],
        *,
        fs: FileSystem,
        clock: Clock,
        sleep_ms: Callable[[int], None],
    ) -> None:
        self._logs: Final = logs
        self._checkpoints: Final = CleanerCheckpoints(fs)
        self._fs: Final = fs
        self._clock: Final = clock
        self._sleep_ms: Final = sleep_ms
        self._lock: Final = RLock()
        self._states: dict[Key, CleaningState] = {}
        self._failures: dict[Key, Failure] = {}
        self.max_dirty_ratio = 0.0
        self.max_delay_ms = 0
        self.last_run_ms = clock.now_ms()

    # States

    def state(self, key: Key) -> CleaningState:
        """Return the state of a partition."""
        with self._lock:
            return self._states.get(key, IDLE)

    def _apply(self, key: Key, event: Event) -> CleaningState:
        """Move one partition on; the only place where a state changes."""
        with self._lock:
            new = self._states.get(key, IDLE).after(event)
            if new == IDLE:
                self._states.pop(key, None)
            else:
                self._states[key] = new
            return new

    def abort_and_pause(self, key: Key) -> None:
        """Stop the cleaning of a partition, wait until it has, and allow none until ``resume``.

        Raises InvalidArgument while another abort is under way.
        """
        state = self._apply(key, Event.PAUSE)
        while state.phase is Phase.ABORTED:
            self._sleep_ms(POLL_MS)
            state = self.state(key)
        _logger.info("cleaning-paused topic=%s partition=%d", *key)

    def abort(self, key: Key) -> None:
        """Stop the cleaning of a partition and wait until it has; it may begin again at once."""
        self.abort_and_pause(key)
        self.resume([key])

    def resume(self, keys: Iterable[Key]) -> None:
        """Undo one pause of each; InvalidArgument for one that is not paused."""
        for key in keys:
            self._apply(key, Event.RESUME)
            _logger.info("cleaning-resumed topic=%s partition=%d", *key)

    def check(self, key: Key) -> None:
        """Raise CleaningAborted if the cleaning of this partition is to stop."""
        if self.state(key).phase is Phase.ABORTED:
            raise CleaningAborted(f"cleaning of {key[0]}-{key[1]} was aborted")

    # Choosing

    def grab_filthiest(self, now_ms: int) -> Grabbed | None:
        """Choose the dirtiest log that may be cleaned, and put it in progress; None: there is none.

        A log that cannot be examined counts as failed, and nothing is chosen this time.
        """
        self.last_run_ms = now_ms
        candidates = []
        for key, log in self._logs().items():
            if log.config.is_compacted and self._is_free(key, now_ms):
                try:
                    found = self.examine(key, log, now_ms)
                except Exception as error:  # noqa: BLE001 - one log must not stop all others
                    self.fail(key, error, now_ms)
                    return None
                candidates.append(Grabbed(key, log, found))
        self.max_dirty_ratio = max((c.to_clean.dirty_ratio for c in candidates), default=0.0)
        self.max_delay_ms = max((c.to_clean.delay_ms for c in candidates), default=0)
        eligible = [
            c for c in candidates if c.to_clean.is_eligible(c.log.config.min_cleanable_dirty_ratio)
        ]
        eligible.sort(key=lambda found: found.to_clean.dirty_ratio, reverse=True)
        return next((found for found in eligible if self._begin(found.key)), None)

    def examine(self, key: Key, log: Log, now_ms: int) -> LogToClean:
        """Say what of a log is to be cleaned; a checkpoint outside of the log is set right."""
        found = examine(log, self.checkpoint(key, log), now_ms)
        if found.is_reset:
            self._write(key, log, found.cleanable.first_dirty_offset)
        return found

    def _is_free(self, key: Key, now_ms: int) -> bool:
        with self._lock:
            failure = self._failures.get(key)
            return key not in self._states and (failure is None or failure.is_due(now_ms))

    def _begin(self, key: Key) -> bool:
        """Put a partition in progress, unless somebody was faster."""
        with self._lock:
            if key in self._states:
                return False
            self._apply(key, Event.BEGIN)
            return True

    def begin(self, key: Key) -> None:
        """Put one partition in progress; InvalidArgument if it is busy or paused."""
        self._apply(key, Event.BEGIN)

    def grab_deletable(self) -> list[tuple[Key, Log]]:
        """Put all compacted logs that are free in progress, for their retention pass."""
        now_ms = self._clock.now_ms()
        return [
            (key, log)
            for key, log in self._logs().items()
            if log.config.is_compacted and self._is_free(key, now_ms) and self._begin(key)
        ]

    def pause_not_compacted(self) -> list[tuple[Key, Log]]:
        """Pause all logs that are not compacted and free, and return them.

        Their retention pass runs meanwhile: a change of policy cannot start a cleaning beside it.
        """
        with self._lock:
            free = [
                (key, log)
                for key, log in self._logs().items()
                if not log.config.is_compacted and key not in self._states
            ]
            for key, _ in free:
                self._apply(key, Event.PAUSE)
            return free

    # Ends

    def done_cleaning(self, key: Key, log: Log, end_offset: int) -> None:
        """Note that a cleaning ended, and how far it came; an aborted one leaves no checkpoint."""
        with self._lock:
            try:
                if self.state(key).phase is Phase.IN_PROGRESS:
                    self._write(key, log, end_offset)
                    self._forgive(key)
            finally:
                self._apply(key, Event.END)

    def done(self, key: Key) -> None:
        """Note that whatever was in progress ended, without a word on how far it came."""
        self._apply(key, Event.END)

    def fail(self, key: Key, error: BaseException, now_ms: int) -> None:
        """Note that a partition could not be cleaned; it is left alone for a while."""
        with self._lock:
            failure = failed_again(self._failures.get(key), error, now_ms)
            self._failures[key] = failure
        _logger.warning(
            "cleaning-failed topic=%s partition=%d times=%d retry_in_ms=%d error=%s",
            *(*key, failure.times, failure.retry_ms - now_ms, failure.error),
        )
        self._tell_failures(key)

    def _forgive(self, key: Key) -> None:
        with self._lock:
            had_failed = self._failures.pop(key, None) is not None
        if had_failed:
            self._tell_failures(key)

    def _tell_failures(self, key: Key) -> None:
        """Write down the failures of the directory that a log lies in, for other processes."""
        logs = self._logs()
        if key in logs:
            directory = _data_directory(logs[key])
            with self._lock:
                there = {
                    other: failure
                    for other, failure in self._failures.items()
                    if other in logs and _data_directory(logs[other]) == directory
                }
            write_failures(self._fs, directory, there)

    def retry(self, key: Key) -> None:
        """Try a failed partition again at once: its settings have changed."""
        with self._lock:
            failure = self._failures.get(key)
            if failure is not None:
                self._failures[key] = failure._replace(retry_ms=self._clock.now_ms())

    def recall_failures(self) -> None:
        """Take over the failures that an earlier process wrote down; all are tried again at once.

        So they are seen until they are cleaned.
        """
        logs, now_ms = self._logs(), self._clock.now_ms()
        for directory in {_data_directory(log) for log in logs.values()}:
            for key, failure in read_failures(self._fs, directory).items():
                if key in logs and _data_directory(logs[key]) == directory:
                    with self._lock:
                        self._failures.setdefault(key, failure._replace(retry_ms=now_ms))

    def failures(self) -> dict[Key, Failure]:
        """Return the partitions that could not be cleaned; those that are gone are forgotten."""
        current = self._logs()
        with self._lock:
            self._failures = {k: failed for k, failed in self._failures.items() if k in current}
            return dict(self._failures)

    # Checkpoints

    def checkpoint(self, key: Key, log: Log) -> int | None:
        """Return how far a log has been cleaned (exclusive), None if never."""
        return self._checkpoints.read(_data_directory(log)).get(key)

    def _write(self, key: Key, log: Log, offset: int) -> None:
        known = self._logs()
        with log.watch("writing the cleaner's checkpoint"):
            self._checkpoints.change(
                _data_directory(log), lambda lines: lines.update({key: offset}), known=known
            )

    def drop_checkpoint(self, data_directory: str, key: Key) -> None:
        """Forget how far a log has been cleaned, as when it is deleted or moved."""
        known = [other for other in self._logs() if other != key]
        self._checkpoints.change(data_directory, lambda _: None, known=known)

    def move_checkpoint(self, key: Key, source_directory: str, target_directory: str) -> None:
        """Let a log's line follow it to another data directory."""
        offset = self._checkpoints.read(source_directory).get(key)
        if offset is not None:
            self.drop_checkpoint(source_directory, key)
            self._checkpoints.change(target_directory, lambda lines: lines.update({key: offset}))

    def maybe_truncate_checkpoint(self, key: Key, log: Log, offset: int) -> None:
        """Lower a compacted log's line to ``offset``, to which the log was truncated."""
        if not log.config.is_compacted:
            return
        known = self.checkpoint(key, log)
        if known is not None and known > offset:
            self._write(key, log, offset)

    def await_cleaned(self, key: Key, offset: int, max_wait_ms: int) -> bool:
        """Wait until a partition is cleaned up to ``offset``; return whether it is."""
        until_ns = self._clock.monotonic_ns() + max_wait_ms * 1_000_000
        while not self._is_cleaned(key, offset):
            if self._clock.monotonic_ns() >= until_ns:
                return False
            self._sleep_ms(min(POLL_MS, max_wait_ms))
        return True

    def _is_cleaned(self, key: Key, offset: int) -> bool:
        log = self._logs().get(key)
        if log is None:
            raise InvalidArgument(f"there is no log of {key[0]}-{key[1]}")
        checkpoint = self.checkpoint(key, log)
        return checkpoint is not None and checkpoint >= offset

    def uncleanable_bytes(self, key: Key, log: Log) -> int:
        """Return the bytes that wait for a failed partition to be cleaned."""
        try:
            return examine(log, self.checkpoint(key, log), self._clock.now_ms()).cleanable_bytes
        except (KafkaStorageError, OSError):
            return 0


def _data_directory(log: Log) -> str:
    return log.directory.rpartition("/")[0]
