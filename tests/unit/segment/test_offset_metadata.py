"""Locations of offsets and their comparisons."""

from __future__ import annotations

from tidelog.segment.offset_metadata import LogOffsetMetadata

EARLY = LogOffsetMetadata(5, 0, 100)
LATE = LogOffsetMetadata(9, 0, 250)
NEXT = LogOffsetMetadata(20, 20, 0)


def test_locations_compare_by_segment() -> None:
    """Older means in a segment with a lower base offset."""
    assert EARLY.is_on_older_segment(NEXT)
    assert not NEXT.is_on_older_segment(EARLY)
    assert not EARLY.is_on_older_segment(LATE)


def test_an_offset_without_a_location_compares_with_nothing() -> None:
    """It is in no older segment."""
    bare = LogOffsetMetadata(5)

    assert bare.is_offset_only
    assert not bare.is_on_older_segment(NEXT)
