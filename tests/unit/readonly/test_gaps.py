"""Why offsets hold no record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.stored_log import BATCHES, LOG_STARTS, flipped, home_with, name_of

from tidelog.errors import CorruptMessage
from tidelog.readonly.missing.gaps import Gap, GapCause, find_gaps
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker

if TYPE_CHECKING:
    from tests.machinery.directory_home import DataHome
    from tests.machinery.fields import ProducerFields

CLEANED = "cleaner-offset-checkpoint"
PRODUCER: ProducerFields = {"producer_id": 5, "producer_epoch": 0}


def gaps(home: DataHome, start: int, end: int, *, committed: bool = False) -> list[Gap]:
    log = home.read_only("t-0")
    return list(find_gaps(log, start, end, fs=home.fs, committed=committed))


def marker(offset: int, *, is_commit: bool) -> bytes:
    return bytes(
        build_marker(
            **PRODUCER,
            coordinator_epoch=0,
            is_commit=is_commit,
            timestamp=1,
            base_offset=offset,
        )
    )


def txn(offset: int) -> bytes:
    records = [(1, None, b"a", ()), (1, None, b"b", ())]
    return build_batch(
        records, base_offset=offset, base_sequence=offset, transactional=True, **PRODUCER
    )


def test_a_log_without_gaps_has_none() -> None:
    """Where every offset of the range has a record there is no gap, over segments too."""
    assert gaps(home_with(BATCHES[:3], BATCHES[3:]), 0, 6) == []
    assert gaps(home_with(BATCHES[:3]), 2, 2) == []


def test_what_was_deleted_is_told_by_the_log_start() -> None:
    """Below the first segment retention was at work; inside it only delete-records can be."""
    home = home_with(BATCHES[2:], first=2)
    home.write(LOG_STARTS, "0\n1\nt 0 4\n")

    assert gaps(home, 0, 6) == [
        (0, 2, GapCause.RETENTION),
        (2, 4, GapCause.DELETE_RECORDS),
    ]
    assert gaps(home, 1, 3) == [(1, 2, GapCause.RETENTION), (2, 3, GapCause.DELETE_RECORDS)]


def test_what_lies_beyond_the_end_is_told() -> None:
    """Offsets at or above the log end were truncated or never written."""
    assert gaps(home_with(BATCHES[:3]), 1, 9) == [(3, 9, GapCause.BEYOND_END)]
    assert gaps(home_with(BATCHES[:3]), 7, 9) == [(7, 9, GapCause.BEYOND_END)]


def test_holes_are_compaction_as_far_as_the_cleaner_came() -> None:
    """The cleaner's checkpoint is how far it came; a gap beyond it has no explanation."""
    home = home_with([BATCHES[0], BATCHES[2], BATCHES[5]])
    home.write(CLEANED, "0\n1\nt 0 4\n")

    assert gaps(home, 0, 6) == [
        (1, 2, GapCause.COMPACTION),
        (3, 4, GapCause.COMPACTION),
        (4, 5, GapCause.UNKNOWN),
    ]


def test_holes_inside_a_batch_are_found() -> None:
    """A cleaned batch keeps its bounds, though offsets in it are gone."""
    whole = build_batch([(1, b"k", b"v", ())] * 2, base_offset=0)
    home = home_with([whole, BATCHES[3]])

    assert gaps(home, 0, 4) == [(2, 3, GapCause.UNKNOWN)]


def test_markers_and_aborted_records_are_gaps_but_no_loss() -> None:
    """A marker is a gap for all; an aborted transaction for readers of committed records."""
    home = home_with()
    data = [txn(0), marker(2, is_commit=False), txn(3), marker(5, is_commit=True)]
    home.write(name_of(0), b"".join(data))
    markers = [(2, 3, GapCause.CONTROL), (5, 6, GapCause.CONTROL)]

    assert gaps(home, 0, 6) == markers
    assert gaps(home, 0, 6, committed=True) == [(0, 2, GapCause.ABORTED), *markers]
    assert not any(gap.is_loss for gap in gaps(home, 0, 6, committed=True))


def test_losses_are_what_a_reader_misses() -> None:
    """Deleted and truncated offsets are losses; holes in the log are none."""
    lost = {cause for cause in GapCause if Gap(0, 1, cause).is_loss}

    assert lost == {GapCause.RETENTION, GapCause.DELETE_RECORDS, GapCause.BEYOND_END}


def test_damage_is_no_gap() -> None:
    """A bad batch is an error."""
    with pytest.raises(CorruptMessage):
        gaps(home_with([BATCHES[0], BATCHES[2], flipped(BATCHES[3])], BATCHES[4:]), 0, 6)
