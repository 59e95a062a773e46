"""Runs: batches of one partition that lie together in a staged file, and their manifest entries.

A staged file holds the runs of one task, for any number of partitions, and nothing else. Its
batches have no offsets yet; ``placed_batches`` gives them those that a commit has decided. A copy
of another log is staged as it is, with offsets, epochs and producers: its offsets are fixed.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.codec.layout import byte_view
from tidelog.datadir.versioned_file import whole
from tidelog.errors import (
    InvalidArgument,
    InvalidRecord,
    InvalidTimestamp,
    KafkaStorageError,
    MessageTooLarge,
)
from tidelog.lazy import np
from tidelog.records.array_rows import as_bytes, every
from tidelog.records.batch import BATCH_HEADER, INT32_MAX, MAGIC_V2, NO_TIMESTAMP
from tidelog.records.damage.sound_offsets import GREATEST_OFFSET
from tidelog.records.decoding.unpacked import Unpacked
from tidelog.records.file_records import PIECE_BYTES, FileRecords
from tidelog.records.validation.record_rules import RecordRules, check_area
from tidelog.records.validation.rejection import ignore_rejections
from tidelog.records.validation.stamp import LEADER_EPOCH_AT, stamp_append_time, stamp_offsets
from tidelog.segment.filenames import check_topic_name
from tidelog.staging.staged_file import is_staged_name, open_staged

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from hashlib import blake2b

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem
    from tidelog.log.producers.producer_updates import ProducerUpdates
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece

_ANY_TIME = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class StagedRun:
    """The manifest entry of one run: bytes ``[position, position + size_bytes)`` of a staged file.

    ``digest`` is BLAKE2b (128 bits, hex) of the headers of its batches, which hold their CRCs, with
    zeros for base offsets and leader epochs, so it does not depend on what a commit assigns.
    ``max_timestamp`` is in ms, -1 if none. A run that keeps its offsets begins at ``first_offset``
    and ends below ``next_offset``; gaps may lie between, and its digest leaves nothing out. These
    are -1 for all other runs.
    Raises InvalidArgument for a name that is not a staged file's, and InvalidTopic: both become
    paths.
    """

    name: str
    topic: str
    partition: int
    position: int
    size_bytes: int
    records: int
    max_timestamp: int
    digest: str
    first_offset: int = -1
    next_offset: int = -1

    def __post_init__(self) -> None:
        if not is_staged_name(self.name):
            raise InvalidArgument(f"{self.name!r} is not the name of a staged file")
        check_topic_name(self.topic)
        is_range = min(self.partition, self.position) >= 0 and self.size_bytes >= 1
        # Compaction may have taken all records of a copied batch.
        if not is_range or self.records < (0 if self.keeps_offsets else 1):
            raise InvalidArgument(f"{self} is not a range of batches")
        are_unknown = self.first_offset == self.next_offset == -1
        if not are_unknown and not 0 <= self.first_offset < self.next_offset:
            raise InvalidArgument(f"{self} is not a range of offsets")

    @property
    def keeps_offsets(self) -> bool:
        """Whether a commit assigns nothing: neither offsets nor epochs nor append times."""
        return self.first_offset >= 0

    @property
    def end(self) -> int:
        """Byte after the run."""
        return self.position + self.size_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the entry as it is written into a journal."""
        return asdict(self)

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> StagedRun:
        """Read an entry; raise KeyError, TypeError, ValueError or InvalidTopic for another form."""
        numbers = {
            name: whole(entry[name], name, -1)
            for name in ("partition", "position", "size_bytes", "records", "max_timestamp")
        }
        for name in ("first_offset", "next_offset"):
            numbers[name] = whole(entry.get(name, -1), name, -1)
        texts = {name: _text(entry[name]) for name in ("name", "topic", "digest")}
        fields: dict[str, Any] = {**texts, **numbers}
        return cls(**fields)


class Placement(NamedTuple):
    """What a commit assigns to the batches of a run, from number ``first_batch`` on.

    ``append_time_ms`` is -1 unless the records get it as LogAppendTime.
    """

    first_batch: int
    base_offset: int
    leader_epoch: int
    append_time_ms: int


class RunLimits(NamedTuple):
    """What the settings of a topic demand of batches."""

    max_batch_bytes: int
    needs_keys: bool
    is_stamped: bool
    """Whether records get the time of the commit (LogAppendTime)."""
    producers: ProducerUpdates | None = None
    """Checks the producers of a run that keeps its offsets."""
    is_policy_known: bool = True
    """Whether the topic's ``cleanup.policy`` is known; else records need keys."""


class EpochRange(NamedTuple):
    """Leader epochs of the first and the last batch of a run."""

    first: int
    last: int


def update_digest(
    digest: blake2b, data: Buffer, batches: BatchColumns, *, keeps_offsets: bool
) -> None:
    """Add whole batches to a digest, by their headers, without what a commit assigns.

    The CRC in a header stands for what follows it: who compares digests must check the CRCs, too.
    Batches of magic 0 and 1, which no commit takes, are added whole.
    """
    content = as_bytes(byte_view(data))
    if not every(batches.magic == MAGIC_V2):
        digest.update(content.tobytes())
        return
    headers = content[batches.position[:, np.newaxis] + np.arange(BATCH_HEADER.size)]
    if not keeps_offsets:
        headers[:, :8] = 0
        headers[:, LEADER_EPOCH_AT : LEADER_EPOCH_AT + 4] = 0
    digest.update(headers.tobytes())


def check_run(fs: FileSystem, data_dir: str, run: StagedRun, limits: RunLimits) -> EpochRange:
    """Verify a run against its manifest entry, and its batches against the topic's settings.

    Returns the leader epochs that the batches have.

    Raises:
        KafkaStorageError: the file is missing, or the run differs from its manifest entry.
        MessageTooLarge: a batch is larger than the topic or one of its segments takes.
        InvalidRecord, InvalidTimestamp, InvalidTxnState: a batch cannot be committed; for one, the
            topic now needs keys.
    """
    digest = hashlib.blake2b(digest_size=16)
    records, offset = 0, run.first_offset
    epochs: list[int] = []
    with _open(fs, data_dir, run) as content:
        for piece in content.pieces(check_crc=True):
            batches = piece.batches_in_data
            data = piece.data[: batches.next_position]
            update_digest(digest, data, batches, keeps_offsets=run.keeps_offsets)
            records += int(batches.records_count.sum())
            epochs += batches.leader_epoch[[0, -1]].tolist()
            if run.keeps_offsets:
                offset = _check_copied(data, batches, limits, offset)
            else:
                _check_batches(batches, limits)
                _check_records(data, batches, limits)
        found = content.next_position, records, digest.hexdigest(), offset
    if found != (run.end, run.records, run.digest, run.next_offset):
        path = os.path.join(data_dir, run.name)
        raise KafkaStorageError(
            f"the run of {run.topic}-{run.partition} at byte {run.position} of staged file {path}"
            " does not match its manifest"
        )
    if run.next_offset - run.first_offset > INT32_MAX:
        raise InvalidRecord("the offsets of a staged run are too far apart for one segment")
    if run.keeps_offsets and epochs != sorted(epochs):
        raise InvalidRecord("the leader epochs of staged batches fall")
    return EpochRange(epochs[0], epochs[-1])


def _check_copied(data: Buffer, batches: BatchColumns, limits: RunLimits, next_offset: int) -> int:
    """Check batches that keep their offsets as a follower does; return the offset after them."""
    if not every(batches.magic == MAGIC_V2):
        raise InvalidRecord("a staged batch is of an old format")
    _check_sizes(batches, limits)
    first, last = batches.base_offset, batches.last_offset
    follows = np.concatenate(([next_offset], last[:-1] + 1))
    if not every((first >= follows) & (last >= first) & (last <= GREATEST_OFFSET)):
        raise InvalidRecord(f"the offsets of staged batches do not rise from {next_offset} on")
    if not every(batches.leader_epoch[1:] >= batches.leader_epoch[:-1]):
        raise InvalidRecord("the leader epochs of staged batches fall")
    if limits.producers is not None:
        limits.producers.add_all(data, batches)
    return int(last[-1]) + 1


def _check_sizes(batches: BatchColumns, limits: RunLimits) -> None:
    largest = int(batches.size.max())
    if largest > limits.max_batch_bytes:
        raise MessageTooLarge("a staged batch", largest, limits.max_batch_bytes)


def _check_batches(batches: BatchColumns, limits: RunLimits) -> None:
    spans = batches.last_offset - batches.base_offset + 1
    is_plain = ~(batches.is_control | batches.is_transactional) & (batches.producer_id < 0)
    if not every((batches.magic == MAGIC_V2) & (batches.records_count == spans) & is_plain):
        raise InvalidRecord("a staged batch is of an old format, of a producer, or lacks records")
    _check_sizes(batches, limits)
    if not limits.is_stamped and batches.is_log_append_time.any():
        raise InvalidTimestamp("a staged batch has an append time; the topic takes create times")


def _check_records(data: Buffer, batches: BatchColumns, limits: RunLimits) -> None:
    if limits.needs_keys:
        unpacked, areas = Unpacked(as_bytes(data), batches).areas()
        rules = RecordRules(True, *_ANY_TIME, False, ignore_rejections, limits.is_policy_known)
        for index in range(len(batches)):
            check_area(unpacked, np.ascontiguousarray(areas[:, index : index + 1]), rules)


def placed_batches(
    fs: FileSystem,
    data_dir: str,
    run: StagedRun,
    placement: Placement,
    piece_bytes: int = PIECE_BYTES,
) -> Generator[tuple[bytearray, BatchColumns], None, None]:
    """Yield batches of a run as a log holds them, some at a time, which the caller may keep.

    The same placement always makes the same bytes. Raises KafkaStorageError if the file is missing
    or damaged.
    """
    left_out, next_offset = placement.first_batch, placement.base_offset
    with _open(fs, data_dir, run) as content:
        for piece in content.pieces(min(piece_bytes, PIECE_BYTES)):
            count = len(piece.batches)
            if left_out >= count:
                left_out -= count
                continue
            data, batches = _from_batch(piece, left_out)
            left_out = 0
            if run.keeps_offsets:
                yield data, batches
                continue
            next_offset = stamp_offsets(data, batches, next_offset, placement.leader_epoch)
            if placement.append_time_ms != NO_TIMESTAMP:
                stamp_append_time(data, batches, placement.append_time_ms)
            yield data, batches
        if content.next_position != run.end:
            path = os.path.join(data_dir, run.name)
            raise KafkaStorageError(f"staged file {path} is damaged at {content.next_position}")


def _from_batch(piece: Piece, first: int) -> tuple[bytearray, BatchColumns]:
    """Return a copy of a piece from batch ``first`` on, with positions in the copy."""
    batches = piece.batches_in_data.slice(first)
    start, end = int(batches.position[0]), batches.next_position
    return bytearray(piece.data[start:end]), batches.shifted(-start)


@contextmanager
def _open(fs: FileSystem, data_dir: str, run: StagedRun) -> Iterator[FileRecords]:
    path = os.path.join(data_dir, run.name)
    with closing(open_staged(fs, path)) as file:
        yield FileRecords(file, run.position, min(run.end, file.size()))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
