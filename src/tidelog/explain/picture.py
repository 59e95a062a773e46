"""A log drawn as text: its segments to scale, and where its offsets lie.

Owns the drawing. Must not read files: it draws the facts of ``describe``.

    flights-0: 49,193 offsets in 3 segments, 12.4 MB
    0                      30,113                  60,002
    ├░░░░░░░░░░░░░░░░░░░░░░│███████████████████████│▒▒▒▒▒▒▒▒▒▒▒▶
                                └ log start 35,000
                                       high watermark 80,000 ┘
                                               log end 84,193 ┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.explain.describe import LogFacts

CLOSED: Final = "█"
ACTIVE: Final = "▒"
GONE: Final = "░"
EMPTY: Final = "╌"
DEFAULT_WIDTH: Final = 78
MIN_WIDTH: Final = 48
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


def draw_log(facts: LogFacts, width: int = DEFAULT_WIDTH) -> str:
    """Return the picture of one log, ``width`` columns wide (at least 48), each line ended.

    A segment is drawn in proportion to its bytes: closed ones full, the active one lighter, those
    below the log start offset lightest. Above stand the base offsets, as far as there is room for
    them, and below the three offsets that readers and retention go by.
    """
    width = max(width, MIN_WIDTH)
    bar, marks = _bar(facts, width - 2)
    lines = [_title(facts), _ruler(marks, width), f"├{bar}▶"]
    lines += [_pointer(name, offset, facts, width) for name, offset in _offsets(facts)]
    if facts.damage is not None:
        lines.append(f"DAMAGED: {facts.damage}")
    return "\n".join(line.rstrip() for line in lines if line) + "\n"


def format_bytes(size_bytes: int) -> str:
    """Return a size for people: ``12.4 MB``, in powers of 1,000."""
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:,.0f} {_UNITS[unit]}" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"


def _title(facts: LogFacts) -> str:
    offsets = facts.log_end_offset - facts.log_start_offset
    segments = len(facts.segments)
    return (
        f"{facts.topic}-{facts.partition}: {offsets:,} offset{'s' * (offsets != 1)} in "
        f"{segments} segment{'s' * (segments != 1)}, {format_bytes(facts.size_bytes)}"
    )


def _bar(facts: LogFacts, width: int) -> tuple[str, list[tuple[int, int]]]:
    """Return the bar and, per segment that got room, (column, base offset)."""
    total = max(sum(segment.log_bytes for segment in facts.segments), 1)
    columns: list[str] = []
    marks: list[tuple[int, int]] = []
    done = 0
    for segment in facts.segments:
        done += segment.log_bytes
        room = round(width * done / total) - len(columns)
        if not room:
            continue
        marks.append((len(columns), segment.base_offset))
        fill = ACTIVE if segment.is_active else CLOSED
        if segment.end_offset <= facts.log_start_offset:
            fill = GONE
        is_last = done == total
        columns += [fill] * (room if is_last or room < 2 else room - 1)
        columns += [] if is_last or room < 2 else ["│"]
    return "".join(columns).ljust(width, EMPTY), marks


def _ruler(marks: list[tuple[int, int]], width: int) -> str:
    """Write each segment's base offset above its start, where there is room for it."""
    line = ""
    for column, offset in marks:
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
    """Point at an offset's place in the bar and say what it is."""
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
