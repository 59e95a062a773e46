"""Read-only opens: no lock, no change, also beside a live writer."""

from __future__ import annotations

import errno
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.codec.compression import Codec
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    InvalidTopic,
    KafkaStorageError,
    OffsetOutOfRange,
)
from tidelog.log.reader import ReadUpTo
from tidelog.records.builder import build_batch
from tidelog.testing import stored_batches
from tidelog.testing.data_home import DataHome, record

if TYPE_CHECKING:
    from tidelog.log.reader import ReadOnlyLog
    from tidelog.testing.strategies import BatchSample

WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
BATCHES = [
    build_batch([record(bytes([65 + n]) * 20)], base_offset=n, leader_epoch=0) for n in range(6)
]
SIZE = len(BATCHES[0])
VALUES = [bytes([65 + n]) * 20 for n in range(6)]


def name_of(base_offset: int, suffix: str = ".log") -> str:
    """Return the path of a file of t-0 in the data directory."""
    return f"t-0/{base_offset:020d}{suffix}"


def home_with(
    *segments: list[bytes], first: int = 0, watermark: int | None = None, tail: bytes = b""
) -> DataHome:
    """Return a data directory whose t-0 has these segments of batches, and bytes behind the last.

    Each batch holds one offset.
    """
    home = DataHome()
    base_offset = first
    for number, batches in enumerate(segments):
        is_last = number + 1 == len(segments)
        home.write(name_of(base_offset), b"".join(batches) + (tail if is_last else b""))
        base_offset += len(batches)
    if not segments:
        home.fs.make_directory(f"{home.path}/t-0")
    if watermark is not None:
        home.write(WATERMARKS, f"0\n1\nt 0 {watermark}\n")
    return home


def index(*entries: tuple[int, int]) -> bytes:
    """Return the bytes of an offset index with entries (relative offset, position)."""
    return b"".join(
        offset.to_bytes(4, "big", signed=True) + position.to_bytes(4, "big", signed=True)
        for offset, position in entries
    )


def flipped(batch: bytes, at: int = 70) -> bytes:
    """Return the batch with one bit of its records changed, so that its CRC is wrong."""
    return batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]


def read(log: ReadOnlyLog, *bounds: int, **how: Any) -> tuple[list[bytes | None], Exception | None]:
    """Return the values read and the error that ended it."""
    values: list[bytes | None] = []
    try:
        values.extend(found.value for found in log.records(*bounds, **how))
    except (CorruptMessage, KafkaStorageError, OffsetOutOfRange) as error:
        return values, error
    return values, None


def whole(home: DataHome) -> tuple[list[bytes | None], Exception | None]:
    """Read t-0 from start to high watermark."""
    return read(home.read_only("t-0"))


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


# The end of the log


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\0",
        b"\0" * 100_000,
        BATCHES[4][:5],
        BATCHES[4][:16],
        BATCHES[4][:40],
        BATCHES[4][:-1],
        BATCHES[4][:-4] + b"\0" * 4,
        BATCHES[4][:60].ljust(SIZE, b"\0"),
        BATCHES[4][:60].ljust(SIZE + 5000, b"\0"),
        flipped(BATCHES[4]),
    ],
    ids=range(11),
)
def test_an_unfinished_tail_is_the_end(tail: bytes) -> None:
    """A batch that is being written, was torn by a crash, or the zeros of a preallocated file."""
    home = home_with(BATCHES[:4], tail=tail, watermark=4)
    log = home.read_only("t-0")

    assert (VALUES[:4], None) == read(log)
    assert (log.log_end_offset, log.damage) == (4, None)


@pytest.mark.parametrize("tail", [BATCHES[4][:40], b"\0" * 500, flipped(BATCHES[4]), b""])
def test_an_end_below_the_high_watermark_is_damage(tail: bytes) -> None:
    """Offsets that were promised are missing: all before them, then the error with the byte."""
    home = home_with(BATCHES[:4], tail=tail, watermark=5)

    values, error = whole(home)

    assert VALUES[:4] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", 4 * SIZE) == (error.path, error.position)


def test_a_log_that_lost_everything_is_damaged() -> None:
    """An emptied or vanished segment does not read as an empty log."""
    for home in (home_with([], watermark=5), home_with(watermark=5)):
        log = home.read_only("t-0")

        values, error = read(log)
        assert ([], CorruptMessage) == (values, type(error))
        with pytest.raises(CorruptMessage):
            log.splits(0, 0, 1)


@pytest.mark.parametrize("bad", [flipped(BATCHES[3]), BATCHES[3][:40], b"\0" * SIZE])
def test_damage_in_the_last_segment_is_told_after_the_records_before_it(bad: bytes) -> None:
    """Bytes follow that are not zeros, so this is no unfinished end."""
    home = home_with([*BATCHES[:3], bad, *BATCHES[4:]])

    values, error = whole(home)

    assert VALUES[:3] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", 3 * SIZE) == (error.path, error.position)


def test_a_length_that_swallows_what_follows_is_damage() -> None:
    """A flipped bit makes a batch longer than the file, but the index knows a batch behind it."""
    long = BATCHES[3][:9] + b"\x7f" + BATCHES[3][10:]
    home = home_with([*BATCHES[:3], long, *BATCHES[4:]])
    home.write(name_of(0, ".index"), index((1, SIZE), (5, 5 * SIZE)))

    values, error = whole(home)

    assert (VALUES[:3], CorruptMessage) == (values, type(error))
    assert error.position == 3 * SIZE


@pytest.mark.parametrize("bad", [flipped(BATCHES[1]), BATCHES[1][:40], b"\0" * SIZE, b"\0" * 3])
def test_a_bad_batch_in_an_inactive_segment_is_damage(bad: bytes) -> None:
    """Also at its end: nobody writes there any more."""
    home = home_with([BATCHES[0], bad], BATCHES[2:])

    values, error = whole(home)

    assert VALUES[:1] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", SIZE) == (error.path, error.position)


def test_a_range_behind_the_damage_can_be_read() -> None:
    """The index leads to it; only a range that covers the damage fails."""
    home = home_with([*BATCHES[:2], flipped(BATCHES[2]), *BATCHES[3:]])
    home.write(name_of(0, ".index"), index((3, 3 * SIZE)))
    log = home.read_only("t-0")

    assert (VALUES[3:], None) == read(log, 3, 6)
    assert (VALUES[:2], None) == read(log, 0, 2)
    assert (VALUES[:2], CorruptMessage) == (read(log)[0], type(read(log)[1]))


@pytest.mark.parametrize(
    "records_bytes", [b"\x04\x00\x00\x00\x01", b"", b"\x80\x80\x80\x80\x80\x80"]
)
def test_a_batch_that_does_not_decode_is_damage(records_bytes: bytes) -> None:
    """Its checksum is right and its records are not: told with file and byte."""
    from tidelog.records.batch import BATCH_HEADER
    from tidelog.records.builder import pack_batch

    bad = pack_batch(BATCH_HEADER.unpack(BATCHES[1]), records_bytes)
    home = home_with([BATCHES[0], bad, BATCHES[2]])

    values, error = whole(home)

    assert VALUES[:1] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", SIZE) == (error.path, error.position)


def test_a_batch_of_an_unknown_codec_is_damage() -> None:
    """As one that does not decode; batches behind it can be read."""
    from tidelog.records.batch import BATCH_HEADER
    from tidelog.records.builder import pack_batch

    header = BATCH_HEADER.unpack(BATCHES[1])._replace(attributes=6)
    home = home_with([BATCHES[0], pack_batch(header, BATCHES[1][61:]), BATCHES[2]])

    values, error = whole(home)

    assert (VALUES[:1], SIZE) == (values, getattr(error, "position", None))
    assert ([VALUES[2]], None) == read(home.read_only("t-0"), 2, 3)


# Hints


@pytest.mark.parametrize(
    "entries",
    [
        index((4, 2 * SIZE)),
        index((1, 4 * SIZE)),
        index((4, 3 * SIZE + 7)),
        index((4, 2**31 - 1)),
        index((4, -5), (5, 3)),
        index((-3, 17)),
        index((2, 90), (1, 60)),
        index((0, 0)) * 4,
        b"\xff" * 24,
        b"\x00\x01\x02",
        b"",
    ],
)
@pytest.mark.parametrize("start", range(6))
def test_hints_that_lie_are_ignored(entries: bytes, start: int) -> None:
    """An index may be stale, torn or rubbish: the records are the same as without it."""
    home = home_with(BATCHES, watermark=6)
    home.write(name_of(0, ".index"), entries)

    assert (VALUES[start:], None) == read(home.read_only("t-0"), start, 6)


def test_a_hint_into_a_records_value_is_ignored() -> None:
    """Bytes there may well be a whole, valid batch of another log."""
    inner = build_batch([record(b"not of this log")], base_offset=5)
    outer = build_batch([record(inner)], base_offset=0)
    home = home_with([outer, BATCHES[1]])
    home.write(name_of(0, ".index"), index((1, outer.index(inner))))

    assert ([VALUES[1]], None) == read(home.read_only("t-0"), 1, 2)


def test_a_good_hint_spares_reading_what_is_before_it() -> None:
    """The walk to the log's end starts at the last one."""
    home = home_with([flipped(BATCHES[0]), *BATCHES[1:]])
    home.write(name_of(0, ".index"), index((4, 4 * SIZE)))

    assert home.read_only("t-0").log_end_offset == 6


# Segments that go away


def test_a_segment_that_waits_for_deletion_is_still_read() -> None:
    """It was listed under its own name, and is found as ``.deleted``."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    log = home.read_only("t-0")
    home.fs.rename(f"{home.path}/{name_of(2)}", f"{home.path}/{name_of(2)}.deleted")

    assert read(log) == (VALUES, None)


def test_a_segment_that_was_compacted_into_another_is_found_in_a_new_listing() -> None:
    """A cleaner replaced two segments by one: nothing is missed and nothing comes twice."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    log = home.read_only("t-0")
    records = log.records()
    first = [next(records).value, next(records).value]
    home.write(name_of(0), b"".join([BATCHES[0], BATCHES[2], BATCHES[3]]))
    home.fs.delete(f"{home.path}/{name_of(2)}")

    assert first + [found.value for found in records] == VALUES


def test_no_record_comes_twice_beside_a_cleaner() -> None:
    """The first segment is replaced by one that holds the next one's records too."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    log = home.read_only("t-0")
    home.write(name_of(0), b"".join(BATCHES[:4]))
    home.fs.rename(f"{home.path}/{name_of(2)}", f"{home.path}/{name_of(2)}.deleted")

    assert read(log) == (VALUES, None)


def test_segments_that_retention_deleted_are_out_of_range() -> None:
    """The new listing begins later: told as it is, and not skipped in silence."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    log = home.read_only("t-0")
    for base_offset in (0, 2):
        home.fs.delete(f"{home.path}/{name_of(base_offset)}")

    values, error = read(log)

    assert values == []
    assert isinstance(error, OffsetOutOfRange)
    assert (error.requested, error.log_start_offset) == (0, 4)


def test_a_segment_that_cannot_be_found_is_told() -> None:
    """Once looked for in a new listing, then an error: no loop, and no silent gap."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    log = home.read_only("t-0")
    gone = FileNotFoundError(errno.ENOENT, "gone")
    home.fs.fail("open", name_of(0), gone, count=100)

    values, error = read(log)

    assert ([], KafkaStorageError) == (values, type(error))
    assert "deleted while the log was read" in str(error)


def test_a_topic_deleted_under_the_reader_is_told() -> None:
    """The whole directory is gone."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    log = home.read_only("t-0")
    assert log.log_end_offset == 6
    home.fs.rename(f"{home.path}/t-0", f"{home.path}/elsewhere")

    assert ([], KafkaStorageError) == (read(log)[0], type(read(log)[1]))


def test_a_vanished_last_segment_is_looked_for_before_the_end_is_known() -> None:
    """The log was emptied and begun anew between listing and reading."""
    home = home_with(BATCHES[:2])
    log = home.read_only("t-0")
    home.fs.delete(f"{home.path}/{name_of(0)}")
    home.write(name_of(4), b"".join(BATCHES[4:]))

    assert (log.log_start_offset + 0 * log.log_end_offset, log.log_end_offset) == (4, 6) or (
        log.log_start_offset == 4
    )


def test_other_files_are_no_segments() -> None:
    """A user's own file whose name ends in .log does not disturb."""
    home = home_with(BATCHES)
    home.write("t-0/notes.log", "my notes")

    assert whole(home) == (VALUES, None)


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

    from tidelog.log.reader import open_read_only

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
    with pytest.raises(FileNotFoundError):
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
    """Segments are still told apart."""
    home = home_with(BATCHES[:2], BATCHES[2:])

    assert home.read_only("t-0").splits(0, 6, 1) == [(0, 2, 2 * SIZE), (2, 6, 4 * SIZE)]


def test_a_split_of_no_bytes_is_refused() -> None:
    """It would never end."""
    with pytest.raises(InvalidArgument):
        home_with(BATCHES).read_only("t-0").splits(0, 6, 0)


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


class FirstGlance:
    """A disk on which the first look at a file shows the fourth batch only in part.

    So it may look beside a writer: bytes of one write need not be seen all at once.
    """

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self._seen: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, mode: str = "r") -> Any:
        """Open a file whose first large read is not yet whole."""
        return _HalfSeenFile(self._fs.open(path, mode), path, self._seen)


class _HalfSeenFile:
    def __init__(self, file: Any, path: str, seen: set[str]) -> None:
        self._file = file
        self._path = path
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def pread_into(self, buffer: Any, position: int) -> int:
        count: int = self._file.pread_into(buffer, position)
        if self._path not in self._seen:
            self._seen.add(self._path)
            buffer[3 * SIZE + 65 : 3 * SIZE + 70] = bytes(5)
        return count


@pytest.mark.parametrize("bounds", [(0, 6), (0, 4), ()])
def test_a_bad_batch_is_read_once_more(bounds: tuple[int, ...]) -> None:
    """What is whole at the second look is no damage, in the log or at its end."""
    from tidelog.log.reader import open_read_only

    fs: Any = FirstGlance(home_with(BATCHES, watermark=6).fs)

    found = read(open_read_only("/data/t-0", fs=fs), *bounds)

    assert (VALUES[: bounds[1] if bounds else 6], None) == found
