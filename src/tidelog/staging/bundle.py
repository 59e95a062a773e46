"""Writing the batches of one task, for any number of partitions, into staged files.

Batches are gathered by partition first, so that one file holds few and long runs. A partition that
gets much data gets files of its own, which its log can adopt as segments.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.codec.layout import byte_view
from tidelog.datadir.renamed_files import delete_if_there
from tidelog.env.pooled_file import PooledFile
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.records.memory import walk
from tidelog.staging.adopting import adopted_from
from tidelog.staging.staged_file import new_attempt, staged_name
from tidelog.staging.staged_run import StagedRun, update_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem
    from tidelog.records.batch_columns import BatchColumns

BUFFER_BYTES: Final = 64 << 20
"""Bytes of batches to gather before they are written as runs."""
_MUCH_BYTES: Final = 2 << 20
_MUCH_SHARE: Final = 8
"""A partition with at least this share of a full buffer, and that many bytes, is likely to get more
than a log adopts: it gets a file of its own at once."""
WRITEBACK_BYTES: Final = 8 << 20
"""Bytes of a file after which the disk begins to write them, while the task prepares the next."""
WRITE_BYTES: Final = 256 << 10
"""Bytes of a partition that are written at a time: the copy of fewer costs less than a write."""


class BundleWriter:
    """Writes staged files, whose runs count only once ``finish`` has returned them.

    Used by one thread of one task attempt. Small data makes one file, whatever the number of
    partitions, and one sync. Once a partition has as much as a log adopts, or much of a full
    buffer, what is not written yet goes to files of its own, of at most ``segment.bytes``. Files
    are made, exclusively, by the first write. ``abandon`` removes them; after a crash they remain,
    but no journal names them. Their names are not durable before the commit, which syncs the
    directory.

    A write that fails, or is interrupted, leaves a gap, so it is the end of all that was staged:
    the files are removed, and each later use but ``abandon`` raises KafkaStorageError.

    Args:
        fs: the file system.
        data_dir: the data directory of the transaction.
        txn: its id.
        rng: makes the names unique.
        buffer_bytes: how many bytes of batches to gather before they are written.
        keeps_offsets: the batches are copies, with offsets, epochs and producers, which stay.
        attempt: of the job that this task belongs to; None: the writer is an attempt of its own.
    """

    def __init__(
        self,
        fs: FileSystem,
        data_dir: str,
        txn: str,
        *,
        rng: Random,
        buffer_bytes: int = BUFFER_BYTES,
        keeps_offsets: bool = False,
        attempt: str | None = None,
    ) -> None:
        self.attempt: Final = new_attempt(rng) if attempt is None else attempt
        self._fs = fs
        self._data_dir = data_dir
        self._txn = txn
        self._rng = rng
        self._buffer_bytes = buffer_bytes
        self._keeps_offsets = keeps_offsets
        self._gathered: dict[tuple[str, int], list[memoryview]] = {}
        self._gathered_bytes = 0
        self._total_bytes: dict[tuple[str, int], int] = {}
        self._segment_bytes: dict[tuple[str, int], int] = {}
        self._bundle: _NewFile | None = None
        self._own: dict[tuple[str, int], _Run] = {}
        self._files: list[_NewFile] = []
        self._runs: list[StagedRun] = []
        self._failure: BaseException | None = None

    def append(
        self, topic: str, partition: int, batches: Buffer, *, segment_bytes: int | None = None
    ) -> None:
        """Append whole batches of magic 2, which the writer keeps.

        ``segment_bytes`` is the topic's ``segment.bytes``; None: no file of its own.

        Raises:
            KafkaStorageError: the disk failed, now or before.
            InvalidArgument: what was appended are not whole batches.
        """
        self.check()
        key, view = (topic, partition), byte_view(batches)
        self._gathered.setdefault(key, []).append(view)
        self._total_bytes[key] = self._total_bytes.get(key, 0) + len(view)
        if segment_bytes is not None:
            self._segment_bytes[key] = segment_bytes
        self._gathered_bytes += len(view)
        if self._gathered_bytes >= self._buffer_bytes:
            with self._ending_if_it_fails():
                self._write_gathered(max(self._buffer_bytes // _MUCH_SHARE, _MUCH_BYTES))

    def finish(self) -> list[StagedRun]:
        """Make the bytes durable and close the files; return their runs, in order.

        Errors as ``append``.
        """
        self.check()
        with self._ending_if_it_fails():
            self._write_gathered()
            for key in list(self._own):
                self._end_own(key)
            if self._bundle is not None:
                self._bundle.finish()
                self._bundle = None
        return self._runs

    def check(self) -> None:
        """Raise KafkaStorageError if something that was to be staged is missing."""
        if self._failure is not None:
            reason = str(self._failure) or repr(self._failure)
            raise KafkaStorageError(
                f"staging in {self._data_dir} failed before: {reason}; nothing of it is kept"
            ) from self._failure

    def fail(self, error: BaseException) -> None:
        """Drop everything for good: because of ``error``, something is missing."""
        self._failure = error
        self.abandon()

    def abandon(self) -> None:
        """Close and remove the files; a sweep removes those that cannot be removed now."""
        for file in self._files:
            with suppress(OSError):
                file.abandon()

    @contextmanager
    def _ending_if_it_fails(self) -> Iterator[None]:
        """Run the body, whose error is the end of all; OSError becomes KafkaStorageError."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            if isinstance(error, OSError):
                reason = f"staging in {self._data_dir} failed: {error}"
                raise KafkaStorageError(reason) from error
            raise

    def _write_gathered(self, much_bytes: float = inf) -> None:
        """Write what is gathered; partitions with ``much_bytes`` of it get files of their own."""
        gathered, self._gathered, self._gathered_bytes = self._gathered, {}, 0
        for key, parts in sorted(gathered.items()):
            segment_bytes = self._segment_bytes_of_own(key, parts, much_bytes)
            run: _Run | None = None
            for data in _joined(parts):
                found = walk(data)
                if found.next_position != len(data):
                    raise InvalidArgument(f"not whole batches for {key[0]}-{key[1]}")
                if segment_bytes is not None:
                    self._write_own(key, data, found.batches, segment_bytes)
                    continue
                if run is None:
                    run = self._new_run(key)
                run.write(data, found.batches)
            if run is not None:
                self._runs.append(run.entry())

    def _segment_bytes_of_own(
        self, key: tuple[str, int], parts: list[memoryview], much_bytes: float
    ) -> int | None:
        """Return ``segment.bytes`` of a partition that gets files of its own; None: it shares."""
        segment_bytes = self._segment_bytes.get(key)
        if segment_bytes is None:
            return None
        is_own = (
            key in self._own
            or self._total_bytes[key] >= adopted_from(segment_bytes)
            or sum(map(len, parts)) >= much_bytes
        )
        return segment_bytes if is_own else None

    def _new_file(self) -> _NewFile:
        name = staged_name(self._txn, self._rng, self.attempt)
        file = _NewFile(self._fs, self._data_dir, name)
        self._files.append(file)  # before it is there: an interrupt may come right after
        try:
            file.create()
        except FileExistsError:  # it is another writer's, which ``abandon`` would delete
            self._files.pop()
            raise
        return file

    def _new_run(self, key: tuple[str, int]) -> _Run:
        """Begin a run of the file that the partitions share."""
        if self._bundle is None:
            self._bundle = self._new_file()
        return _Run(self._bundle, key, keeps_offsets=self._keeps_offsets)

    def _write_own(
        self, key: tuple[str, int], data: memoryview, batches: BatchColumns, segment_bytes: int
    ) -> None:
        """Write to files of one partition; each holds as many batches as fit a segment."""
        number = 0
        while number < len(batches):
            run = self._own.get(key)
            if run is None:
                run = _Run(self._new_file(), key, keeps_offsets=self._keeps_offsets)
                self._own[key] = run
            rest = batches.slice(number)
            start = int(rest.position[0])
            free_bytes = segment_bytes - run.size_bytes
            count = int(np.searchsorted(rest.end - start, free_bytes, side="right"))
            if not count and run.size_bytes:
                self._end_own(key)
                continue
            taken = rest.slice(0, max(count, 1))
            run.write(data[start : taken.next_position], taken.shifted(-start))
            number += len(taken)

    def _end_own(self, key: tuple[str, int]) -> None:
        run = self._own.pop(key)
        run.file.finish()
        self._runs.append(run.entry())


def _joined(parts: list[memoryview]) -> Iterator[memoryview]:
    """Join parts with the next ones until they are worth a write of their own."""
    small: list[memoryview] = []
    size = 0
    for part in parts:
        small.append(part)
        size += len(part)
        if size >= WRITE_BYTES:
            yield part if len(small) == 1 else memoryview(b"".join(small))
            small, size = [], 0
    if small:
        yield memoryview(b"".join(small))


class _NewFile:
    """A staged file that is being written; ``size_bytes`` are in it."""

    def __init__(self, fs: FileSystem, data_dir: str, name: str) -> None:
        self.name: Final = name
        self._fs: Final = fs
        self._file: Final = PooledFile(fs, os.path.join(data_dir, name))
        self.size_bytes = 0
        self._started_bytes = 0

    def create(self) -> None:
        """Create the file, which must not exist."""
        self._file.open("x")

    def write(self, data: Buffer) -> None:
        """Write at the end."""
        self._file.pwrite(data, self.size_bytes)
        self.size_bytes += len(byte_view(data))
        waiting_bytes = self.size_bytes - self._started_bytes
        if waiting_bytes >= WRITEBACK_BYTES:
            self._file.start_writeback(waiting_bytes, self._started_bytes)
            self._started_bytes = self.size_bytes

    def finish(self) -> None:
        """Make the bytes durable and close the file."""
        # A commit only writes a journal that names this file: its bytes must be there by then.
        self._file.sync()
        self._file.close()

    def abandon(self) -> None:
        """Close and remove the file, if it is there."""
        try:
            self._file.close()
        finally:
            delete_if_there(self._fs, self._file.path)


class _Run:
    """A run that is being written to the end of a file."""

    def __init__(self, file: _NewFile, key: tuple[str, int], *, keeps_offsets: bool) -> None:
        self.file: Final = file
        self._key: Final = key
        self._keeps_offsets: Final = keeps_offsets
        self._position: Final = file.size_bytes
        self._digest: Final = hashlib.blake2b(digest_size=16)
        self._records = 0
        self._max_timestamp = -1
        self._offsets = (-1, -1)

    @property
    def size_bytes(self) -> int:
        """Bytes of the run so far."""
        return self.file.size_bytes - self._position

    def write(self, data: memoryview, batches: BatchColumns) -> None:
        """Write whole batches, with positions in ``data``."""
        update_digest(self._digest, data, batches, keeps_offsets=self._keeps_offsets)
        self._records += int(batches.records_count.sum())
        self._max_timestamp = max(self._max_timestamp, int(batches.max_timestamp.max()))
        if self._keeps_offsets:
            first = batches.first_offset if self._offsets[0] < 0 else self._offsets[0]
            self._offsets = first, batches.next_offset
        self.file.write(data)

    def entry(self) -> StagedRun:
        """Return the manifest entry of what was written."""
        return StagedRun(
            self.file.name,
            *self._key,
            self._position,
            self.size_bytes,
            self._records,
            self._max_timestamp,
            self._digest.hexdigest(),
            *self._offsets,
        )
