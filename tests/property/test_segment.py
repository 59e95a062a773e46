"""A segment compared with a plain list of batches."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machinery.scale import examples
from tests.machinery.strategies import stored_batches

from tidelog.config.log_config import LogConfig
from tidelog.records.memory import walk
from tidelog.segment.segment import LogSegment
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from tests.machinery.strategies import BatchSample

DIRECTORY = "/topic-0"
QUICK = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

samples = stored_batches(start_offset=3)
intervals = st.integers(0, 400)


def open_segment(fs: CrashFileSystem, interval_bytes: int, base_offset: int = 0) -> LogSegment:
    config = LogConfig(index_interval_bytes=interval_bytes, segment_index_bytes=4_096)
    clock, rng = ManualClock(), Random(0)
    return LogSegment.open(DIRECTORY, base_offset, config, fs=fs, clock=clock, rng=rng)


def append(segment: LogSegment, data: bytes) -> None:
    batches = walk(data).batches
    if len(batches):
        segment.append(int(batches.last_offset[-1]), data, batches)


def filled(batches: list[BatchSample], interval_bytes: int, per_append: int = 1) -> CrashFileSystem:
    fs = CrashFileSystem()
    fs.make_directory(DIRECTORY)
    segment = open_segment(fs, interval_bytes)
    for start in range(0, len(batches), per_append):
        append(segment, b"".join(b.data for b in batches[start : start + per_append]))
    segment.become_inactive()
    segment.close()
    return fs


def files(fs: CrashFileSystem) -> dict[str, bytes]:
    found = {name: fs.read(f"{DIRECTORY}/{name}") for name in fs.list(DIRECTORY)}
    return {name: data for name, data in found.items() if data}


@QUICK
@given(batches=samples, interval_bytes=intervals, per_append=st.integers(1, 5))
def test_recovery_rebuilds_the_indexes_that_appends_made(
    batches: list[BatchSample], interval_bytes: int, per_append: int
) -> None:
    """They are identical to the byte, however the batches were split into appends."""
    fs = filled(batches, interval_bytes, per_append)
    expected = files(fs)
    segment = open_segment(fs, interval_bytes)

    cut = segment.recover()
    segment.close()

    assert (cut, files(fs)) == (0, expected)


@QUICK
@given(batches=samples, interval_bytes=intervals, data=st.data())
def test_recovery_keeps_exactly_the_whole_batches(
    batches: list[BatchSample], interval_bytes: int, data: st.DataObject
) -> None:
    """After truncation anywhere, the segment has the batches before that position."""
    fs = filled(batches, interval_bytes)
    segment = open_segment(fs, interval_bytes)
    size = data.draw(st.integers(0, segment.size_bytes))
    fs.open(segment.path, "w").truncate(size)
    ends = [sum(len(b.data) for b in batches[: i + 1]) for i in range(len(batches))]
    kept = sum(end <= size for end in ends)

    again = open_segment(fs, interval_bytes)
    cut = again.recover()
    again.close()

    assert cut == size - sum(len(b.data) for b in batches[:kept])
    assert files(fs) == files(filled(batches[:kept], interval_bytes))


@QUICK
@given(batches=samples, interval_bytes=intervals, data=st.data())
def test_any_offset_leads_to_the_batch_that_a_list_would_give(
    batches: list[BatchSample], interval_bytes: int, data: st.DataObject
) -> None:
    """With sparse or dense indexes, it is the first batch that ends at or above the offset."""
    segment = open_segment(filled(batches, interval_bytes), interval_bytes)
    end = batches[-1].end_offset if batches else 3
    offset = data.draw(st.integers(0, end + 1))

    found = segment.translate_offset(offset)

    position, expected = 0, None
    for batch in batches:
        if batch.end_offset > offset:
            expected = position
            break
        position += len(batch.data)
    assert (None if found is None else found.position) == expected


@QUICK
@given(batches=samples, interval_bytes=intervals, data=st.data())
def test_truncation_leaves_what_a_list_would_keep(
    batches: list[BatchSample], interval_bytes: int, data: st.DataObject
) -> None:
    """These are all batches that end below the offset, and their maximum timestamp."""
    fs = filled(batches, interval_bytes)
    segment = open_segment(fs, interval_bytes)
    end = batches[-1].end_offset if batches else 3
    offset = data.draw(st.integers(0, end + 1))
    kept = [batch for batch in batches if batch.end_offset <= offset]

    segment.truncate_to(offset)

    expected = b"".join(batch.data for batch in kept)
    timestamps = walk(expected).batches.max_timestamp.tolist()
    assert fs.read(segment.path) == expected
    assert segment.max_timestamp == max(timestamps, default=-1)
