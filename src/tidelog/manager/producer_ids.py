"""Ids of producers: which ones are in use, and blocks of new ones, reserved durably.

Kafka: ``ProducerIdManager``, whose controller reserves blocks in the metadata of the cluster.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.checkpoint_file import replace_file
from tidelog.codec.messages.message_reader import read_message, split_version
from tidelog.codec.messages.message_table import messages_of
from tidelog.datadir.versioned_file import read_versioned
from tidelog.errors import KafkaError, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

TRANSACTIONS_TOPIC: Final = "__transaction_state"
FILE_NAME: Final = "tidelog.producer-ids.json"
VERSION: Final = 1
BLOCK: Final = 1000
"""How many ids are reserved together. Source: Kafka ProducerIdsBlock."""
_GREATEST_COUNTED_ID: Final = 1 << 62
"""No cluster has assigned an id above it: the next one would soon be out of range."""
_LEAST_DRAWN_ID: Final = 1 << 40
"""Ids that are counted up from 0 do not come so far."""


def next_block(manager: LogManager) -> int:
    """Return the first id of the block after all that are reserved or in the logs; 0 without any.

    A broker that assigns the id of a producer in a log refuses the records of the new one. All
    logs are loaded.
    """
    fs = manager.machine.fs
    greatest = max((_reserved(fs, path) - 1 for path in manager.live_dirs), default=-1)
    for name in manager.topics():
        for partition in manager.partitions(name):
            ids = _in_log(partition.log, is_coordinators=name == TRANSACTIONS_TOPIC)
            greatest = max([greatest, *(one for one in ids if one < _GREATEST_COUNTED_ID)])
    return (greatest // BLOCK + 1) * BLOCK


class ProducerIds:
    """Hands out ids that no producer has had. One thread at a time uses it."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._next = self._end = -1

    @property
    def has_next(self) -> bool:
        """Whether ``next`` returns at once; else it writes to the disk first."""
        return self._next < self._end

    def next(self) -> int:
        """Return the next id; raise KafkaStorageError if a new block cannot be reserved."""
        if not self.has_next:
            self._reserve()
        found, self._next = self._next, self._next + 1
        return found

    def _reserve(self) -> None:
        """Reserve a block: durably, since ids that a crash gives out again would meet themselves.

        In each directory, as the next program may open them one by one.
        """
        fs = self._manager.machine.fs
        start = self._first_block() if self._end < 0 else self._end
        end = start + BLOCK
        for path in self._manager.live_dirs:
            file = os.path.join(path, FILE_NAME)
            content = {"version": VERSION, "next": end}
            try:
                replace_file(fs, file, json.dumps(content).encode())
            except OSError as error:
                raise KafkaStorageError(f"writing {file} failed: {error}") from error
        self._next, self._end = start, end

    def _first_block(self) -> int:
        """Return the first id of a block that nobody has had an id of.

        A directory that is offline may have been used without those that are here, so no file says
        which ids its logs have, nor does one about a log that cannot be read. Somewhere in a space
        of 62 bits their ids are not met when they come back.
        """
        manager = self._manager
        try:
            for path in manager.config.data_directories:
                manager.directory_id(path)  # raises where it is offline
            return next_block(manager)
        except KafkaError as error:
            blocks = range(_LEAST_DRAWN_ID // BLOCK, (_GREATEST_COUNTED_ID >> 1) // BLOCK)
            start = manager.machine.rng.choice(blocks) * BLOCK
            text = "producer-ids-drawn directory=%s start=%d reason=%s"
            _log.warning(text, ",".join(manager.live_dirs), start, error)
            return start


def _reserved(fs: FileSystem, data_dir: str) -> int:
    """Return the end (exclusive) of what a directory says is reserved; 0 if it says nothing."""

    def parse(content: Any) -> int:  # noqa: ANN401 - JSON
        end = content["next"]
        if not isinstance(end, int) or not 0 <= end <= _GREATEST_COUNTED_ID:
            raise ValueError(f"{end!r} is not the id of a producer")
        return end

    try:
        return read_versioned(fs, os.path.join(data_dir, FILE_NAME), VERSION, parse)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise KafkaStorageError(f"{data_dir}/{FILE_NAME} cannot be read: {error}") from error


def _in_log(log: Log, *, is_coordinators: bool) -> set[int]:
    found = set(log.active_producers())
    if is_coordinators:
        with log.watch("reading transactions"):
            found.update(_named_in(log))
    return found


def _named_in(log: Log) -> Iterable[int]:
    """Yield the ids that a partition of the transaction coordinator's topic names."""
    for record in log.records():
        if record.key is None or record.value is None:
            continue
        version, data = split_version(record.value)
        message = messages_of("transaction").get((0, version))
        if message is None:
            continue
        fields = read_message(message, data)
        names = ("producerId", "previousProducerId", "nextProducerId")
        yield from (fields[name] for name in names if name in fields)
