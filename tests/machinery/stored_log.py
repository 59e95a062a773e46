"""A small log with known bytes on a fake disk: six batches of one record each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tests.machinery.directory_home import DataHome, record

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.records.builder import build_batch
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY

if TYPE_CHECKING:
    from tidelog.readonly.read_only_log import ReadOnlyLog

WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
VALUES: Final = [bytes([65 + number]) * 20 for number in range(6)]
BATCHES: Final = [
    build_batch([record(value)], base_offset=offset, leader_epoch=0)
    for offset, value in enumerate(VALUES)
]
SIZE: Final = len(BATCHES[0])
"""The bytes of each batch."""


def name_of(base_offset: int, suffix: str = ".log") -> str:
    """Return the path of a file of t-0 in the data directory."""
    return f"t-0/{base_offset:020d}{suffix}"


def home_with(
    *segments: list[bytes], first: int = 0, watermark: int | None = None, tail: bytes = b""
) -> DataHome:
    """Return a data directory whose t-0 has these segments of batches, and bytes after the last.

    Each batch has one offset.
    """
    home = DataHome()
    base_offset = first
    for number, batches in enumerate(segments):
        is_last = number + 1 == len(segments)
        home.write(name_of(base_offset), b"".join(batches) + (tail if is_last else b""))
        base_offset += len(batches)
    if not segments:
        home.fs.make_directory(f"{home.path}/t-0")
    if watermark is not None:
        home.write(WATERMARKS, f"0\n1\nt 0 {watermark}\n")
    return home


def index(*entries: tuple[int, int]) -> bytes:
    """Return the bytes of an offset index with these entries (relative offset, position)."""
    return np.array(list(entries), OFFSET_INDEX_ENTRY.dtype).tobytes()


def flipped(batch: bytes, at: int = 70) -> bytes:
    """Return the batch with one bit of its records flipped, so that its CRC is wrong."""
    return batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]


def read(
    log: ReadOnlyLog,
    *bounds: int,
    **how: Any,  # noqa: ANN401 - the other arguments of ``records``
) -> tuple[list[bytes | None], Exception | None]:
    """Return the values read and the error that ended it."""
    values: list[bytes | None] = []
    try:
        values.extend(found.value for found in log.records(*bounds, **how))
    except (CorruptMessage, KafkaStorageError, OffsetOutOfRange) as error:
        return values, error
    return values, None


def whole(home: DataHome) -> tuple[list[bytes | None], Exception | None]:
    """Read t-0 from start to high watermark."""
    return read(home.read_only("t-0"))
