"""Interrupts at every line of an append to a segment that also writes each of its indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.crash.interrupts import Tracer, sites_of
from tests.unit.segment.conftest import Room, entries

from tidelog.records.control import build_marker
from tidelog.records.memory import walk
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.segment.segment import LogSegment

MARKER = build_marker(
    producer_id=1,
    producer_epoch=0,
    coordinator_epoch=0,
    is_commit=False,
    timestamp=5,
    base_offset=2,
)
ABORTED = AbortedTxn(0, 1, 0, 2, 3)
State = tuple[object, ...]
FILES = "segment/segment.py", "segment/txn_index.py"


def segment_of() -> LogSegment:
    """Return a segment with two batches, in which each further one gets an index entry."""
    room = Room()
    segment = room.segment(index_interval_bytes=0)
    for offset in range(2):
        room.append(segment, [offset], [offset])
    return segment


def append_marker(segment: LogSegment) -> None:
    """Append the marker of an aborted transaction."""
    segment.append(2, MARKER, walk(MARKER).batches, [ABORTED])


def state(segment: LogSegment) -> State:
    """Return what readers see of a segment."""
    return (segment.size_bytes, entries(segment), segment.txn_index.all_aborted())


def test_an_interrupted_append_leaves_all_of_it_or_nothing(enumerated: Enumerated) -> None:
    """Nothing stays in the index of aborted transactions either, and the append can be repeated."""
    before = state(segment_of())
    done = segment_of()
    append_marker(done)
    whole = segment_of()
    sites = [site for site in sites_of(lambda: append_marker(whole)) if site.file in FILES]
    wrong = []
    for site in sites:
        segment = segment_of()
        try:
            Tracer(site).run(lambda: append_marker(segment))  # noqa: B023 - called at once
        except KeyboardInterrupt:
            found = state(segment)
            if found == before:
                append_marker(segment)
                found = state(segment)
            if found != state(done):
                wrong.append((str(site), found))

    assert wrong == []
    enumerated("interrupted lines", len(sites), at_least=30)
