"""The entries of a data directory that a rescue leaves out, and why.

Partitions, and files that each directory has for itself, are not among them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.archive.claim_file import claim_or_copy, claims_among
from tidelog.datadir.catalogue import CATALOGUE_FILE, METADATA_TOPIC
from tidelog.datadir.cluster_metadata.bootstrap import BOOTSTRAP_FILE
from tidelog.datadir.least_epoch import LEAST_EPOCH_FILE
from tidelog.datadir.lock_file import LOCK_FILE
from tidelog.datadir.metadata_files import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES
from tidelog.datadir.partition_directories import is_directory, log_bytes, partition_of
from tidelog.errors import KafkaStorageError
from tidelog.log.loading.cut_files import is_cut_name
from tidelog.manager.directories.log_dir import FAILED_DISK_FILE
from tidelog.manager.rescue.namesakes import why_apart
from tidelog.manager.rescue.rescued_partition import LeftOut
from tidelog.segment.filenames import (
    REMOTE_INDEX_CACHE,
    is_delete_directory,
    is_future_directory,
    is_stray_directory,
    log_offsets,
)
from tidelog.staging.journal_names import is_journal_name
from tidelog.staging.staged_file import is_staged_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from uuid import UUID

    from tidelog.manager.rescue.failing_files import FailingFiles
    from tidelog.readonly.directory_files import DirectoryFiles
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory

_OWN: Final = {
    LOCK_FILE,
    META_PROPERTIES_FILE,
    CLEAN_SHUTDOWN_FILE,
    CATALOGUE_FILE,
    LEAST_EPOCH_FILE,
    FAILED_DISK_FILE,
    *CHECKPOINT_FILES,
}
_OF_CLUSTER: Final = "metadata of the cluster, which `tidelog to-kafka` writes again"
_OURS: Final = "tidelog."
_AWAY: Final = "it is a link to nothing, as to a partition on a disk that is not mounted"


def left_out_entries(
    source: ReadOnlyDirectory, disk: FailingFiles, reported: Container[str]
) -> list[LeftOut]:
    """Return what the directories hold beside partitions, in order of names.

    ``reported``: paths that are in the report of a partition already.
    """
    found = []
    if source.catalogue_error is not None:
        reason = (
            "the list of topics: partitions whose directories are gone are not named, and settings"
            f" are unknown, so records are kept for ever: {source.catalogue_error}"
        )
        found.append(LeftOut(source.name, None, 0, 0, None, None, reason, is_loss=True))
    topics = {one.topic_id: one.name for one in source.topics.values()}
    for part in source.parts:
        found += _of_part(source, disk, part, reported, topics)
    return found


def _of_part(
    source: ReadOnlyDirectory,
    disk: FailingFiles,
    part: DirectoryFiles,
    reported: Container[str],
    topics: Mapping[UUID | None, str],
) -> Iterator[LeftOut]:
    foreign = source.foreign(part)
    strays = {one.path: one for one in source.strays() if one.part is part}
    here = {os.path.basename(part.partition_path(*key)) for key in source.partitions_in(part)}
    for name in sorted(source.fs.list(part.path)):
        path = os.path.join(part.path, name)
        if name in _OWN or name in here or is_cut_name(name):
            continue
        is_tree = is_directory(source.fs, path)
        if not is_tree and partition_of(name) is not None and source.fs.is_link(path):
            yield LeftOut(path, None, 0, 0, None, None, _AWAY, is_loss=True)
            continue
        if path in reported:
            continue
        what = _directory(name, foreign) if is_tree else _file(name)
        if path in strays:
            what = why_apart(strays[path]), True
        if what is None:
            continue
        reason, may_be_data = what
        may_be_data &= not claims_among([name]) or _begins_in_archive(source, part, name, topics)
        size_bytes = _size(source, path, is_tree=is_tree)
        is_loss = may_be_data and size_bytes > 0 and not _is_copied(source, path)
        if may_be_data and path in disk.unlisted:  # nobody has seen what is in it
            reason, is_loss = disk.unlisted[path], True
        yield LeftOut(path, None, size_bytes, 0, None, None, reason, is_loss)


def _directory(name: str, foreign: Mapping[str, str]) -> tuple[str, bool] | None:
    """Return why a directory is left out, and whether it may hold records that are missing."""
    if is_delete_directory(name):
        return "its topic was deleted, and it only waited for its removal", False
    if name == REMOTE_INDEX_CACHE:
        return "a cache of what remote storage has", False
    if name.startswith(f"{METADATA_TOPIC}-"):
        return _OF_CLUSTER, False
    if is_future_directory(name):
        return "a copy of a partition that a move had not finished", True
    if is_stray_directory(name):
        return "no topic was known to have it: rename it to <topic>-<partition>", True
    reason = foreign.get(name)
    if reason is None:
        return "its topic was deleted, or another directory holds the partition", False
    return reason, True


def _file(name: str) -> tuple[str, bool] | None:
    """Return why a file is left out; None for one that says nothing about records."""
    if name == BOOTSTRAP_FILE:
        return _OF_CLUSTER, False
    if claims_among([name]):
        return "closed segments of its log are in an archive: see `tidelog restore`", True
    if is_journal_name(name):
        return "a transaction was committed and not applied: open the directory to apply it", True
    if is_staged_name(name):
        return "records of a transaction that may not be committed; see `tidelog staged`", True
    return None if name.startswith(_OURS) else ("nothing is known about such a file", False)


def _begins_in_archive(
    source: ReadOnlyDirectory, part: DirectoryFiles, name: str, topics: Mapping[UUID | None, str]
) -> bool:
    """Return whether the archive of a claim file has records of the log that the disk lacks.

    ``topics``: their names by id.
    """
    ((topic_id, number),) = claims_among([name])
    try:
        archive = claim_or_copy(source.fs, os.path.join(part.path, name)).archive
        topic = topics.get(topic_id)
        if archive is None or topic is None:
            return archive is not None
        bases = log_offsets(source.fs.list(part.partition_path(topic, number)))
    except (KafkaStorageError, FileNotFoundError):
        return True
    return not bases or min(bases) > archive.start


def _is_copied(source: ReadOnlyDirectory, path: str) -> bool:
    """Return whether a link leads to the directory of a partition that is copied."""
    fs = source.fs
    if not fs.is_link(path):
        return False
    paths = (
        part.partition_path(*key) for part in source.parts for key in source.partitions_in(part)
    )
    return fs.real_path(path) in map(fs.real_path, paths)


def _size(source: ReadOnlyDirectory, path: str, *, is_tree: bool) -> int:
    try:
        return log_bytes(source.fs, path) if is_tree else source.fs.stat(path).size_bytes
    except (KafkaStorageError, FileNotFoundError):
        return 0
