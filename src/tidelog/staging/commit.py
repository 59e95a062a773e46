"""Committing staged files: their batches become records of their topics.

Every file is checked before the first byte is appended, and deleted after all is durable.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from tidelog.staging.staged_file import StagedReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.config.log_config import LogConfig
    from tidelog.env.files import FileSystem
    from tidelog.staging.staged_file import StagedFile


class StagedPartition(Protocol):
    """A partition that accepts the batches of staged files."""

    @property
    def config(self) -> LogConfig:
        """The settings in force."""

    def append_staged(self, staged: StagedReader) -> None:
        """Append all batches of a staged file."""


class StagedTarget(Protocol):
    """What a commit needs of the holder of a data directory."""

    def partition(self, topic: str, partition: int) -> StagedPartition:
        """Return one partition; raise UnknownTopicOrPartition where there is none."""

    def flush(self) -> None:
        """Make everything durable and visible to readers."""


def commit_staged(
    target: StagedTarget, fs: FileSystem, path: str, staged: Sequence[StagedFile]
) -> int:
    """Append the staged files of the directory ``path`` in their order; return the record count.

    At least once: a crash in between leaves the files, and a repeat appends them again.

    Raises:
        KafkaStorageError: a file is not what its writer finished, and nothing was appended; or
            the disk failed.
        MessageTooLarge: a batch is larger than its topic or one of its segments takes; nothing was
            appended.
        UnknownTopicOrPartition: it is for a partition that is not there.
    """
    for entry in staged:
        config = target.partition(entry.topic, entry.partition).config
        with StagedReader(fs, path, entry) as reader:
            reader.check(min(config.max_message_bytes, config.segment_size_bytes))
    for entry in staged:
        with StagedReader(fs, path, entry) as reader:
            target.partition(entry.topic, entry.partition).append_staged(reader)
    target.flush()
    for entry in staged:
        fs.delete(os.path.join(path, entry.name))
    return sum(entry.records for entry in staged)
