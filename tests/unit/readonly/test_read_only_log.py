"""Read-only opens: which records are seen. No lock, no change, also beside a live writer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.directory_home import DataHome, record
from tests.machinery.stored_log import (
    BATCHES,
    LOG_STARTS,
    SIZE,
    VALUES,
    WATERMARKS,
    home_with,
    index,
    name_of,
    read,
    whole,
)
from tests.machinery.strategies import stored_batches

from tidelog.codec.compression import Codec
from tidelog.errors import (
    InvalidArgument,
    InvalidTopic,
    KafkaStorageError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.builder import build_batch
from tidelog.records.isolation import ReadUpTo

if TYPE_CHECKING:
    from tests.machinery.strategies import BatchSample


# Offsets


def test_a_log_is_read_from_its_start_to_its_high_watermark() -> None:
    """Records beyond the checkpointed high watermark are not shown by default."""
    home = home_with(BATCHES[:2], BATCHES[2:], watermark=5)
    log = home.read_only("t-0")

    assert (VALUES[:5], None) == whole(home)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 5, 6)
    assert [log.end_offset(), log.end_offset(ReadUpTo.LOG_END)] == [5, 6]


def test_without_a_line_the_high_watermark_is_the_log_end() -> None:
    """Kafka writes none for a young partition."""
    assert whole(home_with(BATCHES)) == (VALUES, None)


@pytest.mark.parametrize(("line", "expected"), [(0, 4), (4, 4), (5, 5), (6, 6)])
def test_the_high_watermark_lies_in_the_log(line: int, expected: int) -> None:
    """The line is clamped to the log start; see below for one above the end."""
    home = home_with(BATCHES[4:], first=4, watermark=line)

    assert expected == home.read_only("t-0").high_watermark


def test_the_log_start_may_lie_inside_a_segment() -> None:
    """Records below the checkpointed log start are deleted, though their bytes are there."""
    home = home_with(BATCHES)
    home.write(LOG_STARTS, "0\n1\nt 0 2\n")

    assert (VALUES[2:], None) == whole(home)


def test_lines_are_those_of_the_live_partition_only() -> None:
    """A directory that waits for deletion has the same topic and number, and no lines."""
    home = home_with(BATCHES, watermark=5)
    home.write(LOG_STARTS, "0\n1\nt 0 2\n")
    name = f"t-0.{'a' * 32}-delete"
    home.fs.rename(f"{home.path}/t-0", f"{home.path}/{name}")

    assert read(home.read_only(name)) == (VALUES, None)


def test_an_empty_log_has_nothing_to_read() -> None:
    """With an empty segment, and without any segment at all."""
    for home in (home_with([], watermark=0), home_with(), home_with([], first=9)):
        assert whole(home) == ([], None)
        assert home.read_only("t-0").splits(0, 0, 1) == []


@pytest.mark.parametrize("bounds", [(3, 6), (9, 10), (4, 7)])
def test_a_range_outside_the_log_is_refused(bounds: tuple[int, int]) -> None:
    """Below the start as deleted, above the end as lost: nobody takes less for all."""
    home = home_with(BATCHES[4:], first=4)

    values, error = read(home.read_only("t-0"), *bounds)

    assert ([], OffsetOutOfRange) == (values, type(error))
    assert str(error).startswith("t-0: ")


@pytest.mark.parametrize(("start", "end"), [(a, b) for a in range(7) for b in range(a, 7)])
def test_any_range_gives_its_records(start: int, end: int) -> None:
    """Exactly the records with offsets in the half-open range, across segments and batches."""
    pair = build_batch([record(VALUES[2]), record(VALUES[3])], base_offset=2)
    home = home_with([BATCHES[0], BATCHES[1], pair], watermark=6)
    home.write(name_of(4), b"".join(BATCHES[4:]))

    assert (VALUES[start:end], None) == read(home.read_only("t-0"), start, end)


def test_records_before_a_time_are_left_out() -> None:
    """``since_ms`` is inclusive, and skips whole batches by their headers."""
    times = [5, 9, 7]
    batches = [
        build_batch([(time, None, bytes([time]), ())], base_offset=n)
        for n, time in enumerate(times)
    ]

    found = read(home_with(batches).read_only("t-0"), since_ms=7)

    assert found == ([b"\x09", b"\x07"], None)


def test_compacted_logs_have_holes() -> None:
    """Offsets that are not there are no damage below the next batch."""
    home = home_with([BATCHES[0], BATCHES[3]], watermark=4)
    home.write(name_of(5), BATCHES[5])
    home.write(WATERMARKS, "0\n1\nt 0 6\n")

    assert ([VALUES[0], VALUES[3], VALUES[5]], None) == whole(home)
    assert ([VALUES[3]], None) == read(home.read_only("t-0"), 1, 5)


def test_compressed_batches_are_read() -> None:
    """Every codec, each record with its own offset."""
    batches, expected = [], []
    for number, codec in enumerate(Codec):
        values = [bytes([number, n]) * 50 for n in range(3)]
        expected += values
        batches.append(
            build_batch([record(v) for v in values], base_offset=3 * number, codec=codec)
        )

    assert (expected, None) == whole(home_with(batches))


# Opening


def test_the_checkpoints_are_read_before_the_listing() -> None:
    """What they promise is then in the listing, however fast a writer is."""
    home = home_with(BATCHES[:2], watermark=2)

    class Writer:
        """Appends as soon as the segments are listed."""

        def list(self, path: str) -> list[str]:
            """List, after a writer has rolled, appended and written its checkpoint."""
            home.write(name_of(2), b"".join(BATCHES[2:]))
            home.write(WATERMARKS, "0\n1\nt 0 6\n")
            return home.fs.list(path)

        def __getattr__(self, name: str) -> Any:
            return getattr(home.fs, name)

    fs: Any = Writer()
    log = open_read_only(f"{home.path}/t-0", fs=fs)

    assert (log.high_watermark, log.log_end_offset) == (2, 6)


@pytest.mark.parametrize("content", ["1\n0\n", "0\n1\nt zero 1\n", "0\n9\n", b"\xff"])
def test_a_checkpoint_that_does_not_read_is_bad_data(content: str) -> None:
    """And no bad argument of the caller."""
    home = home_with(BATCHES)
    home.write(WATERMARKS, content)

    with pytest.raises(KafkaStorageError):
        home.read_only("t-0")


def test_only_a_partitions_directory_can_be_opened() -> None:
    """Its name says which partition it is."""
    home = home_with(BATCHES)
    with pytest.raises(InvalidTopic):
        home.read_only("")
    with pytest.raises(UnknownTopicOrPartition, match="no partition t-1 in /data"):
        home.read_only("t-1")


def test_nothing_is_changed() -> None:
    """Reading does no operation that changes the disk or waits for it."""
    home = home_with(BATCHES[:2], BATCHES[2:], tail=b"\0" * 50, watermark=5)
    before = len(home.fs.operations)
    log = home.read_only("t-0")
    read(log)
    log.splits(0, 5, 1)
    log.close()

    assert before == len(home.fs.operations)


def test_beside_a_live_writer_each_opening_sees_what_was_flushed() -> None:
    """In the same process, while the log rolls, and without an open file of the writer's."""
    home = DataHome()
    with home.open(overrides={"internal.segment.bytes": "300"}) as directory:
        directory.create_topic("t")
        for number in range(20):
            directory.partition("t", 0).append_records([record(bytes([number]))])
            directory.flush()

            assert [bytes([n]) for n in range(number + 1)] == home.values("t-0")


def test_an_opening_keeps_to_its_moment() -> None:
    """Records appended after the log's end was looked for are not seen."""
    home = home_with(BATCHES[:3])
    log = home.read_only("t-0")
    assert log.log_end_offset == 3
    home.write(name_of(0), b"".join(BATCHES))

    assert (VALUES[:3], None) == read(log)


# Splits


@settings(max_examples=50, deadline=None)
@given(
    samples=stored_batches(max_batches=6, max_records=2),
    cuts=st.lists(st.integers(0, 6), max_size=2),
    target=st.integers(1, 400),
    bounds=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    rubbish=st.none() | st.binary(max_size=64),
)
def test_splits_cover_a_range_exactly(
    samples: list[BatchSample],
    cuts: list[int],
    target: int,
    bounds: tuple[int, int],
    rubbish: bytes | None,
) -> None:
    """Without gap or overlap, in order, whatever the index says; and so do their records."""
    home = _home_of(samples, sorted(set(cuts)), rubbish)
    log = home.read_only("t-0")
    least, most = log.log_start_offset, log.log_end_offset
    start, end = (min(max(bound, least), most) for bound in sorted(bounds))

    splits = log.splits(start, end, target)

    assert [split for split in splits if split.start_offset >= split.end_offset] == []
    edges = [start, *(split.end_offset for split in splits)] if splits else []
    assert edges[:-1] == [split.start_offset for split in splits]
    assert edges[-1:] == ([end] if start < end else [])
    parts = [list(log.records(split.start_offset, split.end_offset)) for split in splits]
    assert list(log.records(start, end)) == [found for part in parts for found in part]


def _home_of(samples: list[BatchSample], cuts: list[int], rubbish: bytes | None) -> DataHome:
    """Write batches as segments, cut before some of them, each with an index of all batches."""
    home = DataHome()
    home.fs.make_directory(f"{home.path}/t-0")
    edges = [0, *(cut for cut in cuts if 0 < cut < len(samples)), len(samples)]
    for first, last in pairwise(edges):
        part = samples[first:last]
        base_offset = part[0].spec.base_offset if part else 0
        home.write(name_of(base_offset), b"".join(sample.data for sample in part))
        entries, position = [], 0
        for sample in part:
            if position:
                entries.append((sample.end_offset - 1 - base_offset, position))
            position += len(sample.data)
        home.write(name_of(base_offset, ".index"), index(*entries) if rubbish is None else rubbish)
    return home


def test_splits_are_cut_at_index_entries() -> None:
    """About as large as asked for; each says how many bytes it is."""
    home = home_with(BATCHES)
    home.write(name_of(0, ".index"), index(*((n, n * SIZE) for n in range(1, 6))))

    splits = home.read_only("t-0").splits(0, 6, 2 * SIZE)

    assert splits == [(0, 3, 2 * SIZE), (3, 5, 2 * SIZE), (5, 6, 2 * SIZE)]


def test_a_range_inside_a_segment_weighs_what_it_holds() -> None:
    """Not what the whole segment holds."""
    home = home_with(BATCHES)
    home.write(name_of(0, ".index"), index(*((n, n * SIZE) for n in range(1, 6))))

    splits = home.read_only("t-0").splits(2, 4, 100 * SIZE)

    assert splits == [(2, 4, 3 * SIZE)]


def test_without_an_index_a_segment_is_one_split() -> None:
    """Segments are still distinguished."""
    home = home_with(BATCHES[:2], BATCHES[2:])

    assert home.read_only("t-0").splits(0, 6, 1) == [(0, 2, 2 * SIZE), (2, 6, 4 * SIZE)]


def test_a_split_of_no_bytes_is_refused() -> None:
    """It would never end."""
    with pytest.raises(InvalidArgument):
        home_with(BATCHES).read_only("t-0").splits(0, 6, 0)
