"""Where a batch read of one log starts and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.stored_log import BATCHES, LOG_STARTS, home_with, name_of

from tidelog.errors import DataLoss, InvalidArgument
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.spark.options.offset_choice import EARLIEST, LATEST, OffsetChoice
from tidelog.spark.options.source_options import ReadOptions, TopicChoice
from tidelog.spark.read.data_loss import DataLossPolicy
from tidelog.spark.read.offset_bounds import bounds, check_complete

if TYPE_CHECKING:
    from tests.machinery.directory_home import DataHome
    from tests.machinery.fields import ProducerFields

STRICT = DataLossPolicy(fail_on_data_loss=True)
LENIENT = DataLossPolicy(fail_on_data_loss=False)


def found(
    home: DataHome,
    start: int | OffsetChoice = EARLIEST,
    end: int | OffsetChoice = LATEST,
    policy: DataLossPolicy = STRICT,
    *,
    committed: bool = False,
) -> tuple[int, int]:
    """Return the bounds of a read of t-0."""
    starting, ending = (
        choice if isinstance(choice, OffsetChoice) else OffsetChoice(choice)
        for choice in (start, end)
    )
    options = ReadOptions(
        ("/data",), TopicChoice(topics=("t",)), starting, ending, committed=committed
    )
    return bounds(home.read_only("t-0"), options, policy)


def timed(*times: int) -> DataHome:
    """Return a log with one batch of one record for each timestamp."""
    return home_with(
        [build_batch([(ms, None, b"v", ())], base_offset=at) for at, ms in enumerate(times)]
    )


def at(ms: int, *, takes_latest: bool = False) -> OffsetChoice:
    return OffsetChoice(ms, is_time=True, takes_latest=takes_latest, option="startingTimestamp")


def test_by_default_a_log_is_read_from_its_start_to_its_high_watermark() -> None:
    """Earliest is the log start offset, latest the high watermark."""
    home = home_with(BATCHES[:5], watermark=4)
    home.write(LOG_STARTS, "0\n1\nt 0 2\n")

    assert found(home) == (2, 4)


def test_explicit_offsets_are_used_unchanged() -> None:
    """A start is inclusive, an end exclusive; they may be equal."""
    home = home_with(BATCHES[:5])

    assert found(home, 1, 3) == (1, 3)
    assert found(home, 3, 3) == (3, 3)
    assert found(home, 5) == (5, 5)


def test_a_timestamp_stands_for_the_first_record_at_or_after_it() -> None:
    """A start or end by timestamp is the first record with that timestamp or a later one."""
    home = timed(100, 200, 200, 300)

    assert found(home, at(150), at(250, takes_latest=True)) == (1, 3)
    assert found(home, at(200), at(200, takes_latest=True)) == (1, 1)
    assert found(home, at(0), at(999, takes_latest=True)) == (0, 4)


def test_a_start_later_than_all_records_is_an_error_unless_latest_is_accepted() -> None:
    """Without such a record the strategy decides: an error that names it, or the log's end."""
    home = timed(100, 200)

    assert found(home, at(300, takes_latest=True)) == (2, 2)
    with pytest.raises(InvalidArgument, match=r"timestamp 300 .*startingTimestamp"):
        found(home, at(300))


def test_a_read_that_ends_before_it_starts_is_refused() -> None:
    """An explicit end below the start is an error."""
    with pytest.raises(InvalidArgument, match=r"the end offset 1 .* is below the start offset 3"):
        found(home_with(BATCHES[:5]), 3, 1)


def test_offsets_below_the_log_start_are_lost() -> None:
    """They are an error with the cause, or a warning if data loss is accepted."""
    deleted = home_with(BATCHES[:5])
    deleted.write(LOG_STARTS, "0\n1\nt 0 2\n")
    retained = home_with(BATCHES[2:5], first=2)

    with pytest.raises(
        DataLoss, match=r"no offsets \[0, 2\): delete-records moved the log start offset to 2"
    ):
        found(deleted, 0)
    with pytest.raises(DataLoss, match=r"t-0 has no offsets \[1, 2\): retention or delete-records"):
        found(retained, 1, 4)
    assert found(retained, 1, 4, LENIENT) == (2, 4)
    assert found(retained, 0, 1, LENIENT) == (1, 1)


def test_offsets_beyond_the_log_end_are_lost() -> None:
    """They were truncated or never written: an error, or a warning if data loss is accepted."""
    home = home_with(BATCHES[:3])

    with pytest.raises(DataLoss, match=r"no offsets \[3, 9\): the log ends at 3"):
        found(home, 1, 9)
    with pytest.raises(DataLoss, match=r"no offsets \[3, 7\): the log ends at 3"):
        found(home, 7)
    assert found(home, 1, 9, LENIENT) == (1, 3)
    assert found(home, 7, LATEST, LENIENT) == (7, 7)


def test_the_warning_names_topic_range_and_cause(caplog: pytest.LogCaptureFixture) -> None:
    """If data loss is accepted, one warning names the lost offsets and the cause."""
    found(home_with(BATCHES[2:5], first=2), 0, 4, LENIENT)

    assert [record.getMessage() for record in caplog.records] == [
        (
            "data-loss: t-0 has no offsets [0, 2): retention or delete-records deleted the "
            "segments below offset 2"
        )
    ]


def test_offsets_above_the_high_watermark_are_not_lost() -> None:
    """They cannot be read yet: an end there is an error that names readUpTo; a start is allowed."""
    home = home_with(BATCHES[:5], watermark=2)

    with pytest.raises(InvalidArgument, match=r"up to offset 2 now, not to 4.*readUpTo=logEnd"):
        found(home, 0, 4)
    assert found(home, 0, 4, LENIENT) == (0, 2)
    assert found(home, 3) == (3, 3)


def test_committed_reads_end_at_the_last_stable_offset() -> None:
    """An open transaction hides its records, and all later ones, until its marker is written."""
    producer: ProducerFields = {"producer_id": 5, "producer_epoch": 0}
    open_txn = build_batch(
        [(1, None, b"v", ())], base_offset=2, base_sequence=0, transactional=True, **producer
    )
    home = home_with([*BATCHES[:2], open_txn, BATCHES[3]])
    decided = home_with([*BATCHES[:2], open_txn])
    marker = build_marker(
        **producer, coordinator_epoch=0, is_commit=True, timestamp=1, base_offset=3
    )
    decided.write(name_of(0), b"".join([*BATCHES[:2], open_txn, bytes(marker)]))

    assert found(home, committed=True) == (0, 2)
    assert found(home) == (0, 4)
    assert found(decided, committed=True) == (0, 4)


def test_offsets_must_name_every_partition_and_no_other() -> None:
    """Offsets by partition that lack one, or name another, are an error that lists them."""
    choice = OffsetChoice({("t", 0): 1, ("t", 2): 1}, option="startingOffsets")

    check_complete(choice, [("t", 0), ("t", 2)])
    check_complete(OffsetChoice(EARLIEST), [("t", 0)])
    with pytest.raises(
        InvalidArgument, match=r"startingOffsets must .* missing: t-1; not read: t-2"
    ):
        check_complete(choice, [("t", 0), ("t", 1)])
