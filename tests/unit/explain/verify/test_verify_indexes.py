"""What an entry of an index may say, and what it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.explain.verify.verify_indexes import IndexPlace, OffsetIndexCheck, TimeIndexCheck
from tidelog.records.memory import walk
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.explain.verify.findings import Finding
    from tidelog.records.batch_columns import BatchColumns

BASE = 100
TIMES = (10, 30, 20, 40)


def batches() -> BatchColumns:
    """Return four batches of two records each, from offset 100 on, with timestamps TIMES."""
    data = b"".join(
        build_batch([(time, None, b"v", ())] * 2, base_offset=BASE + 2 * number)
        for number, time in enumerate(TIMES)
    )
    return walk(data).batches


SIZE = int(batches().size[0])
END = 4 * SIZE


def offset_findings(
    entries: list[tuple[int, int]], *, tail: bytes = b"", rebuilt: bool = False
) -> list[Finding]:
    """Check an offset index of an inactive segment."""
    data = np.array(entries, OFFSET_INDEX_ENTRY.dtype).tobytes() + tail
    check = OffsetIndexCheck(
        IndexPlace("/i", data, len(data), BASE, is_active=False, is_rebuilt=rebuilt)
    )
    check.feed(batches().slice(0, 2))
    check.feed(batches().slice(2))
    return list(check.findings(END, BASE + 8))


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [(3, SIZE), (7, 3 * SIZE)],  # since 4.1: the last offset of the batch
        [(5, SIZE), (7, 3 * SIZE)],  # before: that of the whole append, here two batches
    ],
)
def test_right_offset_entries_are_no_finding(entries: list[tuple[int, int]]) -> None:
    """Both meanings that an entry's offset has had are right, and any sparseness is."""
    assert offset_findings(entries) == []


@pytest.mark.parametrize(("first", "is_right"), [(4, True), (7, True), (3, False)])
def test_an_entry_may_name_the_first_offset_of_a_wrapper(first: int, is_right: bool) -> None:
    """As Kafka up to 0.11 wrote it; the header of the wrapper has only the last offset."""
    records = [(10, b"k", b"v")] * 4
    wrappers = [build_old(1, records, base_offset=BASE + at, codec=Codec.GZIP) for at in (0, 4)]
    found = walk(b"".join(wrappers)).batches
    data = np.array([(first, len(wrappers[0]))], OFFSET_INDEX_ENTRY.dtype).tobytes()
    place = IndexPlace("/i", data, len(data), BASE, is_active=False, is_rebuilt=False)
    check = OffsetIndexCheck(place)
    check.feed(found.slice(0, 1))
    check.feed(found.slice(1))

    assert (not list(check.findings(found.next_position, BASE + 8))) == is_right


@pytest.mark.parametrize(
    ("entries", "byte", "what"),
    [
        ([(3, SIZE + 1)], 0, "where no batch starts"),
        ([(3, 2 * SIZE)], 0, "below the batch"),
        ([(3, SIZE), (3, 2 * SIZE)], 8, "does not come after"),
        ([(7, 9 * SIZE)], 0, "after the end"),
        ([(8, SIZE)], 0, "after the end"),
    ],
)
def test_a_wrong_offset_entry_is_damage(
    entries: list[tuple[int, int]], byte: int, what: str
) -> None:
    """A lookup by such an entry misses records: it is named by its byte."""
    found = offset_findings(entries)

    assert [row.severity for row in found] == ["damage"] * len(found)
    assert any(row.byte == byte and what in row.what for row in found)


def test_entries_ahead_of_a_log_that_will_be_recovered_are_no_damage() -> None:
    """An index may reach the disk before its log; recovery makes it again."""
    assert [row.severity for row in offset_findings([(9, END)], rebuilt=True)] == ["unusual"]


def test_zeros_and_odd_bytes_are_told() -> None:
    """A file that was not trimmed is unusual, bytes that are not an entry are damage."""
    assert [row.severity for row in offset_findings([(3, SIZE)], tail=bytes(16))] == ["unusual"]
    assert [row.severity for row in offset_findings([(3, SIZE)], tail=b"abc")] == ["damage"]


def time_findings(entries: list[tuple[int, int]], *, active: bool = False) -> list[Finding]:
    """Check a time index."""
    data = np.array(entries, TIME_INDEX_ENTRY.dtype).tobytes()
    check = TimeIndexCheck(
        IndexPlace("/t", data, len(data), BASE, is_active=active, is_rebuilt=False)
    )
    check.feed(batches().slice(0, 2))
    check.feed(batches().slice(2))
    return list(check.findings(BASE + 8))


@pytest.mark.parametrize("entries", [[(40, 7)], [(10, 1), (30, 3), (40, 7)], [(30, 5), (40, 6)]])
def test_right_time_entries_are_no_finding(entries: list[tuple[int, int]]) -> None:
    """All later timestamps lie after an entry's offset, the record's own before Kafka 4.1."""
    assert time_findings(entries) == []


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ([(20, 5), (40, 7)], "later timestamps before its offset"),
        ([(35, 3), (40, 7)], "that no batch up to its offset has"),
        ([(30, 3), (30, 7)], "does not come after"),
        ([(40, 8)], "after the records"),
        ([(40, -2)], "below the segment's first"),
        ([(30, 3)], "lookups miss them"),
        ([], "lookups miss them"),
    ],
)
def test_a_wrong_time_entry_is_damage(entries: list[tuple[int, int]], what: str) -> None:
    """A search by time would pass over records."""
    found = time_findings(entries)

    assert any(what in row.what for row in found)
    assert {row.severity for row in found} == {"damage"}


@pytest.mark.parametrize(("entries", "findings"), [(1, 0), (0, 1)])
def test_an_entry_of_zeros_is_of_timestamp_0(entries: int, findings: int) -> None:
    """Of a segment whose records all have that, or none, and whose first batch is one record."""
    data = bytes(entries * TIME_INDEX_ENTRY.size)
    place = IndexPlace("/t", data, len(data), BASE, is_active=False, is_rebuilt=False)
    check = TimeIndexCheck(place)
    check.feed(walk(build_batch([(0, None, b"v", ())], base_offset=BASE)).batches)

    assert len(list(check.findings(BASE + 1))) == findings


def test_the_index_of_a_growing_segment_may_end_early() -> None:
    """Only a complete segment has its greatest timestamp in the index."""
    assert time_findings([(30, 3)], active=True) == []
