"""Staged files: batches that wait, without offsets, to be committed to one topic partition.

Owns the names of staged files, how one is written and how its content is checked. Must not know
logs, locks or who commits. A staged file is a plain file of a data directory, which Kafka ignores;
each is written by one attempt of one task only.
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
    """Return the part of a file name that says to which transaction a staged file belongs."""
    return hashlib.blake2b(txn.encode(), digest_size=16).hexdigest()


def staged_name(txn: str, rng: Random) -> str:
    """Return a new name for a staged file of ``txn``; 128 random bits keep attempts apart."""
    return f"tidelog.{transaction_hash(txn)}.{rng.getrandbits(128):032x}{STAGED_SUFFIX}"


def is_staged_name(name: str) -> bool:
    """Say whether a file name is one of a staged file."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class StagedFile:
    """What a manifest says of one staged file.

    ``digest`` is BLAKE2b (128 bits, hex) of the file as staged: base offsets counted from 0 and
    leader epochs -1, so that it does not depend on where the batches end up.
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
    """Writes one staged file; nothing counts until ``finish`` returned its manifest entry.

    Used by one thread of one task attempt. ``abandon`` removes the file; a writer that dies leaves
    a file that no manifest names.
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
        """Add whole batches: ``records`` in number, ``max_timestamp`` in ms (-1 none)."""
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
    """The content of one staged file, checked against its manifest entry before it is used.

    Raises:
        KafkaStorageError: there is no such file.
    """

    def __init__(self, fs: FileSystem, data_dir: str, staged: StagedFile) -> None:
        self._staged = staged
        self._path = os.path.join(data_dir, staged.name)
        try:
            self._file = fs.open(self._path)
        except FileNotFoundError as error:
            raise KafkaStorageError(f"the staged file {self._path} is gone") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def check(self, max_batch_bytes: int) -> None:
        """Compare the file with its manifest entry, and its batches with the topic's limit.

        Raises:
            KafkaStorageError: the file is not what its writer finished.
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
            raise KafkaStorageError(f"{self._path} is not the staged file its writer finished")
        if largest > max_batch_bytes:
            raise MessageTooLarge("a staged batch", largest, max_batch_bytes)

    def whole_batches(self, piece_bytes: int) -> Iterator[bytearray]:
        """Yield all batches, some whole ones at a time, to keep; for use after ``check``.

        No more than ``piece_bytes`` at a time, unless a single batch is larger.
        """
        for piece in FileRecords(self._file).pieces(min(piece_bytes, PIECE_BYTES)):
            yield bytearray(piece.data[: _size_of(piece)])


def _size_of(piece: Piece) -> int:
    """Return the bytes that the batches of a piece take; they begin at its first byte."""
    return int(piece.batches_in_data.end[-1])


def list_staged(fs: FileSystem, data_dir: str, txn: str | None = None) -> list[str]:
    """Return the names of the staged files of ``txn``, or of all transactions, in order."""
    prefix = "tidelog." if txn is None else f"tidelog.{transaction_hash(txn)}."
    return sorted(
        name for name in fs.list(data_dir) if name.startswith(prefix) and is_staged_name(name)
    )
