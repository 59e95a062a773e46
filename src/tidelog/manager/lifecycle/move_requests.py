"""Moves that another process asks a running service for, by a file in a data directory.

Owns the files and their answers. Must not know how a partition moves. Kafka: the request
AlterReplicaLogDirs, which ``kafka-reassign-partitions`` sends.
"""

from __future__ import annotations

import json
import logging
import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.checkpoint_file import replace_file
from tidelog.errors import KafkaError, UnknownTopicOrPartition
from tidelog.manager.lifecycle import moving
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from random import Random

    from tidelog.env.files import FileSystem
    from tidelog.manager.parts import Parts

_log = logging.getLogger(__name__)

_SUFFIX: Final = ".move"
_REFUSED_SUFFIX: Final = ".move-refused"
_NAME: Final = re.compile(r"tidelog\.[0-9a-f]{32}\.move")


class MoveRequest(NamedTuple):
    """A partition that lies in the directory of this request, and the directory it goes to."""

    topic: str
    partition: int
    target: str


def ask(fs: FileSystem, rng: Random, data_dir: str, request: MoveRequest) -> str:
    """Leave a request for the service that holds ``data_dir``, durably; return its file."""
    path = os.path.join(data_dir, f"tidelog.{rng.getrandbits(128):032x}{_SUFFIX}")
    replace_file(fs, path, json.dumps(request._asdict()).encode())
    return path


def is_waiting(fs: FileSystem, path: str) -> bool:
    """Say whether the service has not yet taken the request."""
    return fs.exists(path)


def take_refusal(fs: FileSystem, path: str) -> str:
    """Return why the service refused a request, once; empty if it did not."""
    refused = path.removesuffix(_SUFFIX) + _REFUSED_SUFFIX
    try:
        reason = fs.read(refused).decode()
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


def answer(parts: Parts) -> None:
    """Begin the moves that were asked for; a task of the service."""
    fs = parts.machine.fs
    for home in parts.dirs:
        try:
            for name in fs.list(home.path):
                if _NAME.fullmatch(name):
                    _answer_one(parts, os.path.join(home.path, name))
        except OSError as error:
            parts.dirs.take_offline(home.path, error)


def _answer_one(parts: Parts, path: str) -> None:
    """Begin one move, or leave a file that says why not; the request goes last."""
    fs = parts.machine.fs
    try:
        request = MoveRequest(**json.loads(fs.read(path)))
        key = TopicPartition(request.topic, request.partition)
        if parts.logs.current(key) is None:
            raise UnknownTopicOrPartition(f"{key.topic}-{key.partition} is not served here")
        moving.move(parts, key, request.target)
    except (KafkaError, TypeError, ValueError) as error:
        _log.warning("move-refused path=%s reason=%s", path, error)
        replace_file(fs, path.removesuffix(_SUFFIX) + _REFUSED_SUFFIX, str(error).encode())
    else:
        _log.info("move-begun topic=%s partition=%d to=%s", *request)
    fs.delete(path)
