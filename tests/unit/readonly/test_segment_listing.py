"""The segments of a directory that somebody else may be changing."""

from __future__ import annotations

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.readonly.segment_listing import ReadOnlyFiles, SegmentGone, overlapping
from tidelog.testing.stored_log import BATCHES, SIZE, home_with, index, name_of


def files_of(home: object) -> ReadOnlyFiles:
    """List t-0 of a data directory."""
    return ReadOnlyFiles("/data/t-0", home.fs)


def bases(files: ReadOnlyFiles) -> list[int]:
    return [segment.base_offset for segment in files.segments]


def test_segments_are_listed_in_order_and_nothing_else_is() -> None:
    """By base offset; what waits for deletion, indexes and strange names are no segments."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    for name in ("0.log.deleted", "00000000000000000000.index", "x.log", "partition.metadata"):
        home.write(f"t-0/{name}", b"")

    files = files_of(home)

    assert bases(files) == [0, 2]
    assert [segment.size_bytes for segment in files.segments] == [2 * SIZE, 4 * SIZE]


def test_a_listing_stays_as_it_was() -> None:
    """What comes later is seen only by who lists again."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    home.write(name_of(2), BATCHES[2])

    again = [segment.base_offset for segment in files.list_again()]

    assert (bases(files), again) == ([0], [0, 2])


def test_a_segment_is_opened_also_while_it_waits_for_deletion() -> None:
    """And closed with the block."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    path = f"{home.path}/{name_of(0)}"
    home.fs.rename(path, f"{path}.deleted")

    with files.opened(files.segments[0]) as file:
        found = file.pread(2 * SIZE, 0)

    assert found == b"".join(BATCHES[:2])
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)


def test_a_segment_under_no_name_is_gone() -> None:
    """The caller lists again, once."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    home.fs.delete(f"{home.path}/{name_of(0)}")

    with pytest.raises(SegmentGone), files.opened(files.segments[0]):
        pass


def test_a_directory_that_is_gone_is_an_error() -> None:
    """It was there when it was listed first."""
    home = home_with(BATCHES[:1])
    files = files_of(home)
    home.fs.delete(f"{home.path}/{name_of(0)}")
    home.fs.delete_directory("/data/t-0")

    with pytest.raises(KafkaStorageError, match="was deleted while it was read"):
        files.list_again()


def test_hints_are_read_once_until_they_are_forgotten() -> None:
    """An index may change under the reader's hands; what it took it keeps."""
    home = home_with(BATCHES[:4])
    home.write(name_of(0, ".index"), index((1, SIZE)))
    files = files_of(home)
    first = files.hints_of(files.segments[0])
    home.write(name_of(0, ".index"), index((2, 2 * SIZE)))

    again = files.hints_of(files.segments[0])
    files.forget()
    anew = files.hints_of(files.segments[0])

    assert again is first
    assert (first.offsets.tolist(), anew.offsets.tolist()) == ([1], [2])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 2, [0]), (1, 3, [0, 2]), (2, 4, [2]), (3, 9, [2, 4]), (5, 9, [4]), (2, 2, [])],
)
def test_a_range_lies_in_the_segments_that_may_hold_it(
    start: int, end: int, expected: list[int]
) -> None:
    """A segment reaches to the next one's base, the last one as far as you like."""
    files = files_of(home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:]))

    found = overlapping(files.segments, start, end)

    assert [segment.base_offset for segment in found] == expected
