"""Draws a log as text: its segments to scale, and the positions of its offsets.

The facts to draw are those of ``describe``.

    flights-0: 49,193 offsets in 3 segments, 12.4 MB
    0                      30,113                  60,002
    ├░░░░░░░░░░░░░░░░░░░░░░│███████████████████████│▒▒▒▒▒▒▒▒▒▒▒▶
                                └ log start 35,000
                                       high watermark 80,000 ┘
                                               log end 84,193 ┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.explain.printable_text import format_bytes

if TYPE_CHECKING:
    from tidelog.explain.describe import LogFacts

CLOSED: Final = "█"
ACTIVE: Final = "▒"
BELOW_START: Final = "░"
IN_ARCHIVE: Final = "▓"
EMPTY: Final = "╌"
DEFAULT_WIDTH: Final = 78
MIN_WIDTH: Final = 48


def draw_log(facts: LogFacts, width: int = DEFAULT_WIDTH) -> str:
    """Return the picture of one log, ``width`` columns wide (at least 48), each line ended.

    The width of a segment is in proportion to its bytes. Closed segments are solid, the active one
    is lighter, those below the log start offset are the lightest, and those that only the archive
    has are shaded as the title then says. Base offsets are above, where they fit; log start offset,
    high watermark and log end offset are below.
    """
    width = max(width, MIN_WIDTH)
    bar, labels = _bar(facts, width - 2)
    lines = [_title(facts), _ruler(labels, width), f"├{bar}▶"]
    lines += [_pointer(name, offset, facts, width) for name, offset in _offsets(facts)]
    if facts.damage is not None:
        lines.append(f"DAMAGED: {facts.damage}")
    lines += [f"LOST: {hole}" for hole in facts.holes]
    return "\n".join(line.rstrip() for line in lines if line) + "\n"


def _title(facts: LogFacts) -> str:
    offsets = facts.log_end_offset - facts.log_start_offset
    segments = len(facts.segments)
    text = (
        f"{facts.topic}-{facts.partition}: {offsets:,} offset{'s' * (offsets != 1)} in "
        f"{segments} segment{'s' * (segments != 1)}, {format_bytes(facts.size_bytes)}"
    )
    if facts.archived_bytes:
        text += (
            f", of which {format_bytes(facts.archived_bytes)} in the archive only ({IN_ARCHIVE})"
        )
    return text


def _bar(facts: LogFacts, width: int) -> tuple[str, list[tuple[int, int]]]:
    """Return the bar, and (column, base offset) of each segment that has at least a column."""
    total = max(sum(segment.log_bytes for segment in facts.segments), 1)
    columns: list[str] = []
    labels: list[tuple[int, int]] = []
    done = 0
    for segment in facts.segments:
        done += segment.log_bytes
        room = round(width * done / total) - len(columns)
        if not room:
            continue
        labels.append((len(columns), segment.base_offset))
        fill = ACTIVE if segment.is_active else CLOSED if segment.is_on_disk else IN_ARCHIVE
        if segment.end_offset <= facts.log_start_offset:
            fill = BELOW_START
        is_last = done == total
        columns += [fill] * (room if is_last or room < 2 else room - 1)
        columns += [] if is_last or room < 2 else ["│"]
    return "".join(columns).ljust(width, EMPTY), labels


def _ruler(labels: list[tuple[int, int]], width: int) -> str:
    """Return the base offsets, each above the start of its segment, where they fit."""
    line = ""
    for column, offset in labels:
        label = f"{offset:,}"
        if len(line) <= column and column + 1 + len(label) <= width:
            line = line.ljust(column) + " " * (column > 0 and len(line) == column) + label + " "
    return line


def _offsets(facts: LogFacts) -> list[tuple[str, int]]:
    return [
        ("log start", facts.log_start_offset),
        ("high watermark", facts.high_watermark),
        ("log end", facts.log_end_offset),
    ]


def _pointer(name: str, offset: int, facts: LogFacts, width: int) -> str:
    """Return a line that points at the position of an offset in the bar, with its name."""
    column = 1 + _column_of(offset, facts, width - 2)
    label = f"{name} {offset:,}"
    if column + 2 + len(label) <= width:
        return " " * column + "└ " + label
    return (label + " ┘").rjust(column + 1)


def _column_of(offset: int, facts: LogFacts, width: int) -> int:
    """Return the column of an offset: by bytes to its segment, then in proportion inside."""
    total = max(sum(segment.log_bytes for segment in facts.segments), 1)
    done = 0.0
    for segment in facts.segments:
        span = max(segment.end_offset - segment.base_offset, 1)
        share = min(max((offset - segment.base_offset) / span, 0.0), 1.0)
        done += segment.log_bytes * share
    return min(round(width * done / total), width - 1)
