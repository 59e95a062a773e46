"""The records of batches as values."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from tidelog.records.decoding.to_damage import decode_to_damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.layout import Buffer
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.record import Record

_GROUP_BYTES: Final = 256 << 10
"""Bytes of records that become values at a time."""


def iterate(data: Buffer, batches: BatchColumns, *, control: bool = False) -> Iterator[Record]:
    """Yield the records of ``batches`` as values; ``control`` includes control records.

    Errors are those of ``decode``, raised after the records before the damage.
    """
    wanted = batches if control else batches.select(~batches.is_control)
    groups = decode_to_damage(data, wanted, group_bytes=_GROUP_BYTES)
    return chain.from_iterable(group.records() for group in groups)
