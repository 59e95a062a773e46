"""The first check of an append."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Unpack

import pytest
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    OffsetsOutOfOrder,
    UnsupportedCompressionType,
)
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import BatchSpec, build_batch, pack_batch
from tidelog.records.validation.analyze import Analyzed, analyze
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.rejection import Rejection

if TYPE_CHECKING:
    from tidelog.records.builder import BatchFields


RECORDS = [(1000, b"k", b"v", ()), (1002, b"k", b"v", ())]
CLIENT, REPLICA = AppendOrigin.CLIENT, AppendOrigin.REPLICATION

pytestmark = pytest.mark.usefixtures("engine")


def batch(offset: int = 0, **fields: Unpack[BatchFields]) -> bytes:
    return build_batch(RECORDS, BatchSpec(base_offset=offset), **fields)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def analyzed(data: bytes, **changes: Any) -> Analyzed:
    options = {
        "origin": CLIENT,
        "leader_epoch": 5,
        "max_batch_bytes": 1000,
        "require_offsets_monotonic": changes.get("origin") is REPLICA,
    }
    return analyze(data, **{**options, **changes})


def test_headers_are_summed_up() -> None:
    """Offsets, epoch, timestamp and codec of an append follow from its batch headers."""
    data = batch(10, leader_epoch=3) + batch(20, leader_epoch=4, codec=Codec.GZIP) + batch(30)

    found = analyzed(data, origin=REPLICA)

    assert found[1:] == (len(data), 10, 31, 11, -1, 1002, Codec.GZIP)
    assert len(found.batches) == 3


def test_a_single_batch_is_summed_up_too() -> None:
    """A single batch is both first and last."""
    data = batch(codec=Codec.ZSTD)

    assert analyzed(data)[1:] == (len(data), 0, 1, 1, -1, 1002, Codec.ZSTD)


def test_an_incomplete_last_batch_is_ignored() -> None:
    """The bytes of an incomplete last batch are ignored."""
    found = analyzed(batch() + batch()[:-1])

    assert (found.valid_bytes, len(found.batches)) == (len(batch()), 1)


def test_nothing_is_an_empty_append() -> None:
    """Without a whole batch there are no valid bytes and no error."""
    assert analyzed(b"").valid_bytes == analyzed(batch()[:30]).valid_bytes == 0


def test_the_first_offset_of_an_old_batch_is_unknown() -> None:
    """It is known only after decompression."""
    old = build_old(1, [(5, b"k", b"v"), (6, b"k", b"v")], base_offset=7, codec=Codec.GZIP)

    found = analyzed(old)

    assert (found.first_offset, found.last_offset, found.source_codec) == (-1, 8, Codec.GZIP)


@pytest.mark.parametrize("behind", [b"", batch()])
def test_a_clients_batch_begins_at_offset_zero(behind: bytes) -> None:
    """A leader assigns offsets, so clients must not."""
    with pytest.raises(InvalidRecord):
        analyzed(batch(1) + behind)

    analyzed(batch(1), origin=AppendOrigin.COORDINATOR)


def test_a_raft_leader_appends_its_own_epoch_only() -> None:
    """The epoch of each batch must be the leader's.

    Scenario: UnifiedLogTest.testAppendAsLeaderWithRaftLeader
    """
    raft = AppendOrigin.RAFT_LEADER
    analyzed(batch(leader_epoch=5) + batch(2, leader_epoch=5), origin=raft)

    with pytest.raises(InvalidRecord):
        analyzed(batch(leader_epoch=5) + batch(2, leader_epoch=4), origin=raft)


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_above_the_limit_is_too_large(count: int) -> None:
    """The limit applies to each whole batch, and the bytes of the whole request are counted."""
    data = batch() * count
    seen: list[tuple[Rejection, int]] = []

    with pytest.raises(MessageTooLarge) as caught:
        analyzed(data, max_batch_bytes=len(batch()) - 1, on_rejected=lambda *a: seen.append(a))

    assert caught.value.size_bytes == len(batch())
    assert seen == [(Rejection.BYTES_REJECTED, len(data))]
    analyzed(data, max_batch_bytes=len(batch()))


def test_a_wrong_crc_is_corruption() -> None:
    """A wrong CRC is counted and rejected."""
    seen: list[tuple[Rejection, int]] = []

    with pytest.raises(CorruptMessage) as caught:
        analyzed(batch() + damaged(batch()), on_rejected=lambda *a: seen.append(a))

    assert caught.value.position == len(batch())
    assert seen == [(Rejection.INVALID_MESSAGE_CRC, 1)]


def test_a_malformed_length_is_corruption() -> None:
    """An invalid length rejects the whole append."""
    with pytest.raises(CorruptMessage):
        analyzed(batch() + bytes(100))


def test_origin_and_size_are_checked_before_the_crc() -> None:
    """Errors come in Kafka's order."""
    with pytest.raises(InvalidRecord):
        analyzed(damaged(batch(1)))
    with pytest.raises(MessageTooLarge):
        analyzed(damaged(batch()), max_batch_bytes=10)


def test_an_earlier_batchs_error_comes_first() -> None:
    """Batches are checked in order."""
    with pytest.raises(InvalidRecord):
        analyzed(batch(1) + damaged(batch()))
    with pytest.raises(CorruptMessage):
        analyzed(damaged(batch()) + batch(1))


@pytest.mark.parametrize("offsets", [(10, 11), (10, 10), (10, 5), (-2,)])
def test_a_followers_offsets_must_increase(offsets: tuple[int, ...]) -> None:
    """The last offsets of a follower's batches must increase."""
    data = b"".join(batch(offset, last_offset=offset + 1) for offset in offsets)
    is_rising = offsets == (10, 11)  # 11 to 12 after 10 to 11: only last offsets are compared

    if is_rising:
        analyzed(data, origin=REPLICA)
    else:
        with pytest.raises(OffsetsOutOfOrder):
            analyzed(data, origin=REPLICA)


def test_a_follower_skips_batches_of_newer_epochs() -> None:
    """A batch of a later epoch than the follower's, and all after it, are skipped (KAFKA-18723)."""
    good, newer = batch(0, leader_epoch=5), batch(2, leader_epoch=6)

    kept = analyzed(good + newer + batch(4, leader_epoch=5), origin=REPLICA)
    none = analyzed(newer + good, origin=REPLICA)
    unknown = analyzed(batch(0, leader_epoch=-1), origin=REPLICA)

    assert [kept.valid_bytes, none.valid_bytes] == [len(good), 0]
    assert unknown.valid_bytes == len(batch())


def test_skipped_batches_are_logged_with_kafkas_values(caplog: pytest.LogCaptureFixture) -> None:
    """Which log, the first batch skipped, where it came from, its epoch and the replica's."""
    with caplog.at_level(logging.INFO):
        analyzed(batch(7, leader_epoch=6), origin=REPLICA, log_name="t-0")

    line = "batches-skipped log=t-0 base_offset=7 origin=replication batch_epoch=6 leader_epoch=5"
    assert caplog.messages == [line]


def test_a_skipped_batch_may_be_damaged() -> None:
    """A skipped batch is not checked."""
    good = batch(0, leader_epoch=5)

    kept = analyzed(good + damaged(batch(2, leader_epoch=6)), origin=REPLICA)

    assert kept.valid_bytes == len(good)


@pytest.mark.parametrize("behind", [b"", batch()])
def test_a_codec_that_does_not_exist_is_refused(behind: bytes) -> None:
    """Codec numbers 5 to 7 do not exist."""
    header = BATCH_HEADER.unpack(batch())._replace(attributes=5)

    with pytest.raises(UnsupportedCompressionType):
        analyzed(pack_batch(header, batch()[BATCH_HEADER.size :]) + behind)
