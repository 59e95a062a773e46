"""What numbers on pages were in the last minutes, drawn small beside them.

Only what a page shows is remembered, and only while it is looked at: nothing is read for it.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.env.clock import MS_PER_S
from tidelog.explain.printable_text import duration

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tidelog.env.clock import Clock

_SPAN_MS: Final = 10 * 60_000
_LEAST_GAP_MS: Final = 4000
"""Of two values that come closer together, the later one replaces the earlier."""
_MOST_SERIES: Final = 500
WIDTH: Final = 96
HEIGHT: Final = 20
"""The size of a drawing, in pixels of its own."""


class Sparkline(NamedTuple):
    """A line through the values of some minutes: ``points`` of an SVG polyline, and its text."""

    points: str
    text: str


class History:
    """The last ten minutes of numbers, by what they are of; those not shown for longest go first.

    Used by one thread at a time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._series: Final[dict[Hashable, deque[tuple[int, float]]]] = {}

    def note(
        self, key: Hashable, value: float | None, *, is_counter: bool = False
    ) -> Sparkline | None:
        """Remember what ``value`` is now; return its line, None of fewer than two values.

        Of a counter, the line shows its growth per second; a counter that fell has begun again.
        """
        now_ms = self._clock.now_ms()
        # It moves to the end: the series at the front is the one not shown for longest.
        series = self._series[key] = self._series.pop(key, deque())
        if len(self._series) > _MOST_SERIES:
            del self._series[next(iter(self._series))]
        while series and not now_ms - _SPAN_MS <= series[0][0] <= now_ms:
            series.popleft()
        if value is not None:
            if len(series) > 1 and now_ms - series[-2][0] < _LEAST_GAP_MS:
                series.pop()
            series.append((now_ms, value))
        return _line(_growth(series) if is_counter else list(series), is_rate=is_counter)


def _growth(series: deque[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return the growth per second up to each value but the first."""
    return [
        (at, max(new - old, 0) * MS_PER_S / max(at - before, 1))
        for (before, old), (at, new) in pairwise(series)
    ]


def _line(values: list[tuple[int, float]], *, is_rate: bool) -> Sparkline | None:
    if len(values) < 2 or values[-1][0] <= values[0][0]:
        return None
    first_ms, passed_ms = values[0][0], values[-1][0] - values[0][0]
    least, most = min(value for _, value in values), max(value for _, value in values)
    inner = HEIGHT - 2  # half of the line's width stays free at each edge

    def place(at_ms: int, value: float) -> str:
        share = 0.5 if most == least else (value - least) / (most - least)
        return f"{(at_ms - first_ms) * WIDTH / passed_ms:.1f},{1 + inner * (1 - share):.1f}"

    unit = " per second" if is_rate else ""
    text = f"{_number(least)} to {_number(most)}{unit} in the last {duration(passed_ms)}"
    return Sparkline(" ".join(place(*one) for one in values), text)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"
