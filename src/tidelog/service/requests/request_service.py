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
from functools import partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final

from tidelog.errors import CorruptFile, InvalidArgument, KafkaStorageError, TidelogError
from tidelog.log.directory_guard import NO_RESOURCES, NO_SPACE
from tidelog.mailbox.answer import Answer
from tidelog.mailbox.letter import State
from tidelog.mailbox.look import Look
from tidelog.manager.manager_part import ManagerPart
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.service.requests.request import REQUESTS, RequestFiles
from tidelog.service.requests.request_arguments import check_arguments, partitions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.env.scheduler import OwnThreads, Scheduler
    from tidelog.manager.log_manager import LogManager
    from tidelog.segment.filenames import TopicPartition
    from tidelog.service.requests.request import Request

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
    "roll": "records",
    "recover": "records",
    "compact": "compactions",
    "archive": "archive",
}
_TOPICS: Final = "topics"
"""The threads of all other commands."""
_THREADS: Final = {_TOPICS: 1, "records": 2, "compactions": 1, "archive": 1}


class _Job:
    """A claimed request, None if it is one that is only to be refused.

    ``moves`` are the partitions that a move has still to begin, ``moving`` those that it has begun.
    """

    def __init__(self, files: RequestFiles) -> None:
        self.files: Final = files
        self.path: Final = files.path(State.WAITING)
        self.request: Request | None = None
        self.answer: Answer | None = None
        self.moves: list[TopicPartition] = []
        self.moving: list[TopicPartition] = []
        self.has_begun = False
        self.lock: Final = RLock()
        """Held while the job is answered, or its moves continue."""


class RequestService(ManagerPart):
    """Answers the requests in the directories of a service.

    ``_lock`` guards the jobs and the threads.
    """

    def __init__(self, manager: LogManager) -> None:
        super().__init__(manager.shared)
        self._manager: Final = manager
        self._fs: Final = self._machine.fs
        self._requests: Final = Look(self._fs, RequestFiles, self._meet)
        self._lock: Final = Lock()
        self._jobs: dict[RequestFiles, _Job] = {}
        self._claimed: list[_Job] = []
        """What the pass has claimed, not durably yet."""
        self._threads: dict[str, OwnThreads] = {}
        self._is_stopping = False

    # A pass

    def look(self) -> None:
        """Continue with what was claimed; claim what is new, and clear what is old.

        Each directory is listed once.
        """
        for data_dir, names in self._log_dirs.listed():
            for job in self._all_jobs():
                if job.files.data_dir == data_dir:
                    self._go_on(job)
            for name in filter(REQUESTS.is_left, names):
                self._sweep(os.path.join(data_dir, name))
            self._claimed = []
            self._requests.look(data_dir, names)
            self._begin_all(data_dir, self._claimed)

    def _all_jobs(self) -> list[_Job]:
        with self._lock:
            return list(self._jobs.values())

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

    def _meet(self, files: RequestFiles, states: set[State]) -> None:
        """Claim what waits, unless too much is in hand; clear the claim of an earlier service.

        Such a service has ended, and nobody knows how far it came.
        """
        with self._lock:
            is_in_hand, count = files in self._jobs, len(self._jobs)
        if State.WAITING in states and count < MAX_CLAIMED:
            self._claim(files)
        elif State.CLAIMED in states and not is_in_hand:
            self._fs.delete(files.path(State.CLAIMED))  # unless it was answered meanwhile
            _log.warning("request-abandoned path=%s", files.path(State.CLAIMED))

    # Claims

    def _claim(self, files: RequestFiles) -> None:
        """Claim one request, also one that is only to be refused, unless it is withdrawn."""
        job = _Job(files)
        try:
            request = files.request()
            request.check_deadline(self._machine.clock.now_ms())
            check_arguments(request.command, request.arguments)
            job.request = request
        except (CorruptFile, InvalidArgument) as error:
            job.answer = Answer.of_error(InvalidArgument(str(error)))
        if files.change(State.WAITING, State.CLAIMED):
            with self._lock:
                self._jobs[files] = job
            self._claimed.append(job)

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
                job.answer = Answer.of_error(refusal)
        for job in claimed:
            if job.answer is not None:
                _log.warning("request-refused path=%s reason=%s", job.path, job.answer.text)
                self._finish(job, job.answer)
            elif job.request is not None:
                name = job.request.command
                _log.info("request-claimed path=%s command=%s", job.path, name)
                self._lane_of(name).schedule(f"request-{name}", partial(self._run, job))

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
        home = Home(self._manager, self._machine, job.files.data_dir, done.append)
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
            if job.files not in self._jobs:
                return
            job.answer, job.moves, job.moving = answer, [], []
            try:
                job.files.answer(answer.encoded())
            except KafkaStorageError as error:
                text = f"the command was carried out, but its result is too large: {error}"
                self._finish(job, Answer.of_error(KafkaStorageError(text)))
                return
            except OSError as error:
                _log.warning("request-not-answered path=%s reason=%s", job.path, error)
                if error.errno in NO_SPACE | NO_RESOURCES and not self._is_stopping:
                    return
                if error.errno == errno.EIO:
                    self._log_dirs.take_offline(job.files.data_dir, error)
            with self._lock:
                self._jobs.pop(job.files, None)

    # Moves

    def _begin_move(self, job: _Job) -> None:
        """Check that all partitions can move, and begin with the first ones."""
        assert job.request is not None
        arguments = job.request.arguments
        keys = partitions_of(arguments)
        for key in keys:
            self._manager.partition(*key)
        self._manager.check_room_to_move(keys, arguments["target"])
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
        if log is None or log.data_dir != target:
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
        for job in self._all_jobs():
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
