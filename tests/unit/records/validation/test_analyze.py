"""The first look at an append."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.codec.compression import Codec
from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    OffsetsOutOfOrder,
    UnsupportedCompressionType,
)
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.validation.analyze import Analyzed, analyze
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.rejection import Rejection
from tidelog.testing.old_batches import build_old

RECORDS = [(1000, b"k", b"v", ()), (1002, b"k", b"v", ())]
CLIENT, REPLICA = AppendOrigin.CLIENT, AppendOrigin.REPLICATION

pytestmark = pytest.mark.usefixtures("engine")


def batch(base_offset: int = 0, **fields: Any) -> bytes:
    return build_batch(RECORDS, base_offset=base_offset, **fields)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def looked_at(data: bytes, **changes: Any) -> Analyzed:
    options = {
        "origin": CLIENT,
        "leader_epoch": 5,
        "max_batch_bytes": 1000,
        "are_offsets_given": changes.get("origin") is REPLICA,
    }
    return analyze(data, **{**options, **changes})


def test_headers_are_summed_up() -> None:
    """Offsets, epoch, time and codec of an append follow from its headers."""
    data = batch(10, leader_epoch=3) + batch(20, leader_epoch=4, codec=Codec.GZIP) + batch(30)

    found = looked_at(data, origin=REPLICA)

    assert found[1:] == (len(data), 10, 31, 11, -1, 1002, Codec.GZIP)
    assert len(found.batches) == 3


def test_a_single_batch_is_summed_up_too() -> None:
    """One batch is first and last."""
    data = batch(codec=Codec.ZSTD)

    assert looked_at(data)[1:] == (len(data), 0, 1, 1, -1, 1002, Codec.ZSTD)


def test_a_cut_last_batch_is_no_part_of_the_append() -> None:
    """Bytes of a batch that does not end are left out."""
    found = looked_at(batch() + batch()[:-1])

    assert (found.valid_bytes, len(found.batches)) == (len(batch()), 1)


def test_nothing_is_an_empty_append() -> None:
    """No whole batch gives no valid bytes and no error."""
    assert looked_at(b"").valid_bytes == looked_at(batch()[:30]).valid_bytes == 0


def test_the_first_offset_of_an_old_batch_is_unknown() -> None:
    """Only decompression would tell it."""
    old = build_old(1, [(5, b"k", b"v"), (6, b"k", b"v")], base_offset=7, codec=Codec.GZIP)

    found = looked_at(old)

    assert (found.first_offset, found.last_offset, found.source_codec) == (-1, 8, Codec.GZIP)


@pytest.mark.parametrize("behind", [b"", batch()])
def test_a_clients_batch_begins_at_offset_zero(behind: bytes) -> None:
    """A leader assigns offsets, so a client must not."""
    with pytest.raises(InvalidRecord):
        looked_at(batch(1) + behind)

    looked_at(batch(1), origin=AppendOrigin.COORDINATOR)


def test_a_raft_leader_appends_its_own_epoch_only() -> None:
    """The epoch of each batch is the leader's.

    Scenario: UnifiedLogTest.testAppendAsLeaderWithRaftLeader
    """
    raft = AppendOrigin.RAFT_LEADER
    looked_at(batch(leader_epoch=5) + batch(2, leader_epoch=5), origin=raft)

    with pytest.raises(InvalidRecord):
        looked_at(batch(leader_epoch=5) + batch(2, leader_epoch=4), origin=raft)


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_above_the_limit_is_too_large(count: int) -> None:
    """Whole batches are compared with the limit, and the whole request is counted."""
    data = batch() * count
    seen: list[tuple[Rejection, int]] = []

    with pytest.raises(MessageTooLarge) as caught:
        looked_at(data, max_batch_bytes=len(batch()) - 1, on_rejected=lambda *a: seen.append(a))

    assert caught.value.size_bytes == len(batch())
    assert seen == [(Rejection.BYTES_REJECTED, len(data))]
    looked_at(data, max_batch_bytes=len(batch()))


def test_a_wrong_crc_is_corruption() -> None:
    """The CRC is checked, counted and refused."""
    seen: list[tuple[Rejection, int]] = []

    with pytest.raises(CorruptMessage) as caught:
        looked_at(batch() + damaged(batch()), on_rejected=lambda *a: seen.append(a))

    assert caught.value.position == len(batch())
    assert seen == [(Rejection.INVALID_MESSAGE_CRC, 1)]


def test_a_malformed_length_is_corruption() -> None:
    """What can be no batch is refused with all that came with it."""
    with pytest.raises(CorruptMessage):
        looked_at(batch() + bytes(100))


def test_origin_and_size_are_checked_before_the_crc() -> None:
    """Errors come in Kafka's order."""
    with pytest.raises(InvalidRecord):
        looked_at(damaged(batch(1)))
    with pytest.raises(MessageTooLarge):
        looked_at(damaged(batch()), max_batch_bytes=10)


def test_an_earlier_batchs_error_comes_first() -> None:
    """Batches are judged one after the other."""
    with pytest.raises(InvalidRecord):
        looked_at(batch(1) + damaged(batch()))
    with pytest.raises(CorruptMessage):
        looked_at(damaged(batch()) + batch(1))


@pytest.mark.parametrize("offsets", [(10, 11), (10, 10), (10, 5), (-2,)])
def test_given_offsets_must_rise(offsets: tuple[int, ...]) -> None:
    """A follower's batches follow each other; last offsets are compared."""
    data = b"".join(batch(offset, last_offset=offset + 1) for offset in offsets)
    is_rising = offsets == (10, 11)  # 11 to 12 after 10 to 11: only last offsets count

    if is_rising:
        looked_at(data, origin=REPLICA)
    else:
        with pytest.raises(OffsetsOutOfOrder):
            looked_at(data, origin=REPLICA)


def test_a_follower_skips_batches_of_newer_epochs() -> None:
    """A batch of a later epoch than the follower's, and all after it, are left (KAFKA-18723)."""
    good, newer = batch(0, leader_epoch=5), batch(2, leader_epoch=6)

    kept = looked_at(good + newer + batch(4, leader_epoch=5), origin=REPLICA)
    none = looked_at(newer + good, origin=REPLICA)
    unknown = looked_at(batch(0, leader_epoch=-1), origin=REPLICA)

    assert [kept.valid_bytes, none.valid_bytes] == [len(good), 0]
    assert unknown.valid_bytes == len(batch())


def test_a_skipped_batch_may_be_damaged() -> None:
    """What is skipped is not looked at."""
    good = batch(0, leader_epoch=5)

    kept = looked_at(good + damaged(batch(2, leader_epoch=6)), origin=REPLICA)

    assert kept.valid_bytes == len(good)


@pytest.mark.parametrize("behind", [b"", batch()])
def test_a_codec_that_does_not_exist_is_refused(behind: bytes) -> None:
    """Codec numbers 5 to 7 are no codecs."""
    header = BATCH_HEADER.unpack(batch())._replace(attributes=5)

    with pytest.raises(UnsupportedCompressionType):
        looked_at(pack_batch(header, batch()[BATCH_HEADER.size :]) + behind)
