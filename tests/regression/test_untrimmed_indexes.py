"""Indexes whose trimming was undone by a power cut, in a segment that is not recovered."""

from __future__ import annotations

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.testing import build_batch

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def flushed_then_rolled(*, is_synced: bool, interval_bytes: int = 0) -> LogHome:
    """Leave a segment that was flushed while active, and rolled afterwards."""
    home = LogHome(
        index_interval_bytes=interval_bytes, segment_index_bytes=1200, retention_ms=HOUR_MS
    )
    home.clock.advance(NOW_MS - home.clock.now_ms())
    log = home.open()
    for number in range(5):
        log.append_as_leader(build_batch([(NOW_MS, b"k", b"%d" % number, ())]))
    log.flush()
    log.roll()
    if is_synced:
        home.clock.advance(0)  # runs flush-log
    log.append_as_leader(build_batch([(NOW_MS, b"k", b"next", ())]))
    log.flush()
    home.power_cut("none")
    return home


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_roll_makes_the_trimmed_indexes_durable(*, is_synced: bool) -> None:
    """This holds even without data to flush: the recovery point is at the new segment already."""
    home = flushed_then_rolled(is_synced=is_synced)

    sizes = {
        name: len(home.read(name)) for name in home.files("index") if name.startswith("0" * 20)
    }

    assert sizes == {f"{0:020d}.index": 4 * 8, f"{0:020d}.timeindex": 12}


@pytest.mark.parametrize("is_synced", [True, False])
def test_zeros_behind_the_entries_do_not_make_a_segment_old(*, is_synced: bool) -> None:
    """They were read as a maximum timestamp of 1970, and retention deleted new segments."""
    home = flushed_then_rolled(is_synced=is_synced)

    log = home.open(clean=False, recovery_point=6)
    log.update_high_watermark(6)

    assert log.delete_old_segments(NOW_MS + 1000) == 0
    assert len(all_values(log)) == 6
    assert next(iter(log.segments)).max_timestamp == NOW_MS


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_power_cut_takes_no_entry_that_a_roll_has_written(*, is_synced: bool) -> None:
    """Without the last one, lookups by time passed over records, and retention was early."""
    home = flushed_then_rolled(is_synced=is_synced, interval_bytes=4096)

    log = home.open(clean=False, recovery_point=6)
    found = log.fetch_offset_by_timestamp(NOW_MS)

    assert found is not None
    assert (found.offset, next(iter(log.segments)).max_timestamp) == (0, NOW_MS)
