"""Worked examples: small cases whose outcome is known from Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from tests.machinery.log_home import LogHome
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.records.control import build_marker
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tests.machinery.fields import TransactionFields

    from tidelog.records.builder import BatchFields


NOW_MS = 1_700_000_000_000


def batch(count: int = 1, *, time_ms: int = NOW_MS, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch of some records."""
    return build_batch([(time_ms, b"k", b"v", ())] * count, **fields)


def transaction_of(producer_id: int) -> TransactionFields:
    """Return the fields of the first batch of a producer's transaction."""
    return {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }


def test_an_old_compressed_set_far_away_begins_a_segment_as_low_as_it_may() -> None:
    """Of offsets 2**31 + 1 and 2**31 + 2 only the last is known: the segment begins at 3."""
    log = LogHome().open()
    log.append_as_follower(batch(leader_epoch=0), 0)
    far = bytearray(build_old(1, [(NOW_MS, b"k", b"a"), (NOW_MS, b"k", b"b")], codec=Codec.GZIP))
    far[:8] = (2**31 + 2).to_bytes(8, "big")

    log.append_as_follower(bytes(far), 0)

    assert log.segments.base_offsets == [0, 3]


def test_the_watermark_is_clamped_to_where_a_truncation_ends() -> None:
    """6 becomes 3 by a truncation to 3; a full one to 4 sets start, watermark and end to 4."""
    log = LogHome().open()
    for _ in range(6):
        log.append_as_leader(batch())
    log.update_high_watermark(6)

    log.truncate_to(3)
    cut = log.high_watermark
    log.truncate_fully_and_start_at(4)

    assert cut == 3
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 4, 4)


def test_one_retention_pass_goes_on_behind_what_the_log_start_takes() -> None:
    """A young oldest segment protects the others; below the log start it goes, and they expire."""
    size = len(batch())
    home = LogHome(internal_segment_bytes=size, retention_ms=1000)
    log = home.open()
    for age_ms in (0, 5000, 0):
        log.append_as_leader(batch(time_ms=NOW_MS - age_ms))
    log.update_high_watermark(3)

    protected = log.delete_old_segments()
    log.delete_records(1)
    deleted = log.delete_old_segments()

    assert (protected, deleted) == (0, 2)
    assert log.segments.base_offsets == [2]


def test_an_abort_is_indexed_with_the_stable_offset_of_that_moment() -> None:
    """While another producer's transaction is open since 100, that is 100, recovered or not."""
    home = LogHome()
    log = home.open(log_start_offset=100)
    marker = build_marker(
        producer_id=2,
        producer_epoch=0,
        coordinator_epoch=0,
        is_commit=False,
        timestamp=NOW_MS,
        base_offset=106,
        leader_epoch=0,
    )
    for data in (
        batch(5, base_offset=100, leader_epoch=0, **transaction_of(1)),
        batch(1, base_offset=105, leader_epoch=0, **transaction_of(2)),
        marker,
    ):
        log.append_as_follower(data, 0)
    live = log.segments.active.txn_index.all_aborted()
    home.restart()

    log = home.open(clean=False, log_start_offset=100)

    assert live == log.segments.active.txn_index.all_aborted()
    assert [(txn.first_offset, txn.last_offset, txn.last_stable_offset) for txn in live] == [
        (105, 106, 100)
    ]
