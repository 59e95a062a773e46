"""Writing the batches of one task, for any number of partitions, into one staged file.

Batches are gathered by partition first, so that a file holds few and long runs.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument
from tidelog.records.memory import walk
from tidelog.staging.staged_file import staged_name
from tidelog.staging.staged_run import StagedRun, update_digest

if TYPE_CHECKING:
    from random import Random

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem, OpenFile

BUFFER_BYTES: Final = 64 << 20
"""Bytes of batches to gather before they are written as runs."""


class BundleWriter:
    """Writes a staged file of several runs, which count only once ``finish`` has returned them.

    Used by one thread of one task attempt. The file is made, exclusively, by the first write.
    ``abandon`` removes it; after a crash it remains, but no journal names it. Its name is not
    durable before the commit, which syncs the directory.
    """

    def __init__(
        self,
        fs: FileSystem,
        data_dir: str,
        txn: str,
        *,
        rng: Random,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._fs = fs
        self._name = staged_name(txn, rng)
        self._path = os.path.join(data_dir, self._name)
        self._file: OpenFile | None = None
        self._buffer_bytes = buffer_bytes
        self._gathered: dict[tuple[str, int], list[memoryview]] = {}
        self._gathered_bytes = 0
        self._size_bytes = 0
        self._runs: list[StagedRun] = []

    def append(self, topic: str, partition: int, batches: Buffer) -> None:
        """Append whole batches of magic 2, which the writer keeps; errors as of the disk."""
        self._gathered.setdefault((topic, partition), []).append(byte_view(batches))
        self._gathered_bytes += len(byte_view(batches))
        if self._gathered_bytes >= self._buffer_bytes:
            self._write_gathered()

    def finish(self) -> list[StagedRun]:
        """Make the bytes durable and close the file; return its runs, in order."""
        self._write_gathered()
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None
        return self._runs

    def abandon(self) -> None:
        """Close and remove the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._size_bytes or self._fs.exists(self._path):
            self._fs.delete(self._path)

    def _write_gathered(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, {}, 0
        for (topic, partition), parts in sorted(gathered.items()):
            self._write(topic, partition, b"".join(parts))

    def _write(self, topic: str, partition: int, data: bytes) -> None:
        found = walk(data)
        if found.next_position != len(data):
            raise InvalidArgument(f"not whole batches for {topic}-{partition}")
        digest = hashlib.blake2b(digest_size=16)
        update_digest(digest, data, found.batches)
        run = StagedRun(
            self._name,
            topic,
            partition,
            self._size_bytes,
            len(data),
            int(found.batches.records_count.sum()),
            int(found.batches.max_timestamp.max()),
            digest.hexdigest(),
        )
        if self._file is None:
            self._file = self._fs.open(self._path, "x")
        self._file.pwrite(data, self._size_bytes)
        self._size_bytes += len(data)
        self._runs.append(run)
