"""The sentences of a plan of retention: until when a segment is kept, and which one is late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.explain.printable_text import format_bytes, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping


def late_text(late: Mapping[str, Any]) -> str:
    """Return why records past retention.ms are still there, and until when.

    ``late`` is a ``LateSegment`` as JSON.
    """
    offsets = f"[{late['baseOffset']:,}, {late['endOffset']:,})"
    text = (
        f"  waits for {offsets}: its oldest records, of {format_time(late['oldestMs'])}, are past"
        " retention.ms;\n  a segment is deleted as a whole, once its newest record is, too:"
        f" after {format_time(late['dueMs'])}"
    )
    if late["closingMs"] is None:
        return text
    closing = format_time(late["closingMs"])
    return (
        f"{text};\n  each append to this active segment makes that later, until one after"
        f" {closing} (segment.ms),\n  or one that does not fit (segment.bytes), begins the next"
    )


def start_text(start: Mapping[str, Any]) -> str:
    """Return what a deletion of records has left on the disk; ``start``: a ``StartSegment``."""
    base, end = f"{start['baseOffset']:,}", f"{start['endOffset']:,}"
    closed = " and the segment is closed (tidelog roll)" if start["isActive"] else ""
    return (
        f"  the deleted records from {base} on stay in the file of the segment [{base}, {end}):\n"
        f"  it is deleted as a whole, once the log starts at {end}{closed}"
    )


def outlook_text(kept: Mapping[str, Any], *, is_active: bool = False) -> str:
    """Return until when a segment is kept, a ``SegmentOutlook`` as JSON; to follow "kept"."""
    due = None if kept["dueMs"] is None else format_time(kept["dueMs"])
    more = None if kept["moreBytes"] is None else format_bytes(kept["moreBytes"])
    if kept["heldBy"]:
        # What holds it does so past these, so that the time may be one in the past.
        limits = [f"from {due} on"] if due else []
        if more:
            limits.append(f"once the log is {more} larger" if kept["moreBytes"] else "now")
        since = f"; due {' or '.join(limits)}" if limits else ""
        return f", held by {kept['heldBy']}{since}"
    later = " (later with each append)" if is_active else ""
    ends = [f"until {due}{later}"] if due else []
    if more:  # what is appended to the active segment itself does not count
        ends.append(f"until {more} follow it" if is_active else f"until the log is {more} larger")
    text = " " + " or ".join(ends) if ends else ""
    text = text if kept.get("isOnDisk", True) else f" in the archive{text}"
    return text or ", limited by neither retention.ms nor retention.bytes"
