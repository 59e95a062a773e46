"""The topic id of a log, kept in ``partition.metadata``.

Kafka: ``PartitionMetadataFile`` and ``UnifiedLog.assignTopicId``.
"""

from __future__ import annotations

import os
import re
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import (
    parse_java_integer,
    read_small_file,
    replace_file,
    split_lines,
)
from tidelog.codec.uuid_text import ZERO_ID, format_uuid, parse_uuid
from tidelog.env.files import WRONG_KIND
from tidelog.errors import CorruptFile, InconsistentTopicId, InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.log.context import LogContext

PARTITION_METADATA_FILE: Final = "partition.metadata"
_METADATA_VERSION: Final = 0
_FIELD_SEPARATOR: Final = re.compile(r":[ \t\n\x0b\f\r]+")


class TopicIdFile:
    """The topic id of one log; written in background, but before the first record.

    ``_lock`` guards the id and its file.
    """

    def __init__(self, context: LogContext, given: UUID | None) -> None:
        self._context = context
        self._lock = Lock()
        self._is_dirty = False
        self.topic_id = read_partition_metadata(context.fs, self._path)
        if given is not None:
            self.assign(given)

    @property
    def _path(self) -> str:
        return self._context.path(PARTITION_METADATA_FILE)

    def assign(self, topic_id: UUID) -> None:
        """Give the log its topic id; raise InconsistentTopicId if it has another."""
        with self._lock:
            known = self.topic_id
            if known is not None and known != topic_id:
                raise InconsistentTopicId(
                    f"{self._context.directory} belongs to topic id {known}, not to {topic_id}"
                )
            if known is not None:
                return
            self.topic_id = topic_id
            self._is_dirty = True
        self._context.scheduler.schedule("flush-metadata-file", self.flush)

    def flush(self) -> None:
        """Write the id if that is still to be done; durable on return."""
        if not self._is_dirty:
            return
        with self._context.guard.watch("writing the topic id"), self._lock:
            if self._is_dirty and self.topic_id is not None:
                write_partition_metadata(self._context.fs, self._path, self.topic_id)
                self._is_dirty = False


def is_other_topic(found: UUID | None, known: UUID | None) -> bool:
    """Return whether a log with the id ``found`` is of another topic than the one with ``known``.

    Both have one name: such a log is what a deleted topic left on a disk that was away. None, for
    an id that is missing or cannot be read, differs from no id.

    Source: Kafka LogManager.isStrayKraftReplica.
    """
    return found is not None and known is not None and found != known


def topic_id_or_none(fs: FileSystem, directory: str) -> UUID | None:
    """Return the topic id in a partition's directory; None, too, where it cannot be read.

    What is wrong with the file is for ``tidelog verify``.
    """
    try:
        return read_partition_metadata(fs, os.path.join(directory, PARTITION_METADATA_FILE))
    except KafkaStorageError:
        return None


def read_partition_metadata(fs: FileSystem, path: str) -> UUID | None:
    """Return the topic id in ``partition.metadata``; None if the file does not exist.

    Raises:
        KafkaStorageError: the content is wrong, the id is zero, or this is not a regular file.

    Source: Kafka PartitionMetadataReadBuffer.
    """
    try:
        data = read_small_file(fs, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in WRONG_KIND:
            raise
        raise CorruptFile(f"{path} is not a regular file") from error
    try:
        lines = split_lines(data.decode())
        version = parse_java_integer(_field(lines, 0), bits=32)
        if version < _METADATA_VERSION:
            raise KafkaStorageError(f"{path} has unknown version {version}")
        topic_id = parse_uuid(_field(lines, 1))
    except ValueError as error:
        raise CorruptFile(f"{path} is malformed: {error}") from error
    if topic_id == ZERO_ID:
        raise CorruptFile(f"{path} holds the zero id, which is not a topic id")
    return topic_id


def write_partition_metadata(fs: FileSystem, path: str, topic_id: UUID) -> None:
    """Replace ``partition.metadata`` durably; InvalidArgument for the zero id."""
    if topic_id == ZERO_ID:
        raise InvalidArgument("the zero id is not a topic id")
    replace_file(fs, path, pack_partition_metadata(topic_id))


def pack_partition_metadata(topic_id: UUID) -> bytes:
    """Return the bytes of a ``partition.metadata``."""
    return f"version: {_METADATA_VERSION}\ntopic_id: {format_uuid(topic_id)}".encode()


def _field(lines: list[str], number: int) -> str:
    line = lines[number] if number < len(lines) else ""
    parts = _FIELD_SEPARATOR.split(line)
    if len(parts) != 2:
        raise InvalidArgument(f"unexpected line {number + 1}: {line[:80]!r}")
    return parts[1]
