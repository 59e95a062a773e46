"""What a command knows of the terminal: its width, and a bar for work that takes long.

Owns where progress is shown: on standard error, and only if that is a terminal.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Self

    from tidelog.env.clock import Clock

MAX_WIDTH: Final = 120
DEFAULT_WIDTH: Final = 80
_BAR_CELLS: Final = 24
_REDRAW_NS: Final = 100_000_000


def screen_width() -> int:
    """Return the columns to draw in: the terminal's, at most 120; 80 where there is none."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        columns = DEFAULT_WIDTH
    return min(columns, MAX_WIDTH)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 record``, ``2,000 records``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def format_time(ms: int) -> str:
    """Return a moment for people: ``2026-11-21 14:30:00 UTC``; beyond the calendar the number."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


class Progress:
    """A bar on standard error that shows how much of some work is done; silent off a terminal."""

    def __init__(self, what: str, total: int, clock: Clock) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._is_shown = sys.stderr.isatty()
        self._drawn_ns = clock.monotonic_ns()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, done: int, *, total: int | None = None, left_ms: int | None = None) -> None:
        """Say how much is done by now; draws at most ten times a second.

        ``total`` says anew how much there is in all, ``left_ms`` how long the rest may take.
        """
        self._total = self._total if total is None else total
        if not self._is_shown:
            return
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._drawn_ns < _REDRAW_NS:
            return
        self._drawn_ns = now_ns
        share = min(done / self._total, 1.0) if self._total else 1.0
        cells = "█" * round(share * _BAR_CELLS)
        left = "" if left_ms is None else f"  {-(-left_ms // 1000)} s left"
        sys.stderr.write(f"\r{self._what} {cells:░<{_BAR_CELLS}} {share:4.0%}{left}\x1b[K")
        sys.stderr.flush()
