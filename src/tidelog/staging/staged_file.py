"""Staged files: batches, without offsets, that wait to be committed to one topic partition.

A staged file is a plain file in a data directory, which Kafka ignores. Each is written by a single
attempt of a single task.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument, KafkaStorageError, MessageTooLarge
from tidelog.records.file_records import PIECE_BYTES, FileRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random
    from typing import Self

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.records.file_records import Piece

STAGED_SUFFIX: Final = ".staged"
_NAME: Final = re.compile(r"tidelog\.[0-9a-f]{32}\.[0-9a-f]{32}\.staged")


def transaction_hash(txn: str) -> str:
    """Return the part of a staged file's name that identifies its transaction."""
    return hashlib.blake2b(txn.encode(), digest_size=16).hexdigest()


def staged_name(txn: str, rng: Random) -> str:
    """Return a new name for a staged file of ``txn``; 128 random bits make it unique."""
    return f"tidelog.{transaction_hash(txn)}.{rng.getrandbits(128):032x}{STAGED_SUFFIX}"


def is_staged_name(name: str) -> bool:
    """Return whether a file name is that of a staged file."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class StagedFile:
    """The manifest entry of one staged file.

    ``digest`` is BLAKE2b (128 bits, hex) of the file as staged, with base offsets counted from 0
    and leader epochs of -1, so it does not depend on the offsets assigned at commit.
    """

    name: str
    topic: str
    partition: int
    records: int
    size_bytes: int
    max_timestamp: int
    digest: str

    def __post_init__(self) -> None:
        if not is_staged_name(self.name):
            raise InvalidArgument(f"{self.name!r} is not the name of a staged file")


class StagedWriter:
    """Writes one staged file, which counts only once ``finish`` has returned its manifest entry.

    Used by one thread of one task attempt. ``abandon`` removes the file; after a crash the file
    remains, but no manifest names it.
    """

    def __init__(
        self,
        fs: FileSystem,
        data_dir: str,
        txn: str,
        *,
        topic: str,
        partition: int,
        rng: Random,
    ) -> None:
        self._fs = fs
        self._topic = topic
        self._partition = partition
        self._name = staged_name(txn, rng)
        self._path = os.path.join(data_dir, self._name)
        self._file: OpenFile = fs.open(self._path, "x")
        self._digest = hashlib.blake2b(digest_size=16)
        self._records = 0
        self._max_timestamp = -1
        self.size_bytes = 0

    def append(self, batches: Buffer, *, records: int, max_timestamp: int) -> None:
        """Append whole batches with ``records`` records; ``max_timestamp`` in ms, -1 if none."""
        view = byte_view(batches)
        self._file.pwrite(view, self.size_bytes)
        self._digest.update(view)
        self.size_bytes += len(view)
        self._records += records
        self._max_timestamp = max(self._max_timestamp, max_timestamp)

    def finish(self) -> StagedFile:
        """Make the file durable, close it and return its manifest entry."""
        self._file.sync()
        self._file.close()
        self._fs.sync_directory(os.path.dirname(self._path))
        return StagedFile(
            name=self._name,
            topic=self._topic,
            partition=self._partition,
            records=self._records,
            size_bytes=self.size_bytes,
            max_timestamp=self._max_timestamp,
            digest=self._digest.hexdigest(),
        )

    def abandon(self) -> None:
        """Close and remove the file."""
        self._file.close()
        self._fs.delete(self._path)


class StagedReader:
    """The content of one staged file, verified against its manifest entry before use.

    Raises:
        KafkaStorageError: the file does not exist.
    """

    def __init__(self, fs: FileSystem, data_dir: str, staged: StagedFile) -> None:
        self._staged = staged
        self._path = os.path.join(data_dir, staged.name)
        try:
            self._file = fs.open(self._path)
        except FileNotFoundError as error:
            raise KafkaStorageError(f"staged file {self._path} does not exist") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def check(self, max_batch_bytes: int) -> None:
        """Verify the file against its manifest entry, and its batches against the topic's limit.

        Raises:
            KafkaStorageError: the file differs from its manifest entry.
            MessageTooLarge: a batch is larger than ``max_batch_bytes``.
        """
        digest = hashlib.blake2b(digest_size=16)
        records, largest = 0, 0
        content = FileRecords(self._file)
        for piece in content.pieces():
            digest.update(byte_view(piece.data)[: _size_of(piece)])
            records += int(piece.batches.records_count.sum())
            largest = max(largest, int(piece.batches.size.max()))
        found = content.next_position, content.end, records, digest.hexdigest()
        staged = self._staged
        if found != (staged.size_bytes, staged.size_bytes, staged.records, staged.digest):
            raise KafkaStorageError(f"staged file {self._path} does not match its manifest")
        if largest > max_batch_bytes:
            raise MessageTooLarge("a staged batch", largest, max_batch_bytes)

    def whole_batches(self, piece_bytes: int) -> Iterator[bytearray]:
        """Yield all batches in pieces of whole batches, which the caller may keep; after ``check``.

        A piece is at most ``piece_bytes`` long, unless a single batch is larger.
        """
        for piece in FileRecords(self._file).pieces(min(piece_bytes, PIECE_BYTES)):
            yield bytearray(piece.data[: _size_of(piece)])


def _size_of(piece: Piece) -> int:
    """Return the size in bytes of a piece's batches, which start at its first byte."""
    return int(piece.batches_in_data.end[-1])


def list_staged(fs: FileSystem, data_dir: str, txn: str | None = None) -> list[str]:
    """Return the sorted names of the staged files of ``txn``, or of all transactions."""
    prefix = "tidelog." if txn is None else f"tidelog.{transaction_hash(txn)}."
    return sorted(
        name for name in fs.list(data_dir) if name.startswith(prefix) and is_staged_name(name)
    )
