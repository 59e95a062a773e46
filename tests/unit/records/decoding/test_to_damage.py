"""Records up to the first damage, whatever a batch decompresses to."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from tests.machinery.record_values import iterate

from tidelog.codec.compression import Codec, compress
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.decoding.to_damage import decode_to_damage
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = build_batch([(0, None, None, ())])[BATCH_HEADER.size :]
SMALL = build_batch([(0, None, b"%d" % number, ()) for number in range(3)])


def tiny_records(count: int, codec: Codec = Codec.ZSTD) -> bytes:
    """Build a batch of the smallest records, all of its base offset."""
    header = BATCH_HEADER.unpack(build_batch([(0, None, None, ())]))
    header = header._replace(attributes=int(codec), records_count=count)
    return pack_batch(header, compress(codec, RECORD * count))


def test_a_few_records_of_an_enormous_batch_take_little_memory() -> None:
    """Each tiny record of a batch of some kilobytes would take a hundred bytes or more."""
    data = tiny_records(2_000_000)
    batches = walk(data).batches
    tracemalloc.start()

    found = list(islice(iterate(data, batches), 10))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(data) < 5_000, len(found), {record.offset for record in found}) == (True, 10, {0})
    assert peak < 40 << 20


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("make", [lambda _: tiny_records(9, Codec.GZIP), lambda one: one])
def test_all_batches_before_a_damaged_one_come_first(make: Callable[[bytes], bytes]) -> None:
    """They do if one group holds them all; of a plain one, so do the records before the damage."""
    damaged = bytearray(make(SMALL))
    damaged[-1] ^= 0xFF
    data = SMALL + SMALL + bytes(damaged)
    seen: list[bytes | None] = []
    groups = decode_to_damage(data + SMALL, walk(data + SMALL).batches)

    with pytest.raises((InvalidRecord, CorruptMessage)):
        seen.extend(record.value for group in groups for record in group.records())

    first = [b"0", b"1", b"2"] * 2
    assert seen == first + ([b"0", b"1"] if bytes(damaged[:-1]) == SMALL[:-1] else [])


@pytest.mark.parametrize("bad", [1, 2_000_000, 2_000_001])
def test_the_records_before_the_damage_of_an_enormous_batch_come_first(bad: int) -> None:
    """They do in its last part, too."""
    count = 2_000_002
    area = bytearray(RECORD * count)
    area[bad * len(RECORD)] = 0x7E  # its length
    header = BATCH_HEADER.unpack(tiny_records(1, Codec.NONE))._replace(records_count=count)
    data = pack_batch(header, bytes(area))
    groups = decode_to_damage(data, walk(data).batches, group_bytes=1 << 20)
    seen: list[int] = []

    with pytest.raises(InvalidRecord):
        seen.extend(map(len, groups))

    assert sum(seen) == bad
