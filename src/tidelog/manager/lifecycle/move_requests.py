"""Moves that another process requests of a running service, by a file in a data directory.

Kafka: the request AlterReplicaLogDirs, which ``kafka-reassign-partitions`` sends.
"""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.checkpoint_file import read_small_file, replace_file
from tidelog.errors import KafkaError, KafkaStorageError, UnknownTopicOrPartition
from tidelog.log.directory_guard import NO_RESOURCES, NO_SPACE, PASSING
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from random import Random

    from tidelog.env.files import FileSystem
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.lifecycle.mover import PartitionMover
    from tidelog.manager.log_registry import LogRegistry

_log = logging.getLogger(__name__)

_SUFFIX: Final = ".move"
_CLAIMED_SUFFIX: Final = ".move-claimed"
"""Of a request that the service has accepted and not yet answered; it cannot be withdrawn."""
_REFUSED_SUFFIX: Final = ".move-refused"
_VERSION: Final = 1
"""Of a request's form. A request without one, as the first release wrote it, has this one."""
_NAME: Final = re.compile(r"tidelog\.[0-9a-f]{32}\.move(-claimed)?")


class MoveRequest(NamedTuple):
    """A partition that lies in the directory of this request, and the directory it goes to."""

    topic: str
    partition: int
    target: str


def ask(fs: FileSystem, rng: Random, data_dir: str, request: MoveRequest) -> str:
    """Leave a request for the service that holds ``data_dir``, durably; return its file."""
    path = os.path.join(data_dir, f"tidelog.{rng.getrandbits(128):032x}{_SUFFIX}")
    replace_file(fs, path, json.dumps({"version": _VERSION, **request._asdict()}).encode())
    return path


def is_waiting(fs: FileSystem, path: str) -> bool:
    """Say whether the service has not yet answered the request."""
    return fs.exists(path) or fs.exists(_sibling(path, _CLAIMED_SUFFIX))


def take_refusal(fs: FileSystem, path: str) -> str:
    """Return why the service refused a request, once; empty if it did not."""
    refused = _sibling(path, _REFUSED_SUFFIX)
    try:
        reason = read_small_file(fs, refused).decode()
    except FileNotFoundError:
        return ""
    fs.delete(refused)
    return reason


def withdraw(fs: FileSystem, path: str) -> bool:
    """Take a request back that nobody has taken; return whether that was in time."""
    try:
        fs.delete(path)
    except FileNotFoundError:
        return False
    return True


def _sibling(path: str, suffix: str) -> str:
    """Return the file of another state of a request."""
    return path.removesuffix(_CLAIMED_SUFFIX).removesuffix(_SUFFIX) + suffix


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the members of a request; of what is not one, none, which no request can have."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _key_of(request: MoveRequest) -> TopicPartition:
    """Return the partition of a request; raise TypeError for members of other types.

    A float or a bool equals some number, and would make the name of another directory.
    """
    if type(request.partition) is not int:
        raise TypeError(f"partition {request.partition!r} is not a number")
    if not (isinstance(request.topic, str) and isinstance(request.target, str)):
        raise TypeError("topic and target must be text")
    return TopicPartition(request.topic, request.partition)


class MoveRequests:
    """Answers the requests in the directories of a service."""

    def __init__(
        self, fs: FileSystem, log_dirs: LogDirs, registry: LogRegistry, mover: PartitionMover
    ) -> None:
        self._fs = fs
        self._log_dirs = log_dirs
        self._registry = registry
        self._mover = mover
        self._ignored: set[str] = set()
        """Requests of a newer release, or whose files cannot be read or answered."""

    def answer(self) -> None:
        """Begin the moves that were requested; a task of the service."""
        for log_dir in self._log_dirs:
            try:
                names = self._fs.list(log_dir.path)
            except OSError as error:
                if error.errno not in PASSING:
                    self._log_dirs.take_offline(log_dir.path, error)
                continue
            for name in names:
                path = os.path.join(log_dir.path, name)
                if _NAME.fullmatch(name) and path not in self._ignored:
                    self._answer_safely(path)

    def _answer_safely(self, path: str) -> None:
        """Answer one request; an error of its file says nothing about the disk.

        The next pass tries again after a full disk or a lack of descriptors, and after no other.
        """
        try:
            self._answer_one(path)
        except (OSError, KafkaStorageError) as error:
            if isinstance(error, OSError) and error.errno in NO_SPACE | NO_RESOURCES:
                _log.warning("move-request-delayed path=%s reason=%s", path, error)
                return
            _log.warning("move-request-ignored path=%s reason=%s", path, error)
            self._ignored.add(path)

    def _answer_one(self, path: str) -> None:
        """Begin one move, or write a file with the reason for refusing; then delete the request.

        It is renamed first: from then on nobody can withdraw it. One that an earlier process has
        renamed is answered as well.
        """
        claimed = _sibling(path, _CLAIMED_SUFFIX)
        try:
            content = _parsed(read_small_file(self._fs, path))
            version = content.get("version", _VERSION)
            if version != _VERSION:
                _log.warning("move-request-ignored path=%s reason=version %s", path, version)
                self._ignored.add(path)
                return
            if path != claimed:
                self._fs.rename(path, claimed)
        except FileNotFoundError:
            return  # withdrawn meanwhile
        try:
            content.pop("version", None)
            request = MoveRequest(**content)
            key = _key_of(request)
            if self._registry.current(key) is None:
                raise UnknownTopicOrPartition(f"{key} is not served here")
            self._mover.move(key, request.target)
        except (KafkaError, TypeError) as error:
            _log.warning("move-refused path=%s reason=%s", path, error)
            replace_file(self._fs, _sibling(path, _REFUSED_SUFFIX), str(error).encode())
        else:
            _log.info("move-begun topic=%s partition=%d to=%s", *request)
        with suppress(FileNotFoundError):
            self._fs.delete(claimed)
