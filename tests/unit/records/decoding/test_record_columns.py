"""Records as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.machinery.old_batches import build_old
from tests.machinery.record_values import iterate

from tidelog.codec.compression import Codec
from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from tidelog.records.batch import BATCH_HEADER, TimestampType
from tidelog.records.builder import build_batch, empty_batch, pack_batch
from tidelog.records.control import build_marker
from tidelog.records.decoding.record_columns import decode, decode_groups
from tidelog.records.decoding.to_damage import decode_to_damage
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields


CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
RECORDS = [
    (1000, b"a", b"first", (("h", b"1"), ("h", None))),
    (990, None, None, ()),
    (1010, b"", b"", ()),
]
MARKER = build_marker(
    producer_id=1, producer_epoch=0, coordinator_epoch=3, is_commit=True, timestamp=5
)

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("codec", Codec)
def test_columns_point_at_keys_values_and_headers(codec: Codec) -> None:
    """Every field of every record is found in the data, with every codec."""
    data = build_batch(RECORDS, codec=codec, base_offset=50, leader_epoch=2)

    columns = decode(data, walk(data).batches)

    assert columns.offset.tolist() == [50, 51, 52]
    assert columns.timestamp.tolist() == [1000, 990, 1010]
    assert columns.key_size.tolist() == [1, -1, 0]
    assert columns.value_size.tolist() == [5, -1, 0]
    assert columns.headers_count.tolist() == [2, 0, 0]
    assert columns.timestamp_type.tolist() == [CREATE] * 3
    at = columns.value_at[0]
    assert columns.data[at : at + 5].tobytes() == b"first"
    assert [(r.timestamp, r.key, r.value, r.headers) for r in columns.records()] == RECORDS


def test_plain_data_is_not_copied() -> None:
    """Columns of uncompressed batches refer to the buffer that was decoded."""
    data = np.frombuffer(build_batch(RECORDS), np.uint8)

    assert decode(data, walk(data).batches).data is data


def test_a_mixture_of_batches_keeps_its_order() -> None:
    """Uncompressed, compressed, empty and old batches are decoded to one table, in log order."""
    header = BATCH_HEADER.unpack(build_batch(RECORDS, base_offset=9))
    chunks = [
        build_batch(RECORDS, base_offset=0),
        build_old(0, [(0, b"k", b"v")], base_offset=3),
        build_batch(RECORDS, base_offset=4, codec=Codec.LZ4),
        build_old(1, [(7, b"k", b"v"), (8, b"k", b"v")], base_offset=7, codec=Codec.SNAPPY),
        empty_batch(header),
        build_batch(RECORDS, base_offset=12),
    ]
    data = b"".join(chunks)

    columns = decode(data, walk(data).batches)

    assert columns.offset.tolist() == [*range(9), 12, 13, 14]
    assert columns.batch.tolist() == [0, 0, 0, 1, 2, 2, 2, 3, 3, 5, 5, 5]
    assert columns.timestamp_type.tolist() == [0, 0, 0, -1, *[0] * 8]
    records = list(columns.records())
    assert records[3][:5] == (3, -1, TimestampType.NO_TIMESTAMP_TYPE, b"k", b"v")
    assert records[8][:5] == (8, 8, CREATE, b"k", b"v")


def test_log_append_time_hides_the_records_own() -> None:
    """With LogAppendTime every record has the batch's greatest timestamp."""
    data = build_batch(RECORDS, timestamp_type=APPEND, max_timestamp=5555)

    columns = decode(data, walk(data).batches)

    assert columns.timestamp.tolist() == [5555] * 3
    assert columns.timestamp_type.tolist() == [APPEND] * 3


def test_a_record_knows_epoch_and_sequence() -> None:
    """Leader epoch and sequence of a record follow from its batch; epoch -1 is None."""
    producer: SequenceFields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31 - 1}
    data = build_batch(RECORDS, leader_epoch=6, **producer) + build_batch(RECORDS, base_offset=3)

    records = list(iterate(data, walk(data).batches))

    assert [(r.leader_epoch, r.sequence) for r in records[:3]] == [(6, 2**31 - 1), (6, 0), (6, 1)]
    assert (records[3].leader_epoch, records[3].sequence) == (None, -1)


def test_control_records_are_marked_and_skipped() -> None:
    """Control records are in the columns, flagged; iteration skips them by default."""
    data = build_batch(RECORDS) + MARKER
    batches = walk(data).batches

    assert decode(data, batches).is_control.tolist() == [False] * 3 + [True]
    assert len(list(iterate(data, batches))) == 3
    assert len(list(iterate(data, batches, control=True))) == 4


def test_offsets_and_times_wrap_as_in_java() -> None:
    """Sums beyond 64 bits wrap around."""
    header = BATCH_HEADER.unpack(build_batch(RECORDS))
    body = build_batch(RECORDS)[BATCH_HEADER.size :]
    extreme = header._replace(base_offset=2**63 - 2, base_timestamp=2**63 - 1)
    data = pack_batch(extreme, body)

    columns = decode(data, walk(data, check_crc=True).batches)

    assert columns.offset.tolist() == [2**63 - 2, 2**63 - 1, -(2**63)]
    assert columns.timestamp.tolist() == [2**63 - 1, 2**63 - 11, -(2**63) + 9]


@pytest.mark.parametrize("count", [-1, -(2**31), 4, 2**31 - 1, 2, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_wrong_count_is_invalid(count: int, codec: Codec) -> None:
    """A count that is negative or differs from the number of records makes the batch invalid."""
    good = build_batch(RECORDS, codec=codec)
    header = BATCH_HEADER.unpack(good)._replace(records_count=count)
    data = build_batch(RECORDS) + pack_batch(header, good[BATCH_HEADER.size :])
    batches = walk(data, check_crc=True).batches

    with pytest.raises(InvalidRecord) as caught:
        decode(data, batches)

    assert caught.value.position == batches.position[1]


def test_records_before_one_that_does_not_read_come_first() -> None:
    """Whole batches and the records before the damage are returned before the error is raised."""
    good = build_batch(RECORDS)
    header = BATCH_HEADER.unpack(good)._replace(records_count=len(RECORDS) + 1)
    data = good + pack_batch(header, good[BATCH_HEADER.size :])
    groups = decode_to_damage(data, walk(data, check_crc=True).batches)

    found = [next(groups).offset.tolist(), next(groups).offset.tolist()]

    assert found == [list(range(len(RECORDS)))] * 2
    with pytest.raises(InvalidRecord):
        next(groups)


@pytest.mark.parametrize("kind", ["compression", "codec", "records"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_before_a_damaged_compressed_one_come_first(codec: Codec, kind: str) -> None:
    """Also those of its group: its bytes, its codec or the records in them are not valid."""
    good = build_batch(RECORDS, codec=codec)
    bad = build_batch(RECORDS, codec=Codec.ZSTD)
    header, body = BATCH_HEADER.unpack(bad), bad[BATCH_HEADER.size :]
    if kind == "compression":
        body = b"no zstd frame"
    elif kind == "codec":
        header = header._replace(attributes=header.attributes | 7)
    else:
        header = header._replace(records_count=len(RECORDS) + 1)
    data = good * 2 + pack_batch(header, body) + good
    records = iterate(data, walk(data, check_crc=True).batches)

    found = [next(records).offset for _ in range(2 * len(RECORDS))]

    assert found == [*range(len(RECORDS))] * 2
    with pytest.raises(KafkaError):
        next(records)


def test_of_two_damaged_batches_the_first_is_reported() -> None:
    """Though the second, whose compression is damaged, is noticed first."""
    good = build_batch(RECORDS)
    header = BATCH_HEADER.unpack(good)._replace(records_count=len(RECORDS) + 1)
    first = pack_batch(header, good[BATCH_HEADER.size :])
    zipped = BATCH_HEADER.unpack(build_batch(RECORDS, codec=Codec.ZSTD))
    data = first + good + pack_batch(zipped, b"no zstd frame")
    groups = decode_to_damage(data, walk(data, check_crc=True).batches)

    assert len(next(groups)) == len(RECORDS)
    with pytest.raises(InvalidRecord) as caught:
        next(groups)
    assert caught.value.position == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_bytes_behind_an_empty_batch_are_not_noticed(codec: Codec) -> None:
    """With a count of zero nothing is read, as in Kafka."""
    good = build_batch(RECORDS, codec=codec)
    header = BATCH_HEADER.unpack(good)._replace(records_count=0)
    data = pack_batch(header, good[BATCH_HEADER.size :])

    assert len(decode(data, walk(data).batches)) == 0


def test_damaged_compression_is_corruption() -> None:
    """Invalid compressed bytes are CorruptMessage with the batch's position."""
    header = BATCH_HEADER.unpack(build_batch(RECORDS, codec=Codec.ZSTD))
    data = build_batch(RECORDS) + pack_batch(header, b"no zstd frame")
    batches = walk(data).batches

    with pytest.raises(CorruptMessage) as caught:
        decode(data, batches)

    assert caught.value.position == batches.position[1]


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused(number: int) -> None:
    """Codec numbers above 4 do not exist."""
    good = build_batch(RECORDS)
    header = BATCH_HEADER.unpack(good)._replace(attributes=number)
    data = pack_batch(header, good[BATCH_HEADER.size :])

    with pytest.raises(UnsupportedCompressionType):
        decode(data, walk(data).batches)


def test_decompression_is_bounded() -> None:
    """No more than the limit is decompressed: per batch or, in ``decode``, in total."""
    big = [(0, None, bytes(100_000), ())]
    data = build_batch(big, codec=Codec.GZIP) * 3
    batches = walk(data).batches

    with pytest.raises(MessageTooLarge):
        decode(data, batches, limit=250_000)
    with pytest.raises(MessageTooLarge):
        list(decode_groups(data, batches, limit=90_000))
    groups = list(decode_groups(data, batches, limit=150_000, group_bytes=150_000))
    assert [len(group) for group in groups] == [2, 1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
@pytest.mark.parametrize("group_bytes", [1, 150, 10**9])
def test_groups_together_are_the_whole(codec: Codec, group_bytes: int) -> None:
    """Decoding in groups gives the same records as decoding at once."""
    data = b"".join(build_batch(RECORDS, base_offset=3 * i, codec=codec) for i in range(5))
    batches = walk(data).batches

    groups = list(decode_groups(data, batches, group_bytes=group_bytes))

    assert [o for group in groups for o in group.offset.tolist()] == list(range(15))
    assert sum(len(group.batches) for group in groups) == 5
    assert list(iterate(data, batches)) == [r for group in groups for r in group.records()]


def test_chosen_records_keep_their_batches() -> None:
    """A selection of records keeps their batches, types and data."""
    data = build_old(0, [(0, b"k", b"v")]) + build_batch(RECORDS, base_offset=1)
    columns = decode(data, walk(data).batches)

    chosen = columns.select(columns.key_size > 0)

    assert [record.key for record in chosen.records()] == [b"k", b"a"]
    assert chosen.timestamp_type.tolist() == [-1, 0]


def test_no_batches_have_no_records() -> None:
    """Decoding no batches gives an empty table."""
    assert len(decode(b"", walk(b"").batches)) == 0
    assert list(decode_groups(b"", walk(b"").batches)) == []
