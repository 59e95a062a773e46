"""Records up to the first damage, in bounded memory.

Of a damaged batch that is not compressed, the records before the damage come last: Kafka's
iterators return those records too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec
from tidelog.errors import InvalidRecord
from tidelog.lazy import np
from tidelog.records.array_rows import as_bytes
from tidelog.records.batch import MAGIC_V2
from tidelog.records.decoding.bounded_decode import LARGE_BYTES, BoundedDecoding
from tidelog.records.decoding.record_areas import areas_of, decode_before_damage
from tidelog.records.decoding.record_columns import GROUP_BYTES, RecordColumns

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tidelog.codec.layout import Buffer
    from tidelog.records.batch_columns import BatchColumns

_VALUES_BYTES: Final = 256 << 10
"""Bytes of records that become values at a time: about what a processor's cache holds."""


def decode_to_damage(
    data: Buffer,
    batches: BatchColumns,
    *,
    limit: int = DEFAULT_DECOMPRESSED_LIMIT,
    group_bytes: int = GROUP_BYTES,
) -> Iterator[RecordColumns]:
    """Like ``decode_bounded``, with the records of a damaged batch that are before the damage.

    The records of a compressed batch of ordinary size cannot be decoded one by one.
    """
    source = as_bytes(data)
    decoding = BoundedDecoding(source, batches, limit=limit, group_bytes=group_bytes)
    try:
        yield from decoding.groups()
    except InvalidRecord:
        one = batches.slice(decoding.at, decoding.at + 1)
        is_plain = one.magic[0] == MAGIC_V2 and one.codec[0] == Codec.NONE
        if is_plain and one.size[0] <= LARGE_BYTES:
            yield RecordColumns(decode_before_damage(source, areas_of(one)), source, one)
        raise


def ascending(
    data: Buffer, batches: BatchColumns, next_offset: int
) -> Generator[RecordColumns, None, int]:
    """Yield the records that applications see, from ``next_offset`` on; return the next one's.

    A record at or below an offset that was yielded is left out. Errors are those of
    ``decode_to_damage``.
    """
    wanted = batches.select(~batches.is_control)
    for group in decode_to_damage(data, wanted, group_bytes=_VALUES_BYTES):
        seen = np.maximum.accumulate(np.concatenate(([next_offset - 1], group.offset)))
        next_offset = int(seen[-1]) + 1
        is_new = group.offset > seen[:-1]
        yield group if is_new.all() else group.select(is_new)
    return next_offset
