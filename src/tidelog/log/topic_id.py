"""The topic id of a log, kept in ``partition.metadata``.

Kafka: ``PartitionMetadataFile`` and ``UnifiedLog.assignTopicId``.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from tidelog.codec.metadata_files import (
    PARTITION_METADATA_FILE,
    read_partition_metadata,
    write_partition_metadata,
)
from tidelog.errors import InconsistentTopicId

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.log.context import LogContext


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
