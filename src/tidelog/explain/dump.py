"""Decodes the files of a log and of a data directory, entry by entry, for ``tidelog dump``.

Nothing in a file is trusted: the entries of a damaged one are shown up to the damage, followed by
an error. Kafka: ``DumpLogSegments``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, read_checkpoint, read_leader_epochs
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import CATALOGUE_FILE, read_catalogue
from tidelog.datadir.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    read_clean_shutdown,
    read_meta_properties,
)
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES
from tidelog.errors import CorruptFile, CorruptIndex, InvalidArgument
from tidelog.log.producers.producer_snapshot import read_snapshot
from tidelog.log.topic_id import PARTITION_METADATA_FILE, read_partition_metadata
from tidelog.records.record import advance_sequence
from tidelog.segment.filenames import offset_from_file_name
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from tidelog.segment.index_file import read_index_file, read_whole_index
from tidelog.segment.txn_index import ABORTED_TXN
from tidelog.staging.staged_file import STAGED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.env.files import FileSystem

    Row = dict[str, Any]
    Reader = Callable[[FileSystem, str], Iterator[Row]]

_STATE_SUFFIX: Final = re.compile(r"\.(deleted|cleaned|swap|tmp)$")


def is_records_file(path: str) -> bool:
    """Return whether the file contains batches; .deleted, .cleaned and .swap do not matter."""
    return _plain_name(path).endswith((".log", ".checkpoint", STAGED_SUFFIX))


def dump_file(fs: FileSystem, path: str) -> Iterator[Row]:
    """Yield the entries of one file; files of batches are read by ``dump_log``.

    Raises:
        FileNotFoundError: the file does not exist.
        InvalidArgument: it is not a known file of a log or of a data directory.
        TidelogError: it is damaged; raised after the entries before the damage.
    """
    name = _plain_name(path)
    reader = _BY_NAME.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1])
    if reader is None:
        known = ", ".join([".log", *sorted(_BY_SUFFIX), *sorted(_BY_NAME)])
        raise InvalidArgument(f"{path} is not a file that can be dumped: {known}")
    if name not in _BY_NAME:
        offset_from_file_name(name)
    fs.stat(path)  # the readers below treat a missing file as an empty one
    return _entries_of(reader, fs, path)


def _entries_of(reader: Reader, fs: FileSystem, path: str) -> Iterator[Row]:
    try:
        yield from reader(fs, path)
    except InvalidArgument as error:
        # The user named the right file; what is in it is wrong.
        raise CorruptFile(str(error)) from error


def _plain_name(path: str) -> str:
    return _STATE_SUFFIX.sub("", os.path.basename(path))


def _entries(fs: FileSystem, path: str, entry: np.dtype[np.void]) -> list[tuple[int, int]]:
    """Return the entries of an index file up to the preallocated zeros, at least the first one.

    Source: Kafka DumpLogSegments.dumpIndex, which ends at a zero entry after the first one.
    """
    data, _ = read_index_file(fs, path)
    found = np.frombuffer(data, entry, count=len(data) // entry.itemsize)
    used = np.zeros(len(found), np.bool_)
    for name in found.dtype.names or ():
        used |= found[name] != 0
    unused = np.flatnonzero(~used[1:])
    entries: list[tuple[int, int]] = found[: unused[0] + 1 if len(unused) else None].tolist()
    return entries


def _check_whole(fs: FileSystem, path: str, entry_bytes: int) -> None:
    extra = fs.stat(path).size_bytes % entry_bytes
    if extra:
        raise CorruptIndex(
            f"{path} ends in {extra} bytes, less than an entry of {entry_bytes} bytes"
        )


def _offset_index(fs: FileSystem, path: str) -> Iterator[Row]:
    base_offset = offset_from_file_name(os.path.basename(path))
    for offset, position in _entries(fs, path, OFFSET_INDEX_ENTRY.dtype):
        yield {"offset": base_offset + offset, "position": position}
    _check_whole(fs, path, OFFSET_INDEX_ENTRY.size)


def _time_index(fs: FileSystem, path: str) -> Iterator[Row]:
    base_offset = offset_from_file_name(os.path.basename(path))
    for timestamp, offset in _entries(fs, path, TIME_INDEX_ENTRY.dtype):
        yield {"timestamp": timestamp, "offset": base_offset + offset}
    _check_whole(fs, path, TIME_INDEX_ENTRY.size)


def _txn_index(fs: FileSystem, path: str) -> Iterator[Row]:
    data = read_whole_index(fs, path)
    for at in range(0, len(data) - ABORTED_TXN.size + 1, ABORTED_TXN.size):
        entry = ABORTED_TXN.unpack(data, at)
        yield {
            "version": entry.version,
            "producerId": entry.producer_id,
            "firstOffset": entry.first_offset,
            "lastOffset": entry.last_offset,
            "lastStableOffset": entry.last_stable_offset,
        }
    _check_whole(fs, path, ABORTED_TXN.size)


def _snapshot(fs: FileSystem, path: str) -> Iterator[Row]:
    for entry in read_snapshot(fs, path):
        has_batch = entry.last_offset >= 0
        first_sequence = entry.last_sequence
        if has_batch and entry.last_sequence >= 0:
            first_sequence = advance_sequence(entry.last_sequence, -entry.offset_delta)
        open_since = entry.txn_first_offset
        yield {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": None if open_since < 0 else open_since,
            "lastTimestamp": entry.timestamp,
            "firstSequence": first_sequence,
            "lastSequence": entry.last_sequence,
            "lastOffset": entry.last_offset,
            "offsetDelta": entry.offset_delta,
            "timestamp": entry.timestamp,
        }


def _offset_checkpoint(fs: FileSystem, path: str) -> Iterator[Row]:
    for (topic, partition), offset in read_checkpoint(fs, path).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _leader_epochs(fs: FileSystem, path: str) -> Iterator[Row]:
    for epoch, start_offset in read_leader_epochs(fs, path):
        yield {"epoch": epoch, "startOffset": start_offset}


def _partition_metadata(fs: FileSystem, path: str) -> Iterator[Row]:
    topic_id = read_partition_metadata(fs, path)
    yield {"topicId": None if topic_id is None else format_uuid(topic_id)}


def _meta_properties(fs: FileSystem, path: str) -> Iterator[Row]:
    found = read_meta_properties(fs, path)
    if found is not None:
        directory_id = found.directory_id
        yield {
            "version": found.version,
            "clusterId": found.cluster_id,
            "nodeId": found.node_id,
            "directoryId": None if directory_id is None else format_uuid(directory_id),
            **found.other,
        }


def _clean_shutdown(fs: FileSystem, path: str) -> Iterator[Row]:
    found = read_clean_shutdown(fs, path)
    if found is not None:
        yield {"brokerEpoch": found.broker_epoch}


def _catalogue(fs: FileSystem, path: str) -> Iterator[Row]:
    catalogue = read_catalogue(fs, os.path.dirname(path))
    for name, topic in sorted(catalogue.topics.items()):
        yield {
            "topic": name,
            "topicId": format_uuid(topic.topic_id),
            "partitions": {
                number: format_uuid(home) for number, home in sorted(topic.partitions.items())
            },
            "config": dict(sorted(topic.config.items())),
            "revision": topic.revision,
        }
    for topic_id in sorted(map(format_uuid, catalogue.deleted)):
        yield {"deletedTopicId": topic_id}


_BY_SUFFIX: Final[dict[str, Reader]] = {
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _txn_index,
    ".snapshot": _snapshot,
}
_BY_NAME: Final[dict[str, Reader]] = {
    LEADER_EPOCH_FILE: _leader_epochs,
    **dict.fromkeys(CHECKPOINT_FILES, _offset_checkpoint),
    PARTITION_METADATA_FILE: _partition_metadata,
    META_PROPERTIES_FILE: _meta_properties,
    CLEAN_SHUTDOWN_FILE: _clean_shutdown,
    CATALOGUE_FILE: _catalogue,
}
