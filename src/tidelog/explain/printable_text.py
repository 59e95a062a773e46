"""Text for people: what is safe to print, numbers with their nouns, sizes, times, transactions."""

from __future__ import annotations

from typing import Final

from tidelog.env.moments import utc_text

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")
_TIMES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_FEW: Final = 10


def printable(text: str) -> str:
    r"""Return ``text`` with every unprintable character escaped, as in ``a\nb`` or ``\x1b[2J``.

    Names of topics, files and directories come from outside. Printed as they are, they could break
    lines or send escape sequences to the terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 record``, ``2,000 records``, ``2 batches``."""
    plural = noun + ("es" if noun.endswith("ch") else "s")
    return f"{count:,} {noun if count == 1 else plural}"


def format_bytes(size_bytes: int) -> str:
    """Return a human-readable size in powers of 1,000, such as ``12.4 MB``."""
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:,.0f} {_UNITS[unit]}" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"


def format_time(ms: int) -> str:
    """Return milliseconds since the Unix epoch as ``2026-11-21 14:30:00 UTC``.

    A time outside the calendar's range is returned as the number: ``-1 ms``.
    """
    text = utc_text(ms)
    return f"{ms} ms" if text is None else f"{text} UTC"


def duration(ms: int) -> str:
    """Return how long a time in ms is, in one unit or two: ``5 s``, ``2 h 10 min``, ``3 d``."""
    left = max(ms, 0) // 1000
    for number, (seconds, unit) in enumerate(_TIMES):
        count = left // seconds
        if not count:
            continue
        rest = left % seconds // _TIMES[number + 1][0] if number + 1 < len(_TIMES) else 0
        if count < _FEW and rest:
            return f"{count} {unit} {rest} {_TIMES[number + 1][1]}"
        return f"{count:,} {unit}"
    return "0 s"


def producer(producer_id: int, transactional_id: str | None) -> str:
    """Return the name of a producer, with its transactional id if that is known."""
    name = "" if transactional_id is None else f" ({printable(transactional_id)})"
    return f"producer {producer_id}{name}"


def begun_by(
    producer_id: int,
    epoch: int,
    first_offset: int,
    first_timestamp: int,
    transactional_id: str | None,
) -> str:
    """Return who began a transaction, and since when it is open; -1 is what is not known."""
    who = producer(producer_id, transactional_id) + (f", epoch {epoch}," if epoch >= 0 else "")
    since = f" since {format_time(first_timestamp)}" if first_timestamp >= 0 else ""
    return f"{who} from offset {first_offset:,}{since}"
