"""The description of a data directory from its files, beside a writer or without one.

Kafka: ``kafka-log-dirs.sh``, which asks a broker.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.datadir.log_dir_description import LogDirDescription, ReplicaInfo
from tidelog.datadir.partition_directories import find_copies
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.readonly.read_only_log import open_read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tidelog.readonly.directory_files import DirectoryFiles
    from tidelog.segment.filenames import TopicPartition


def describe_directory(
    part: DirectoryFiles,
    partitions: Iterable[TopicPartition],
    is_chosen: Callable[[str, int], bool],
) -> LogDirDescription:
    """Return sizes, lags and disk space.

    ``partitions`` are those of the directory; ``is_chosen``: whether one is described. What cannot
    be read makes it offline, as it would a manager.
    """
    fs, path = part.fs, part.path
    try:
        replicas = list(_replicas(part, partitions, is_chosen))
        return LogDirDescription.of(path, replicas, (fs.total_bytes(path), fs.free_bytes(path)))
    except (KafkaStorageError, OSError) as error:
        return LogDirDescription.offline(path, str(error))


def _replicas(
    part: DirectoryFiles,
    partitions: Iterable[TopicPartition],
    is_chosen: Callable[[str, int], bool],
) -> Iterator[ReplicaInfo]:
    ends: dict[tuple[str, int], int] = {}
    for key in (one for one in partitions if is_chosen(*one)):
        with suppress(UnknownTopicOrPartition), part.open(*key) as log:
            ends[key] = log.log_end_offset
            yield ReplicaInfo(*key, log.size_bytes, 0, is_future=False)
    for key, path in find_copies(part.fs, part.path):
        if not is_chosen(*key):
            continue
        # It may have taken the place of its log meanwhile.
        with suppress(UnknownTopicOrPartition), open_read_only(path, fs=part.fs) as log:
            known = ends.get(key)
            lag = None if known is None else max(known - log.log_end_offset, 0)
            yield ReplicaInfo(*key, log.size_bytes, lag, is_future=True)
