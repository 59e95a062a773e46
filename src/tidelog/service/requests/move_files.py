"""Requests to move a partition as earlier releases leave them: ``tidelog.<random>.move``.

Their ``tidelog move`` may run beside a service of this release, or a service may find files that
its predecessor left. This release asks by a ``Request``.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tidelog.codec.checkpoint_file import read_small_file
from tidelog.errors import InvalidArgument, KafkaError, KafkaStorageError, UnknownTopicOrPartition
from tidelog.mailbox.letter import Letter, Names, State
from tidelog.segment.filenames import TopicPartition
from tidelog.service.requests.request_arguments import check_arguments

if TYPE_CHECKING:
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.service.mover import PartitionMover

_log = logging.getLogger(__name__)

_VERSION: Final = 1
"""Of a request's form. A request without one, as the first release wrote it, has this one."""
_MOVES: Final = Names(
    r"tidelog\.[0-9a-f]{32}",
    {State.WAITING: ".move", State.CLAIMED: ".move-claimed", State.ANSWERED: ".move-refused"},
    delayed="move-request-delayed path=%s reason=%s",
    ignored="move-request-ignored path=%s reason=%s",
)


@dataclass(frozen=True, slots=True)
class MoveFiles(Letter):
    """The files of one request."""

    names: ClassVar = _MOVES


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the members of a request; of what is not one, none, which no request can have."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _move_of(topic: Any, partition: Any, target: Any) -> tuple[TopicPartition, str]:  # noqa: ANN401 - whatever a file may hold
    """Return the partition of a request, which lies in its directory, and where it is to go.

    Raises InvalidArgument for members of other types.
    """
    check_arguments("move", {"partitions": {topic: [partition]}, "target": target})
    return TopicPartition(topic, partition), target


class MoveRequests:
    """Answers these requests, by ``answer``: only a refusal has an answer."""

    def __init__(self, registry: LogRegistry, mover: PartitionMover) -> None:
        self._registry = registry
        self._mover = mover

    def answer(self, files: MoveFiles, states: set[State]) -> None:
        """Begin one move, or write a file with the reason for refusing; then delete the request.

        It is renamed first: from then on nobody can withdraw it. One that an earlier process has
        renamed is answered as well.
        """
        state = State.CLAIMED if State.CLAIMED in states else State.WAITING
        if state not in states:
            return  # a refusal that was not read yet
        content = _parsed(read_small_file(files.fs, files.path(state)))
        version = content.pop("version", _VERSION)
        if version != _VERSION:
            raise KafkaStorageError(f"version {version}")
        if state is State.WAITING and not files.change(State.WAITING, State.CLAIMED):
            return  # withdrawn meanwhile
        try:
            key, target = _move_of(**content)
            if self._registry.current(key) is None:
                raise UnknownTopicOrPartition(f"{key} is not served here")
            self._mover.move(key, target)
        except (KafkaError, InvalidArgument, TypeError) as error:
            _log.warning("move-refused path=%s reason=%s", files.path(State.WAITING), error)
            files.answer(str(error).encode())
        else:
            _log.info("move-begun topic=%s partition=%d to=%s", *key, target)
            files.delete(State.CLAIMED)
