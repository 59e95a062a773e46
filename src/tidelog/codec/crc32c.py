"""CRC-32C (Castagnoli) of one buffer.

Owns the choice of library for single buffers: batch headers, snapshots. Must not know what is
summed. Whole files are summed by ``tidelog.kernels``. Kafka: ``Crc32C``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the checksum of ``data``, going on from ``crc``, the checksum of what came before.

    The result is unsigned, 32 bits. Large buffers are summed without the GIL.
    """
    import crc32c as library  # noqa: PLC0415 - 25 ms, which a start without records need not spend

    checksum: int = library.crc32c(cast("memoryview", data), crc)
    return checksum
