"""Durations and sizes in words, such as ``7d`` and ``1GiB``, and the numbers that Kafka takes.

A setting is stored, and sent to Kafka's clients, as it was given: words are not accepted, and the
error says the number.
"""

from __future__ import annotations

import re
from typing import Final

_LAST_WORD: Final = re.compile(r"[a-z]+$")
_UNITS_MS: Final = {"ms": 1, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000}
_WORDS: Final = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]+)\s*")
_DURATIONS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond"), 1),
    **dict.fromkeys(("s", "sec", "second"), 1_000),
    **dict.fromkeys(("m", "min", "minute"), 60_000),
    **dict.fromkeys(("h", "hour"), 3_600_000),
    **dict.fromkeys(("d", "day"), 86_400_000),
    **dict.fromkeys(("w", "week"), 604_800_000),
}
_SIZES: Final = {
    "b": 1,
    **{word: 1 << 10 * (n + 1) for n, one in enumerate("kmgt") for word in (one, f"{one}ib")},
    **{f"{one}b": 1000 ** (n + 1) for n, one in enumerate("kmgt")},
}


def unit_of(name: str) -> int | None:
    """Return the unit of a setting's number in ms, by the end of its name; None: not a time."""
    last = _LAST_WORD.search(name)
    return None if last is None else _UNITS_MS.get(last[0])


def plain_number_hint(name: str, text: object) -> str:
    """Return what to write for a duration or a size in words; blank for any other text."""
    words = _WORDS.fullmatch(text) if isinstance(text, str) else None
    if words is None:
        return ""
    amount, unit = words[1], words[2].lower()
    per_number = unit_of(name)
    if per_number is not None:
        size = _DURATIONS_MS.get(unit, _DURATIONS_MS.get(unit.removesuffix("s")))
    else:
        size, per_number = _SIZES.get(unit), 1
    if size is None:
        return ""
    number = float(amount) * size / per_number
    return f"; write {number:.0f}" if number.is_integer() else ""
