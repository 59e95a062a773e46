"""What a data directory's ``__cluster_metadata-0`` holds, read without changing anything.

The newest complete snapshot is read, then the records after it. Kafka: ``MetadataLoader``,
``RecordsSnapshotReader``.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.checkpoint_file import read_small_file
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
from tidelog.datadir.cluster_metadata.metadata_image import MetadataImage
from tidelog.datadir.cluster_metadata.metadata_records import (
    FRAME_VERSION,
    KNOWN_TYPES,
    unpack_frame,
    unpack_metadata_record,
)
from tidelog.datadir.metadata_files import known_meta_properties
from tidelog.datadir.partition_directories import is_directory
from tidelog.errors import CorruptFile, InvalidArgument, KafkaError, KafkaStorageError
from tidelog.lazy import np
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.control import ControlType, control_type
from tidelog.records.decoding.record_columns import decode_groups
from tidelog.records.file_records import FileRecords
from tidelog.records.kraft import parse_kraft
from tidelog.segment.filenames import LOG_SUFFIX, parse_segment_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_files import ReadFiles
    from tidelog.records.array_rows import Bools
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.file_records import Piece
    from tidelog.records.record import Record

_log = logging.getLogger(__name__)

METADATA_PARTITION: Final = f"{METADATA_TOPIC}-0"
METADATA_LOG_DIR: Final = "metadata.log.dir"
QUORUM_STATE_FILE: Final = "quorum-state"

MAX_BATCH_BYTES: Final = 64 << 20
"""The largest batch of metadata that is read; no memory is taken for more.

Controllers write at most 8 MiB. Source: Kafka KafkaRaftClient.MAX_BATCH_SIZE_BYTES.
"""

_SNAPSHOT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_VOTERS: Final = (ControlType.LEADER_CHANGE, ControlType.KRAFT_VOTERS)


@dataclass
class ClusterMetadata:
    """What the metadata of a cluster holds.

    ``snapshot_end`` is the end (exclusive) of what the snapshot covers, 0 without one; ``end`` that
    of the records read. ``voters`` is the number of controllers that vote, None if no record names
    them.
    """

    image: MetadataImage = field(default_factory=MetadataImage)
    snapshot_end: int = 0
    end: int = 0
    voters: int | None = None
    controls: list[ControlType] = field(default_factory=list)
    """The types of a snapshot's control records, in order."""

    def committed_to(self, topic_ids: Collection[UUID]) -> int | None:
        """Return the end of what is known to be committed; None: all of it.

        A quorum of one voter commits what it writes. Of a larger one the files do not say how far
        it came, but a snapshot holds committed records only, and so does what lies before the
        creation of a topic that has a directory; ``topic_ids`` are those.
        """
        if self.voters == 1:
            return None
        return max(self.snapshot_end, self.image.proven_end(topic_ids))


def read_cluster_metadata(data_dir: str, *, fs: FileSystem) -> ClusterMetadata | None:
    """Read the metadata in a data directory; None if it has none.

    Raises KafkaStorageError: the metadata is damaged or incomplete, or the disk failed; nothing of
    it can be used.
    """
    files = reading(fs)
    path = _metadata_path(data_dir)
    if not is_directory(files, path):
        return None
    try:
        found = _newest_snapshot(files, path)
        _read_log(files, path, found)
        if found.voters is None:
            found.voters = _voters_in_quorum_state(files, path)
    except FileNotFoundError as error:
        raise KafkaStorageError(f"{error.filename or path} was deleted while it was read") from None
    except KafkaStorageError:
        raise
    except (KafkaError, InvalidArgument) as error:
        raise CorruptFile(f"{path} cannot be read: {error}") from error
    return found


def find_broker_settings(
    data_dirs: Iterable[str],
    *,
    fs: FileSystem,
    topic_ids: Collection[UUID],
    server_properties: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Return the settings that the brokers of some data directories used.

    Without metadata in any of them, that in ``metadata.log.dir`` of ``server_properties`` is read,
    if it is of the same cluster. What cannot be read is logged, and the settings of topics are then
    unknown. So they are where several directories have metadata, since one of them must be a copy.
    """
    files = reading(fs)
    found: list[tuple[str, ClusterMetadata]] = []
    for data_dir in _with_metadata(files, list(data_dirs), server_properties or {}):
        try:
            metadata = read_cluster_metadata(data_dir, fs=files)
        except KafkaStorageError as error:
            _log.warning("cluster-metadata-unusable directory=%s reason=%s", data_dir, error)
            return BrokerSettings(static=server_properties)
        if metadata is not None:
            found.append((data_dir, metadata))
    if len(found) > 1:
        paths = ", ".join(path for path, _ in found)
        reason = f"several directories hold {METADATA_PARTITION}: {paths}"
        _log.warning("cluster-metadata-unusable directory=%s reason=%s", found[0][0], reason)
    if len(found) != 1:
        return BrokerSettings(static=server_properties)
    data_dir, metadata = found[0]
    return BrokerSettings(
        metadata.image,
        _node_id(files, data_dir),
        metadata.committed_to(topic_ids),
        server_properties,
    )


def _with_metadata(
    fs: ReadFiles, data_dirs: list[str], server_properties: Mapping[str, str]
) -> list[str]:
    """Return the directories to look in: those given, or that of the broker's metadata."""
    apart = server_properties.get(METADATA_LOG_DIR, "").strip()
    if not apart or any(is_directory(fs, _metadata_path(one)) for one in data_dirs):
        return data_dirs
    reason = f"{METADATA_LOG_DIR} holds no {METADATA_PARTITION}"
    if is_directory(fs, _metadata_path(apart)):
        theirs = known_meta_properties(fs, apart)
        ours = [
            meta
            for meta in (known_meta_properties(fs, one) for one in data_dirs)
            if meta is not None
        ]
        if theirs is not None and all(meta.cluster_id == theirs.cluster_id for meta in ours):
            return [apart]
        reason = f"{METADATA_LOG_DIR} is that of another cluster"
    _log.warning("cluster-metadata-unusable directory=%s reason=%s", apart, reason)
    return data_dirs


def _metadata_path(data_dir: str) -> str:
    return os.path.join(data_dir, METADATA_PARTITION)


def _node_id(fs: ReadFiles, data_dir: str) -> int | None:
    meta = known_meta_properties(fs, data_dir)
    return None if meta is None else meta.node_id


def _newest_snapshot(fs: ReadFiles, path: str) -> ClusterMetadata:
    """Read the newest snapshot that is complete; start from nothing if there is none."""
    names = sorted((name for name in fs.list(path) if _SNAPSHOT.fullmatch(name)), reverse=True)
    for name in names:
        try:
            return _read_snapshot(fs, os.path.join(path, name), int(name[:20]))
        except KafkaStorageError:
            raise
        except (KafkaError, InvalidArgument) as error:
            _log.warning("metadata-snapshot-skipped path=%s/%s reason=%s", path, name, error)
    return ClusterMetadata()


def _read_snapshot(fs: ReadFiles, path: str, end_offset: int) -> ClusterMetadata:
    found = ClusterMetadata(snapshot_end=end_offset, end=end_offset)
    with FileRecords.open(fs, path) as records:
        for piece in records.pieces(check_crc=True, max_batch_bytes=MAX_BATCH_BYTES):
            _apply_piece(found, piece, 0, is_snapshot=True)
        if records.error is not None:
            raise records.error
        if records.trailing_bytes:
            raise InvalidArgument(f"{path} ends in an incomplete batch")
    is_whole = found.controls[-1:] == [ControlType.SNAPSHOT_FOOTER]
    if not is_whole or found.controls[0] is not ControlType.SNAPSHOT_HEADER:
        raise InvalidArgument(f"{path} has no header or no footer")
    return found


def read_bootstrap_types(path: str, *, fs: FileSystem) -> set[int]:
    """Return the types, by number, of the records in a ``bootstrap.checkpoint``.

    Raises KafkaStorageError if it is damaged or ends in an incomplete batch: what it holds is then
    not known.
    """
    types: set[int] = set()
    try:
        with FileRecords.open(reading(fs), path) as records:
            for piece in records.pieces(check_crc=True, max_batch_bytes=MAX_BATCH_BYTES):
                groups = decode_groups(piece.data, piece.batches_in_data, limit=MAX_BATCH_BYTES)
                for group in groups:
                    data = group.select(~group.is_control)
                    types.update(unpack_frame(record.value).number for record in data.records())
            records.check_complete()
    except KafkaStorageError:
        raise
    except KafkaError as error:
        raise CorruptFile(f"{path} cannot be read: {error}") from error
    return types


def _read_log(fs: ReadFiles, path: str, found: ClusterMetadata) -> None:
    """Apply the records after the snapshot; all of them must be there."""
    _check_batch_sizes(fs, path)
    with open_read_only(path, fs=fs) as log:
        if log.damage is not None:
            raise log.damage
        start, end = found.snapshot_end, log.log_end_offset
        if log.segments and start < log.log_start_offset:
            raise CorruptFile(
                f"{path} begins at offset {log.log_start_offset}, and no complete snapshot covers"
                f" the records from {start} on"
            )
        if start >= end:
            return
        next_offset = start
        for piece in log.pieces(start, end):
            for base, last in _bounds(piece):
                if base > next_offset:
                    raise CorruptFile(f"{path} lacks the records from offset {next_offset} on")
                next_offset = last + 1
            _apply_piece(found, piece, start, is_snapshot=False)
        found.end = end


def _check_batch_sizes(fs: ReadFiles, path: str) -> None:
    """Raise CorruptMessage if a segment has a batch larger than any that a controller writes."""
    for name in fs.list(path):
        found = parse_segment_file(name)
        if found is None or found.kind != LOG_SUFFIX:
            continue
        with FileRecords.open(fs, os.path.join(path, name)) as records:
            for _ in records.pieces(max_batch_bytes=MAX_BATCH_BYTES):
                pass
            if records.is_oversized and records.error is not None:
                raise records.error


def _bounds(piece: Piece) -> Iterator[tuple[int, int]]:
    batches = piece.batches
    return zip(batches.base_offset.tolist(), batches.last_offset.tolist(), strict=True)


def _apply_piece(found: ClusterMetadata, piece: Piece, start: int, *, is_snapshot: bool) -> None:
    """Apply the records of some batches whose offsets are ``start`` or above."""
    for group in decode_groups(piece.data, piece.batches_in_data, limit=MAX_BATCH_BYTES):
        ends = (group.batches.last_offset + 1).tolist()
        chosen = group.select((group.offset >= start) & _may_matter(group))
        batches, is_control = chosen.batch.tolist(), chosen.is_control.tolist()
        for record, batch, control in zip(chosen.records(), batches, is_control, strict=True):
            if control:
                _apply_control(found, record)
                continue
            unpacked = unpack_metadata_record(record.value)
            if unpacked is not None:
                found.image.apply(unpacked, 0 if is_snapshot else ends[batch])


def _may_matter(group: RecordColumns) -> Bools:
    """Return which records may be of a type that is read, by their first bytes.

    Most records of a busy cluster are of other types, and are not looked at one by one.
    """
    first = np.minimum(group.value_at, len(group.data) - 2)
    types = group.data[first + 1]
    is_usual = (group.value_size >= 3) & (group.data[first] == FRAME_VERSION) & (types < 0x80)
    is_known = np.isin(types, KNOWN_TYPES)
    matters: Bools = group.is_control | ~is_usual | is_known
    return matters


def _apply_control(found: ClusterMetadata, record: Record) -> None:
    kind = control_type(record.key)
    if kind in _VOTERS:
        found.voters = len(parse_kraft(kind, record.value)["voters"])
    found.controls.append(kind)


def _voters_in_quorum_state(fs: ReadFiles, path: str) -> int | None:
    try:
        content: Any = json.loads(read_small_file(fs, os.path.join(path, QUORUM_STATE_FILE)))
    except (FileNotFoundError, CorruptFile, ValueError, RecursionError):
        return None
    voters = content.get("currentVoters") if isinstance(content, dict) else None
    return len(voters) if isinstance(voters, list) else None
