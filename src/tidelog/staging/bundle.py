"""Writing the batches of one task, for any number of partitions, into staged files.

Batches are gathered by partition first, so that one file holds few and long runs. A partition that
gets much data gets files of its own, which its log can adopt as segments.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.lazy import np
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.records.memory import walk
from tidelog.staging.adopting import adopted_from
from tidelog.staging.staged_file import new_attempt, staged_name
from tidelog.staging.staged_run import StagedRun, update_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tidelog.codec.layout import Buffer
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.staging.staged_folder import LocalFile, LocalFolder
    from tidelog.staging.staged_objects import NewObject, StagedObjects

    NewFile = LocalFile | NewObject

BUFFER_BYTES: Final = 64 << 20
"""Bytes of batches to gather before they are written as runs."""
_MUCH_BYTES: Final = 2 << 20
_MUCH_SHARE: Final = 8
"""A partition with at least this share of a full buffer, and that many bytes, is likely to get more
than a log adopts: it gets a file of its own at once."""
WRITE_BYTES: Final = 256 << 10
"""Bytes of a partition that are written at a time: the copy of fewer costs less than a write."""


class BundleWriter:
    """Writes staged files, whose runs count only once ``finish`` has returned them.

    Used by one thread of one task attempt. Small data makes one file, whatever the number of
    partitions, and one sync. Once a partition has as much as a log adopts, or much of a full
    buffer, what is not written yet goes to files of its own, of at most ``segment.bytes``; but not
    where files are kept small, as on a store, and none can be adopted. Files are made, exclusively,
    by the first write. ``abandon`` removes them; after a crash they remain, but no journal names
    them. Their names are not durable before the commit, which syncs the directory.

    A write that fails, or is interrupted, leaves a gap, so it is the end of all that was staged:
    the files are removed, and each later use but ``abandon`` raises KafkaStorageError.

    Args:
        folder: where to make the files.
        txn: the id of the transaction.
        rng: makes the names unique.
        buffer_bytes: how many bytes of batches to gather before they are written.
        keeps_offsets: the batches are copies, with offsets, epochs and producers, which stay.
        attempt: of the job that this task belongs to; None: the writer is an attempt of its own.
    """

    def __init__(
        self,
        folder: LocalFolder | StagedObjects,
        txn: str,
        *,
        rng: Random,
        buffer_bytes: int = BUFFER_BYTES,
        keeps_offsets: bool = False,
        attempt: str | None = None,
    ) -> None:
        self.attempt: Final = new_attempt(rng) if attempt is None else attempt
        self._folder = folder
        self._txn = txn
        self._rng = rng
        self._buffer_bytes = buffer_bytes
        self._keeps_offsets = keeps_offsets
        self._gathered: dict[tuple[str, int], list[memoryview]] = {}
        self._gathered_bytes = 0
        self._total_bytes: dict[tuple[str, int], int] = {}
        self._segment_bytes: dict[tuple[str, int], int] = {}
        self._bundle: NewFile | None = None
        self._own: dict[tuple[str, int], _Run] = {}
        self._files: list[NewFile] = []
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
        if segment_bytes is not None and self._folder.max_bytes is None:
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
            self._end_bundle()
        return self._runs

    def check(self) -> None:
        """Raise KafkaStorageError if something that was to be staged is missing."""
        if self._failure is not None:
            reason = str(self._failure) or repr(self._failure)
            raise KafkaStorageError(
                f"staging in {self._folder.name} failed before: {reason}; nothing of it is kept"
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
                reason = f"staging in {self._folder.name} failed: {error}"
                raise KafkaStorageError(f"{reason}; nothing was committed") from error
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
                run = self._write_shared(run, key, data, found.batches)
            if run is not None:
                self._runs.append(run.entry())
        limit = self._folder.max_bytes
        if limit is not None and self._bundle_bytes + self._buffer_bytes > limit:
            self._end_bundle()

    @property
    def _bundle_bytes(self) -> int:
        return 0 if self._bundle is None else self._bundle.size_bytes

    def _end_bundle(self) -> None:
        if self._bundle is not None:
            self._bundle.finish()
            self._bundle = None

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

    def _new_file(self) -> NewFile:
        name = staged_name(self._txn, self._rng, self.attempt)
        file = self._folder.new_file(name)
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

    def _write_shared(
        self, run: _Run | None, key: tuple[str, int], data: memoryview, batches: BatchColumns
    ) -> _Run | None:
        """Write to the file that the partitions share, after ``run``; return the last run."""
        number = 0
        while number < len(batches):
            run = run or self._new_run(key)
            rest = batches.slice(number)
            count = run.count_near(rest)
            if not count:
                self._runs.append(run.entry())
                run = None
                continue
            number += run.write_first(count, data, rest)
        return run

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
            free_bytes = segment_bytes - run.size_bytes
            fitting = np.searchsorted(rest.end - rest.position[0], free_bytes, side="right")
            count = min(int(fitting), run.count_near(rest))
            if not count and run.size_bytes:
                self._end_own(key)
                continue
            number += run.write_first(max(count, 1), data, rest)

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


class _Run:
    """A run that is being written to the end of a file."""

    def __init__(self, file: NewFile, key: tuple[str, int], *, keeps_offsets: bool) -> None:
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

    def count_near(self, batches: BatchColumns) -> int:
        """Return how many of the first batches lie within the offsets of one segment with the run.

        A copied log may have gaps that are larger. An empty run takes a batch at least.
        """
        if not self._keeps_offsets:
            return len(batches)
        is_empty = self._offsets[0] < 0
        end = (batches.first_offset if is_empty else self._offsets[0]) + INT32_MAX
        near = int(np.searchsorted(batches.last_offset, min(end, INT64_MAX)))
        return max(near, 1) if is_empty else near

    def write_first(self, count: int, data: memoryview, batches: BatchColumns) -> int:
        """Write the first ``count`` of batches with positions in ``data``; return ``count``."""
        taken, start = batches.slice(0, count), int(batches.position[0])
        self._write(data[start : taken.next_position], taken.shifted(-start))
        return count

    def _write(self, data: memoryview, batches: BatchColumns) -> None:
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
