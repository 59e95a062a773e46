"""The format of a producer snapshot file (``.snapshot``).

Kafka: ``ProducerStateManager.writeSnapshot`` and ``readSnapshot``.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.crc32c import crc32c
from tidelog.codec.layout import Layout, Wire
from tidelog.errors import CorruptSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem


class SnapshotHeader(NamedTuple):
    """How a snapshot file begins. Source: Kafka ProducerSnapshot, version 1."""

    version: Annotated[int, Wire("h", "Format version, 1.")]
    crc: Annotated[int, Wire("I", "CRC-32C of all bytes after this field.")]
    producers_count: Annotated[int, Wire("i", "Number of producers that follow.")]


class ProducerSnapshotEntry(NamedTuple):
    """One producer in a snapshot: its last batch only. Source: Kafka ProducerSnapshot."""

    producer_id: Annotated[int, Wire("q", "Producer.")]
    producer_epoch: Annotated[int, Wire("h", "Its epoch, -1 none.")]
    last_sequence: Annotated[int, Wire("i", "Last sequence, -1 none.")]
    last_offset: Annotated[int, Wire("q", "Last offset of its last batch, -1 none.")]
    offset_delta: Annotated[int, Wire("i", "Last minus first sequence of that batch.")]
    timestamp: Annotated[int, Wire("q", "Timestamp of its last batch or marker in ms.")]
    coordinator_epoch: Annotated[int, Wire("i", "Epoch of its coordinator, -1 none.")]
    txn_first_offset: Annotated[int, Wire("q", "First offset of its open transaction, -1 none.")]


SNAPSHOT_HEADER: Final = Layout(SnapshotHeader)
SNAPSHOT_ENTRY: Final = Layout(ProducerSnapshotEntry)
assert SNAPSHOT_HEADER.size == 10
assert SNAPSHOT_ENTRY.size == 46

SNAPSHOT_VERSION: Final = 1
_MAX_EXTRA_BYTES: Final = 1 << 20
"""More bytes than that after the entries are not looked at."""
_CRC_FROM: Final = SNAPSHOT_HEADER.offsets["producers_count"]


def pack_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    """Return the bytes of a snapshot file that holds ``entries``."""
    body = [SNAPSHOT_ENTRY.pack(entry) for entry in entries]
    header = SnapshotHeader(SNAPSHOT_VERSION, 0, len(body))
    unchecked = SNAPSHOT_HEADER.pack(header) + b"".join(body)
    crc = crc32c(unchecked[_CRC_FROM:])
    return SNAPSHOT_HEADER.pack(header._replace(crc=crc)) + unchecked[SNAPSHOT_HEADER.size :]


def read_snapshot(fs: FileSystem, path: str) -> list[ProducerSnapshotEntry]:
    """Read a snapshot file; raise CorruptSnapshot as ``unpack_snapshot`` does.

    The header is read first: a file of another version, or of far more bytes than the entries that
    it declares, is not read whole, since it may be sparse.
    """
    with closing(fs.open(path)) as file:
        size = file.size()
        data = file.pread(SNAPSHOT_HEADER.size, 0)
        if len(data) == SNAPSHOT_HEADER.size:
            header = SNAPSHOT_HEADER.unpack(data)
            end = SNAPSHOT_HEADER.size + max(header.producers_count, 0) * SNAPSHOT_ENTRY.size
            if header.version == SNAPSHOT_VERSION and size > end + _MAX_EXTRA_BYTES:
                raise CorruptSnapshot(
                    f"a producer snapshot of {header.producers_count} entries is {size} bytes"
                )
            if header.version == SNAPSHOT_VERSION:
                data = file.pread(size, 0)
        return unpack_snapshot(data)


def unpack_snapshot(data: bytes) -> list[ProducerSnapshotEntry]:
    """Read a snapshot file; raise CorruptSnapshot unless version, size and checksum are right.

    Bytes after the entries mean nothing, as in Kafka, if the checksum covers them too.
    """
    if len(data) < SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a producer snapshot")
    header = SNAPSHOT_HEADER.unpack(data)
    if header.version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"unknown producer snapshot version {header.version}")
    if crc32c(data[_CRC_FROM:]) != header.crc:
        raise CorruptSnapshot("the checksum of a producer snapshot does not match")
    end = SNAPSHOT_HEADER.size + header.producers_count * SNAPSHOT_ENTRY.size
    if header.producers_count < 0 or end > len(data):
        raise CorruptSnapshot(
            f"a producer snapshot of {header.producers_count} entries is {len(data)} bytes"
        )
    starts = range(SNAPSHOT_HEADER.size, end, SNAPSHOT_ENTRY.size)
    return [SNAPSHOT_ENTRY.unpack(data, start) for start in starts]
