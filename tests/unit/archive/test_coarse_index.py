"""The coarse index of an archived segment, against the batches that it stands for."""

from __future__ import annotations

from itertools import accumulate, pairwise
from random import Random
from typing import NamedTuple

import pytest
from tests.machinery.object_model import ObjectModel

from tidelog.archive.coarse_index import COARSE_ENTRY, CoarseEntry, CoarseIndex
from tidelog.archive.deltas import SECTIONS, Entry
from tidelog.errors import CorruptArchive
from tidelog.records.batch import NO_TIMESTAMP
from tidelog.segment.index_entries import (
    OFFSET_INDEX_ENTRY,
    OffsetIndexEntry,
    OffsetPosition,
    TimestampOffset,
)

BASE, MIB = 50, 1 << 20


class Batch(NamedTuple):
    """A batch of a segment: its offsets and bytes, half-open, and its greatest timestamp."""

    offset: int
    end_offset: int
    position: int
    end: int
    timestamp: int


def segment(rng: Random) -> list[Batch]:
    """Return batches of 100 KB to 1.5 MB each."""
    count = rng.randrange(2, 12)
    offsets = [*accumulate((rng.randrange(1, 9) for _ in range(count)), initial=BASE)]
    places = [*accumulate((rng.randrange(100_000, 1_500_000) for _ in range(count)), initial=0)]
    times = (rng.randrange(20) for _ in range(count))
    ranges = zip(pairwise(offsets), pairwise(places), times, strict=True)
    return [Batch(*offset, *place, time) for offset, place, time in ranges]


def coarse_entries(batches: list[Batch]) -> list[CoarseEntry]:
    """Return one entry a mebibyte, the first batch among them."""
    found: list[CoarseEntry] = []
    largest = NO_TIMESTAMP
    for one in batches:
        if not found or one.position >= found[-1].position + MIB:
            found.append(CoarseEntry(one.offset, one.position, largest))
        largest = max(largest, one.timestamp)
    return found


def index_of(
    entries: list[CoarseEntry],
    *,
    end_offset: int,
    size_bytes: int,
    index: bytes = b"",
    store: ObjectModel | None = None,
) -> CoarseIndex:
    """Return the index of an object that has nothing but its indexes."""
    parts = {"index": index, "coarse": b"".join(COARSE_ENTRY.pack(one) for one in entries)}
    data = b"".join(parts.get(kind, b"") for kind in SECTIONS)
    store = store or ObjectModel(Random(0))
    store.put("s", [data], len(data))
    sections = tuple(len(parts.get(kind, b"")) for kind in SECTIONS)
    return CoarseIndex(store, "s", Entry("s", BASE, end_offset, 77, size_bytes, 0, "", sections))


def of_batches(batches: list[Batch]) -> CoarseIndex:
    """Return the index of a segment."""
    end = batches[-1]
    return index_of(coarse_entries(batches), end_offset=end.end_offset, size_bytes=end.end)


@pytest.mark.parametrize("seed", range(40))
def test_lookups_return_what_the_batches_say(seed: int) -> None:
    """As near as the entries are: a walk begins before what it looks for, and ends behind it."""
    batches = segment(Random(seed))
    index, end = of_batches(batches), batches[-1]
    after_first = [] if end.end <= MIB else coarse_entries(batches)[1:]
    assert index.entries == after_first

    for offset in range(BASE, end.end_offset + 2):
        below = [one for one in after_first if one.offset <= offset]
        found = index.lookup(offset)
        assert found == (below[-1][:2] if below else (BASE, 0))
        (held,) = [one for one in batches if one.offset <= offset < one.end_offset] or [end]
        assert found.position <= held.position

        behind = [one.position for one in after_first if one.offset >= offset]
        likely_end = index.likely_end(offset)
        assert likely_end == (behind[0] if behind else None)
        assert all(one.end <= (likely_end or end.end) for one in batches if one.offset < offset)

        for size in (0, 1, 500_000, MIB, 3 * MIB):
            to = index.offset_behind(offset, size)
            assert to is None or size <= sum(
                one.end - one.position for one in batches if held.offset <= one.offset < to
            )
            far = [one.offset for one in after_first if one.position >= found.position + MIB + size]
            assert to == (far[0] if far else None)

    for time in range(-1, 22):
        older = [one for one in after_first if one.timestamp < time]
        expected = (older[-1].timestamp, older[-1].offset) if older else (NO_TIMESTAMP, BASE)
        assert index.before(time) == TimestampOffset(*expected)


def test_an_estimate_takes_all_batches_for_alike() -> None:
    """One place a mebibyte, without a request."""
    index = index_of([], end_offset=BASE + 300, size_bytes=3 * MIB)

    assert index.estimate() == (
        [BASE + 100, BASE + 200, BASE + 300],
        [MIB, 2 * MIB, 3 * MIB],
    )


def test_an_estimate_has_one_place_an_offset() -> None:
    """The last one: where batches are large, several mebibytes may be of the same."""
    index = index_of([], end_offset=BASE + 2, size_bytes=4 * MIB + 1)

    assert index.estimate() == ([BASE, BASE + 1], [2 * MIB, 4 * MIB])


def test_a_segment_of_a_mebibyte_needs_no_index() -> None:
    """It is walked from its start, and nothing is fetched."""
    entries = [CoarseEntry(BASE, 0, -1), CoarseEntry(BASE + 5, 9, 3)]
    small = index_of(entries, end_offset=BASE + 9, size_bytes=MIB)
    large = index_of(entries, end_offset=BASE + 9, size_bytes=MIB + 1)

    assert (small.entries, large.entries) == ([], entries[1:])
    assert (small.lookup(BASE + 8), large.lookup(BASE + 8)) == ((BASE, 0), (BASE + 5, 9))


@pytest.mark.parametrize(
    "wrong",
    [
        [(BASE - 1, 0, -1)],
        [(BASE, -1, -1)],
        [(BASE, 0, -1), (BASE, 5, -1)],
        [(BASE, 0, -1), (BASE + 1, 0, -1)],
        [(BASE, 0, -1), (BASE + 9, 5, -1)],
        [(BASE, 0, -1), (BASE + 8, 2 * MIB, -1)],
    ],
)
def test_entries_that_do_not_rise_or_lie_elsewhere_are_damage(
    wrong: list[tuple[int, int, int]],
) -> None:
    """They begin at the first batch, and end before the end of the segment."""
    entries = [CoarseEntry._make(one) for one in wrong]
    with pytest.raises(CorruptArchive, match="s: the coarse index does not rise"):
        _ = index_of(entries, end_offset=BASE + 9, size_bytes=2 * MIB).entries

    last = CoarseEntry(BASE + 8, 2 * MIB - 1, -1)
    sound = [CoarseEntry(BASE, 0, -1), last]
    assert index_of(sound, end_offset=BASE + 9, size_bytes=2 * MIB).entries == [last]


SIZE = MIB + 1


@pytest.mark.parametrize(
    ("entries", "size_bytes", "near"),
    [
        ([(3, 70), (5, 90)], SIZE, (BASE + 3, 70)),
        ([(1, 50), (3, 1), (5, 90)], SIZE, (BASE + 3, 1)),
        ([(3, SIZE - 1), (5, 90)], SIZE, (BASE + 3, SIZE - 1)),
        ([(3, SIZE), (5, 90)], SIZE, None),
        ([(3, 0), (5, 90)], SIZE, None),
        ([(5, 90)], SIZE, None),
        ([(3, 70), (5, 90)], MIB, None),
    ],
)
def test_a_walk_to_the_end_begins_at_the_last_entry_but_one(
    entries: list[tuple[int, int]], size_bytes: int, near: tuple[int, int] | None
) -> None:
    """Of the own index, if that is a place in the log, and the segment too large to be walked."""
    raw = b"".join(OFFSET_INDEX_ENTRY.pack(OffsetIndexEntry(*one)) for one in entries)
    coarse = [CoarseEntry(BASE, 0, -1), CoarseEntry(BASE + 4, 60, 77)]
    index = index_of(coarse, end_offset=BASE + 9, size_bytes=size_bytes, index=raw)

    assert index.near_end() == (None if near is None else OffsetPosition(*near))


def test_what_the_store_and_the_archive_say_of_a_segment() -> None:
    """When it was copied, -1 once it is gone, and its greatest timestamp."""
    store, other = ObjectModel(Random(0)), ObjectModel(Random(0))
    index, gone = (
        index_of([], end_offset=BASE + 9, size_bytes=1, store=one) for one in (store, other)
    )
    store.times["s"] = 1234
    other.delete("s")

    assert (index.copied_ms, gone.copied_ms, index.max_timestamp) == (1234, -1, 77)
