"""The offsets of a log with their places, as one value of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import pytest
from tests.machinery.log_home import LogHome

from tidelog.errors import OffsetOutOfRange
from tidelog.log.offsets import LogOffsetSnapshot
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tests.machinery.fields import TransactionFields

    from tidelog.log.log import Log
    from tidelog.log.reading.log_reads import LogView
    from tidelog.records.builder import BatchFields

NOW_MS = 1_700_000_000_000
RECORDS = 5


def batch(count: int = RECORDS, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch of ``count`` records."""
    return build_batch([(NOW_MS, b"k", b"v", ())] * count, **fields)


SIZE = len(batch())


def filled(batches: int = 4) -> Log:
    """Make a log of batches of five records, two in each segment."""
    log = LogHome(internal_segment_bytes=2 * SIZE).open()
    for _ in range(batches):
        log.append_as_leader(batch())
    return log


def test_the_snapshot_has_all_offsets_with_their_places() -> None:
    """Log start, last stable offset, high watermark, log end: segment and byte position of each."""
    log = filled()
    fields: TransactionFields = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)
    log.append_as_leader(batch(**fields), verification_guard=guard)
    log.append_as_leader(batch())
    log.update_high_watermark(25)
    log.delete_records(7)

    assert log.offset_snapshot() == LogOffsetSnapshot(
        log_start=LogOffsetMetadata(7, 0, SIZE),
        last_stable=LogOffsetMetadata(20, 20, 0),
        high_watermark=LogOffsetMetadata(25, 20, SIZE),
        log_end=LogOffsetMetadata(30, 20, 2 * SIZE),
    )


def test_the_places_of_an_empty_log_are_its_end() -> None:
    """Before anything was appended, and after a full truncation."""
    log = filled()
    log.truncate_fully_and_start_at(40)

    assert set(log.offset_snapshot()) == {LogOffsetMetadata(40, 40, 0)}
    assert set(LogHome().open().offset_snapshot()) == {LogOffsetMetadata(0, 0, 0)}


@pytest.mark.parametrize(
    ("offset", "place"),
    [(5, (0, SIZE)), (7, (0, SIZE)), (10, (10, 0)), (19, (10, SIZE)), (20, (10, 2 * SIZE))],
)
def test_an_offset_has_the_place_of_the_batch_that_holds_it(
    offset: int, place: tuple[int, int]
) -> None:
    """The offset stays the one asked for; that of the log end is where the next batch begins.

    Scenario: UnifiedLogTest.testConvertToOffsetMetadataDoesNotThrowOffsetOutOfRangeError
    """
    assert filled().offset_metadata(offset) == LogOffsetMetadata(offset, *place)


@pytest.mark.parametrize("offset", [-1, 4, 21])
def test_an_offset_outside_the_log_has_no_place(offset: int) -> None:
    """Below the log start or above the log end."""
    log = filled()
    log.update_high_watermark(20)
    log.delete_records(5)

    with pytest.raises(OffsetOutOfRange):
        log.offset_metadata(offset)


def test_a_snapshot_beside_a_truncation_is_of_one_moment() -> None:
    """A place looked up while the log was cut does not count: it is looked up again."""
    log = filled()
    log.update_high_watermark(17)
    looks: list[int] = []

    def question(view: LogView) -> int:
        looks.append(view.offsets.log_end_offset)
        if len(looks) == 1:
            log.truncate_to(10)
        return view.offsets.log_end_offset

    assert log._state.look_uncut("asking", question) == 10
    assert looks == [20, 10]


def test_the_place_of_a_watermark_that_moved_meanwhile_is_not_kept() -> None:
    """The log was cut and written again in between: the same offset lies elsewhere."""
    log = filled(2)
    log.update_high_watermark(8)
    view = log._state.view
    log.truncate_to(5)
    log.append_as_leader(batch(1))
    log.append_as_leader(batch(4))
    log.update_high_watermark(8)

    log._state.resolve_high_watermark(view)

    assert log.offset_snapshot().high_watermark == LogOffsetMetadata(8, 6, 0)
