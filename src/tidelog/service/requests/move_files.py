"""Requests to move a partition as earlier releases leave them: ``tidelog.<random>.move``.

Their ``tidelog move`` may run beside a service of this release, or a service may find files that
its predecessor left. This release asks by ``request_files``.
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
from tidelog.log.directory_guard import NO_RESOURCES, NO_SPACE
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.service.mover import PartitionMover

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

    def __init__(self, fs: FileSystem, registry: LogRegistry, mover: PartitionMover) -> None:
        self._fs = fs
        self._registry = registry
        self._mover = mover
        self._ignored: set[str] = set()
        """Requests of a newer release, or whose files cannot be read or answered."""

    def look(self, data_dir: str, names: Iterable[str]) -> None:
        """Begin the moves that the files among ``names`` request."""
        for name in names:
            if _NAME.fullmatch(name) is None:
                continue
            path = os.path.join(data_dir, name)
            if path not in self._ignored:
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
