"""The fast path of an append."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.codec.compression import Codec, compress
from tidelog.kernels import rows
from tidelog.kernels.runtime import gate
from tidelog.records.batch import BATCH_HEADER, LOG_OVERHEAD, TimestampType
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.memory import walk
from tidelog.records.validation.accept import accept, accept_together
from tidelog.records.validation.analyze import analyze
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.records.validation.validate import validate_for_leader

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_700_000_000_000
HOUR = 3_600_000
RECORDS = [(NOW + i % 3, b"key%d" % i, b"value", (("h", b"x"),)) for i in range(10)]
DATA = build_batch(RECORDS)

pytestmark = pytest.mark.usefixtures("kernels")


def accepted(data: Any = DATA, policy: LeaderPolicy | None = None, limit: int = 10_000) -> Any:
    return accept(data, policy=policy or LeaderPolicy(), max_batch_bytes=limit, now_ms=NOW)


@pytest.mark.parametrize("codec", Codec)
def test_the_fast_path_equals_full_validation(codec: Codec) -> None:
    """The fast path and full validation give the same bytes and headers."""
    given = build_batch(RECORDS, codec=codec)
    analyzed = analyze(
        given,
        origin=AppendOrigin.CLIENT,
        leader_epoch=6,
        max_batch_bytes=10_000,
        require_offsets_monotonic=False,
    )
    long = validate_for_leader(
        given, analyzed, config=LeaderPolicy(), first_offset=100, leader_epoch=6, now_ms=NOW
    )

    found = accepted(given)
    data, batches, row = found.placed(100, 6, NOW)

    assert found.codec is codec
    assert data == long.data
    assert np.array_equal(batches.array, long.batches.array)
    assert row == batches.row(0)


def test_the_callers_bytes_stay_as_they_are() -> None:
    """Offsets are assigned in a copy, so a batch can be appended again."""
    data = bytearray(DATA)
    found = accepted(memoryview(data))

    assigned = found.placed(100, 6, NOW)[0], found.placed(100, 6, NOW)[0]

    assert data == DATA
    assert assigned[0] == assigned[1]


def test_bytes_that_nobody_needs_any_more_are_not_copied() -> None:
    """A part of a request's buffer is stamped where it lies; bytes, which cannot be, are copied."""
    buffer = bytearray(DATA)
    copied = accepted(DATA).placed(100, 6, NOW, may_change=True)[0]

    stamped = accepted(memoryview(buffer)).placed(100, 6, NOW, may_change=True)[0]

    assert stamped == copied == buffer != DATA


@pytest.mark.parametrize(
    "policy",
    [
        LeaderPolicy(codec=Codec.LZ4),
        LeaderPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME),
        LeaderPolicy(timestamp_before_max_ms=HOUR, timestamp_after_max_ms=1),
    ],
    ids=["another codec", "append time", "a timestamp too late"],
)
def test_a_batch_that_has_to_change_or_to_be_refused_is_not_accepted(policy: LeaderPolicy) -> None:
    """A batch that must be rebuilt or rejected is left to plain code."""
    assert accepted(policy=policy) is None


def inside(change: Callable[[bytes], bytes], **fields: int) -> bytes:
    """Return a compressed batch whose records, and header, are other ones under a right CRC."""
    header = BATCH_HEADER.unpack(DATA)._replace(attributes=Codec.LZ4, **fields)
    area = compress(Codec.LZ4, change(DATA[BATCH_HEADER.size :]))
    length = BATCH_HEADER.size - LOG_OVERHEAD + len(area)
    return pack_batch(header._replace(length=length), area)


def test_a_compressed_batch_is_looked_into() -> None:
    """What full validation would refuse or change is left to it; one that is right is accepted."""
    assert accepted(inside(bytes)) is not None
    assert accepted(inside(lambda area: area[:-1])) is None
    assert accepted(inside(lambda area: area + b"?")) is None
    assert accepted(inside(bytes, max_timestamp=NOW + 3)) is None
    assert accepted(inside(bytes, records_count=9, last_offset_delta=8)) is None
    assert accepted(inside(bytes), LeaderPolicy(codec=Codec.NONE)) is None
    assert accepted(inside(bytes), LeaderPolicy(timestamp_after_max_ms=1)) is None
    damaged = bytearray(inside(bytes))
    damaged[BATCH_HEADER.size + 9] ^= 0xFF
    header = BATCH_HEADER.unpack(damaged)
    assert accepted(pack_batch(header, bytes(damaged[BATCH_HEADER.size :]))) is None
    unknown = BATCH_HEADER.unpack(DATA)._replace(attributes=5)
    assert accepted(pack_batch(unknown, DATA[BATCH_HEADER.size :])) is None


def test_batches_of_several_requests_are_accepted_if_each_is() -> None:
    """They are joined in a copy, with their headers where they are in it."""
    short = build_batch(RECORDS[:1], codec=Codec.ZSTD)
    parts = [build_batch(RECORDS[:3]), short, inside(bytes)]

    found = accept_together(parts, policy=LeaderPolicy(), max_batch_bytes=10_000, now_ms=NOW)

    assert found is not None
    assert found.data == b"".join(parts)
    assert found.columns.array.tolist() == walk(found.data).batches.array.tolist()
    assert (found.codec, found.last_offset_of_first_batch) == (Codec.LZ4, 2)
    assert found.max_timestamp == NOW + 2
    most = max(map(len, parts))
    assert accept_together(parts, policy=LeaderPolicy(), max_batch_bytes=most, now_ms=NOW)
    wrong = inside(bytes, max_timestamp=NOW + 3)
    for refused, limit in (([DATA, wrong], 10_000), ([DATA, DATA * 2], 10_000), (parts, most - 1)):
        policy = LeaderPolicy()
        assert accept_together(refused, policy=policy, max_batch_bytes=limit, now_ms=NOW) is None


@pytest.mark.parametrize("count", [1, 2, 12, 13, 40])
def test_batches_that_come_together_are_placed_one_after_another(count: int) -> None:
    """Any number of them gets what each would get by itself."""
    parts = [build_batch(RECORDS[: 1 + each % 4]) for each in range(count)]
    found = accept_together(parts, policy=LeaderPolicy(), max_batch_bytes=10_000, now_ms=NOW)
    assert found is not None

    columns, end = found.placed(70, 6)

    alone, next_offset = b"", 70
    for part in parts:
        data, _, row = accepted(part).placed(next_offset, 6, NOW)
        alone, next_offset = alone + data, row[rows.LAST_OFFSET] + 1
    assert (bytes(found.data), end) == (alone, next_offset)
    assert [columns.row(each) for each in range(count)] == walk(alone).batches.array.T.tolist()


@pytest.mark.parametrize(("producer_id", "is_one"), [(-1, False), (0, True)])
def test_plain_batches_have_no_codec_and_one_producer_is_enough(
    producer_id: int, *, is_one: bool
) -> None:
    """The state of producers is asked only if there is one."""
    one = build_batch(RECORDS, producer_id=producer_id, producer_epoch=0, base_sequence=0)

    found = accept_together([one, DATA], policy=LeaderPolicy(), max_batch_bytes=10_000, now_ms=NOW)

    assert found is not None
    assert (found.codec, found.has_producer) == (Codec.NONE, is_one)


@pytest.mark.parametrize("cut", [1, 12, 61, len(DATA) - 1])
def test_a_batch_is_not_put_together_from_the_parts_of_two_requests(cut: int) -> None:
    """The bytes of both are as many whole batches as there are requests, but neither brings one."""
    parts = [DATA + DATA[:cut], DATA[cut:]]

    found = accept_together(parts, policy=LeaderPolicy(), max_batch_bytes=10_000, now_ms=NOW)

    assert found is None


def test_a_topic_without_codec_takes_plain_batches_as_they_are() -> None:
    """So does a topic that keeps the producer's codec."""
    assert accepted(policy=LeaderPolicy(codec=Codec.NONE)) is not None


def test_a_batch_over_the_limit_is_not_accepted() -> None:
    """The limit applies to the size of the whole batch."""
    assert accepted(limit=len(DATA)) is not None
    assert accepted(limit=len(DATA) - 1) is None


def test_without_kernels_nothing_is_accepted_at_once() -> None:
    """Plain code would do the same work twice."""
    gate.force(False)

    assert accepted() is None
