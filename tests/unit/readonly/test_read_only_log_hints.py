"""Read-only opens: indexes that lie, and segments that are deleted."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machinery.directory_home import record
from tests.machinery.stored_log import (
    BATCHES,
    SIZE,
    VALUES,
    flipped,
    home_with,
    index,
    name_of,
    read,
    whole,
)

from tidelog.errors import (
    KafkaStorageError,
    OffsetOutOfRange,
)
from tidelog.readonly.read_only_segment import hints_in, hints_in_many
from tidelog.records.builder import build_batch

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


@given(
    st.lists(st.tuples(st.integers(-2, 9), st.integers(-2, 9)), max_size=6),
    st.binary(max_size=7),
    st.integers(0, 2**40),
)
def test_few_hints_and_many_are_the_same(
    entries: list[tuple[int, int]], rest: bytes, base_offset: int
) -> None:
    """Plain code, which few are read with, and arrays stop at the same entry."""
    raw = index(*entries) + rest

    few, many = hints_in(raw, base_offset), hints_in_many(raw, base_offset)

    assert [list(each) for each in few] == [each.tolist() for each in map(np.asarray, many)]


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


# Segments that are deleted


def test_a_segment_that_waits_for_deletion_is_still_read() -> None:
    """It was listed under its own name, and is found as ``.deleted``."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    log = home.read_only("t-0")
    log.close()
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
    """The new listing begins later: reported as it is, and not skipped silently."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    log = home.read_only("t-0")
    log.close()
    for base_offset in (0, 2):
        home.fs.delete(f"{home.path}/{name_of(base_offset)}")

    values, error = read(log)

    assert values == []
    assert isinstance(error, OffsetOutOfRange)
    assert (error.requested, error.log_start_offset) == (0, 4)


def test_segments_that_are_held_are_read_whatever_becomes_of_them() -> None:
    """Retention and a deletion of the topic take away the names, not what was opened."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    log = home.read_only("t-0")
    for base_offset in (0, 2, 4):
        home.fs.delete(f"{home.path}/{name_of(base_offset)}")

    assert read(log) == (VALUES, None)


def test_a_segment_that_cannot_be_found_is_reported() -> None:
    """It is looked for in new listings, then an error: no endless loop, and no silent gap."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    log = home.read_only("t-0")
    log.close()
    gone = FileNotFoundError(errno.ENOENT, "gone")
    home.fs.fail("open", name_of(0), gone, count=100)

    values, error = read(log)

    assert ([], KafkaStorageError) == (values, type(error))
    assert "was deleted or renamed" in str(error)


def test_a_topic_deleted_under_the_reader_is_told() -> None:
    """The whole directory is gone."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    log = home.read_only("t-0")
    assert log.log_end_offset == 6
    log.close()
    home.fs.rename(f"{home.path}/t-0", f"{home.path}/elsewhere")

    assert ([], KafkaStorageError) == (read(log)[0], type(read(log)[1]))


def test_a_log_that_is_begun_anew_is_as_it_was_when_it_was_opened() -> None:
    """Its segments were listed, opened and measured then."""
    home = home_with(BATCHES[:2])
    log = home.read_only("t-0")
    home.fs.delete(f"{home.path}/{name_of(0)}")
    home.write(name_of(4), b"".join(BATCHES[4:]))

    assert (log.log_start_offset, log.log_end_offset) == (0, 2)
    assert read(log) == (VALUES[:2], None)


def test_other_files_are_no_segments() -> None:
    """A user's own file whose name ends in .log does not disturb."""
    home = home_with(BATCHES)
    home.write("t-0/notes.log", "my notes")

    assert whole(home) == (VALUES, None)
