"""Staged files become records of their topics.

Owns the order: every file checked before the first byte is appended, removed after all is durable.
Must not know who staged them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from tidelog.staging.staged_file import StagedReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.env.files import FileSystem
    from tidelog.manager.partition import Partition
    from tidelog.staging.staged_file import StagedFile


class StagedTarget(Protocol):
    """Where staged files go."""

    def partition(self, topic: str, partition: int) -> Partition:
        """Return one partition; UnknownTopicOrPartition where there is none."""

    def flush(self) -> None:
        """Make all durable, and let readers see it."""


def commit_staged(
    target: StagedTarget, fs: FileSystem, path: str, staged: Sequence[StagedFile]
) -> int:
    """Append the staged files of the directory ``path`` in their order; return the records.

    At least once: a crash in between leaves the files, and a repeat appends them again.

    Raises:
        KafkaStorageError: a file is not what its writer finished, and nothing was appended; or
            the disk failed.
        MessageTooLarge: a batch is larger than its topic or one of its segments takes; nothing was
            appended.
        UnknownTopicOrPartition: it is for a partition that is not there.
    """
    for entry in staged:
        config = target.partition(entry.topic, entry.partition).log.config
        with StagedReader(fs, path, entry) as reader:
            reader.check(min(config.max_message_bytes, config.segment_size_bytes))
    for entry in staged:
        with StagedReader(fs, path, entry) as reader:
            target.partition(entry.topic, entry.partition).append_staged(reader)
    target.flush()
    for entry in staged:
        fs.delete(os.path.join(path, entry.name))
    return sum(entry.records for entry in staged)
