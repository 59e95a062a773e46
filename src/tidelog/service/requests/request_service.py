"""Carries out what other processes ask for by files in the directories of a service.

A pass looks at one listing of a directory: it claims what is new, and clears what nobody takes any
more. Commands run on threads of their own, so that neither the passes nor other requests wait for a
long one: creating, altering and deleting topics and beginning moves on one, retention, recoveries
and deletions of records on two, compactions, each of which needs the cleaner's memory, on one.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final

from tidelog.errors import (
    CorruptFile,
    InvalidArgument,
    KafkaStorageError,
    TidelogError,
)
from tidelog.log.directory_guard import NO_RESOURCES, NO_SPACE
from tidelog.service.requests.arguments import check_arguments, partitions_of
from tidelog.service.requests.carry_out import Home, carry_out
from tidelog.service.requests.request_files import (
    ANSWERED,
    CLAIMED,
    NAME,
    Answer,
    NewerRequest,
    Request,
    read_request,
    write_answer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.cleaner.log_cleaner import Machine
    from tidelog.env.scheduler import OwnThreads, Scheduler
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_manager import LogManager
    from tidelog.segment.filenames import TopicPartition

MAX_CLAIMED: Final = 64
"""How many requests are in hand at most; others wait for them, up to their deadline."""
MAX_MOVES: Final = 4
"""How many partitions of one request move at the same time."""
KEPT_MS: Final = 600_000
"""How long answers, and requests past their deadline, are kept for a process that was stopped."""

_log = logging.getLogger(__name__)

_LANES: Final = {
    "delete-records": "records",
    "retain": "records",
    "recover": "records",
    "compact": "compactions",
}
_TOPICS: Final = "topics"
"""The threads of all other commands."""
_THREADS: Final = {_TOPICS: 1, "records": 2, "compactions": 1}


class _Job:
    """A claimed request: ``path`` is its file's before it was claimed.

    ``moves`` are the partitions that a move has still to begin, ``moving`` those that it has begun.
    """

    def __init__(self, path: str, request: Request | None) -> None:
        self.path = path
        self.request = request
        self.answer: Answer | None = None
        self.moves: list[TopicPartition] = []
        self.moving: list[TopicPartition] = []
        self.has_begun = False
        self.lock: Final = RLock()
        """Held while the job is answered, or its moves go on."""

    @property
    def data_dir(self) -> str:
        """The directory that the request lies in."""
        return os.path.dirname(self.path)


class RequestService:
    """Answers the requests in the directories of a service.

    ``_lock`` guards the jobs and the threads.
    """

    def __init__(self, machine: Machine, log_dirs: LogDirs, manager: LogManager) -> None:
        self._machine: Final = machine
        self._fs: Final = machine.fs
        self._log_dirs: Final = log_dirs
        self._manager: Final = manager
        self._lock: Final = Lock()
        self._jobs: dict[str, _Job] = {}
        self._threads: dict[str, OwnThreads] = {}
        self._ignored: set[str] = set()
        """Requests of a newer release, or whose files cannot be read."""
        self._is_stopping = False

    # A pass

    def look(self, data_dir: str, names: Iterable[str]) -> None:
        """Go on with what was claimed; claim what is new among ``names``, and clear what is old."""
        for claimed in self._jobs_in(data_dir):
            self._go_on(claimed)
        found = [match for name in names if (match := NAME.fullmatch(name)) is not None]
        paths = {os.path.join(data_dir, match[0]) for match in found}
        self._ignored -= {one for one in self._ignored - paths if os.path.dirname(one) == data_dir}
        fresh = []
        for match in found:
            base, state, is_temporary = match.groups()
            path = os.path.join(data_dir, match[0])
            if is_temporary or state == ANSWERED:
                self._sweep(path)
            elif state == CLAIMED:
                self._clear_claim(data_dir, base, path)
            elif path not in self._ignored:
                fresh.append(path)
        room = max(MAX_CLAIMED - len(self._jobs), 0)
        self._begin_all(data_dir, [job for path in fresh[:room] if (job := self._claim(path))])

    def _jobs_in(self, data_dir: str) -> list[_Job]:
        with self._lock:
            return [job for job in self._jobs.values() if job.data_dir == data_dir]

    def _go_on(self, job: _Job) -> None:
        """Write an answer that could not be written before; look how far moves have come."""
        with job.lock:
            if job.answer is not None:
                self._finish(job, job.answer)
            elif job.moving or job.moves:
                self._continue_moves(job)

    def _sweep(self, path: str) -> None:
        """Delete a file that nobody has taken for long."""
        with suppress(OSError):
            if self._machine.clock.now_ms() - self._fs.stat(path).mtime_ms >= KEPT_MS:
                self._fs.delete(path)
                _log.info("request-swept path=%s", path)

    def _clear_claim(self, data_dir: str, base: str, path: str) -> None:
        """Delete a claim of an earlier service, which has ended: nobody knows how far it came."""
        with self._lock:
            if os.path.join(data_dir, base) in self._jobs:
                return
        try:
            self._fs.delete(path)
        except FileNotFoundError:
            return  # answered since the directory was listed
        except OSError as error:
            self._ignore(path, error)
            return
        _log.warning("request-abandoned path=%s", path)

    def _ignore(self, path: str, reason: object) -> None:
        if path not in self._ignored:
            _log.warning("request-ignored path=%s reason=%s", path, reason)
            self._ignored.add(path)

    # Claims

    def _claim(self, path: str) -> _Job | None:
        """Claim one request, also one that is only to be refused; None if it cannot be."""
        job = _Job(path, None)
        try:
            try:
                job.request = read_request(self._fs, path)
                job.request.check_deadline(self._machine.clock.now_ms())
                check_arguments(job.request.command, job.request.arguments)
            except InvalidArgument as error:
                job.answer = Answer.of_error(error)
            self._fs.rename(path, path + CLAIMED)
        except FileNotFoundError:
            return None  # withdrawn meanwhile
        except (OSError, CorruptFile, NewerRequest) as error:
            if isinstance(error, OSError) and error.errno in NO_SPACE | NO_RESOURCES:
                _log.warning("request-delayed path=%s reason=%s", path, error)
            else:
                self._ignore(path, error)
            return None
        with self._lock:
            self._jobs[path] = job
        return job

    def _begin_all(self, data_dir: str, claimed: Sequence[_Job]) -> None:
        """Carry claimed requests out, once the claims are durable: a power cut revives none."""
        if not claimed:
            return
        try:
            self._fs.sync_directory(data_dir)
        except OSError as error:
            if error.errno not in NO_RESOURCES:
                self._log_dirs.take_offline(data_dir, error)
            refusal = KafkaStorageError(f"syncing {data_dir} failed: {error}; nothing was done")
            for job in claimed:
                self._finish(job, Answer.of_error(refusal))
            return
        for job in claimed:
            if job.answer is not None:
                _log.warning("request-refused path=%s reason=%s", job.path, job.answer.text)
                self._finish(job, job.answer)
            elif job.request is not None:
                name = job.request.command
                _log.info("request-claimed path=%s command=%s", job.path, name)
                self._lane_of(name).schedule(f"request-{name}", self._task_of(job))

    def _task_of(self, job: _Job) -> Any:  # noqa: ANN401 - a task
        return lambda: self._run(job)

    def _lane_of(self, command: str) -> Scheduler:
        """Return the threads that carry out a command, started with the first of its kind."""
        start_threads = self._machine.start_threads
        if start_threads is None:
            return self._machine.scheduler
        lane = _LANES.get(command, _TOPICS)
        with self._lock:
            if lane not in self._threads:
                self._threads[lane] = start_threads(_THREADS[lane], f"tidelog-requests-{lane}")
            return self._threads[lane]

    # Carrying out

    def _run(self, job: _Job) -> None:
        assert job.request is not None
        command, arguments, _ = job.request
        done: list[Any] = []
        home = Home(self._manager, self._machine, job.data_dir, done.append)
        if self._is_stopping:
            self._finish(job, _stopped(job))
            return
        job.has_begun = True
        try:
            if command == "move":
                self._begin_move(job)
                return
            answer = Answer(carry_out(home, command, arguments))
        except (TidelogError, OSError) as error:
            _log.info("request-failed path=%s command=%s reason=%s", job.path, command, error)
            answer = Answer.of_error(error, done)
        except Exception as error:  # noqa: BLE001 - no error may leave a request unanswered
            _log.exception("request-failed path=%s command=%s", job.path, command)
            answer = Answer.of_error(error)
        self._finish(job, answer)

    def _finish(self, job: _Job, answer: Answer) -> None:
        """Answer; if there is no space, or no descriptor, with the next pass."""
        with job.lock:
            if job.path not in self._jobs:
                return
            job.answer, job.moves, job.moving = answer, [], []
            try:
                write_answer(self._fs, job.path, answer)
            except KafkaStorageError as error:
                text = f"the command was carried out, but its result is too large: {error}"
                self._finish(job, Answer.of_error(KafkaStorageError(text)))
                return
            except OSError as error:
                _log.warning("request-not-answered path=%s reason=%s", job.path, error)
                if error.errno in NO_SPACE | NO_RESOURCES and not self._is_stopping:
                    return
                if error.errno == errno.EIO:
                    self._log_dirs.take_offline(job.data_dir, error)
            with self._lock:
                self._jobs.pop(job.path, None)

    # Moves

    def _begin_move(self, job: _Job) -> None:
        """Check that all partitions can move, and begin with the first ones."""
        assert job.request is not None
        arguments = job.request.arguments
        keys = partitions_of(arguments)
        for key in keys:
            self._manager.partition(*key)
        with job.lock:
            job.moves = keys
            self._continue_moves(job)

    def _continue_moves(self, job: _Job) -> None:
        """Begin as many moves as may run; answer once all partitions lie in the target."""
        assert job.request is not None
        target = job.request.arguments["target"]
        try:
            for key in list(job.moving):
                if self._has_moved(key, target):
                    job.moving.remove(key)
            while job.moves and len(job.moving) < MAX_MOVES:
                key = job.moves.pop(0)
                if self._manager.move_partition(*key, target):
                    _log.info("move-begun topic=%s partition=%d to=%s", *key, target)
                if not self._has_moved(key, target):
                    job.moving.append(key)
        except (TidelogError, OSError) as error:
            _log.info("request-failed path=%s command=move reason=%s", job.path, error)
            self._finish(job, Answer.of_error(error))
            return
        if not job.moving:
            self._finish(job, Answer([]))

    def _has_moved(self, key: TopicPartition, target: str) -> bool:
        """Whether a partition has moved; raise KafkaStorageError if its move was given up."""
        reason = self._manager.why_not_moved(*key)
        if not reason and self._manager.get_log(*key, is_future=True) is not None:
            return False
        log = self._manager.get_log(*key)
        if log is None or os.path.dirname(log.directory) != target:
            reason = reason or "see the log of the service"
            raise KafkaStorageError(f"{key} was not moved: {reason}")
        return True

    # The end

    def stop(self) -> None:
        """Begin nothing more; wait for what runs, and answer all that was claimed."""
        self._is_stopping = True
        with self._lock:
            threads, self._threads = self._threads, {}
        for lane in threads.values():
            lane.shutdown()
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            self._finish(job, job.answer or _stopped(job))


def _stopped(job: _Job) -> Answer:
    """Return the answer to a request that the end of the service has interrupted."""
    waiting = [*job.moving, *job.moves]
    if job.has_begun and waiting:
        named = ", ".join(map(str, waiting[:3]))
        text = f"the service ended before {named} was moved; the next start continues the move"
        return Answer.of_error(KafkaStorageError(text))
    text = "the service was stopped before it began; nothing was done"
    return Answer.of_error(KafkaStorageError(text))
