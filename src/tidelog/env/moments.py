"""Points in time as people give them: a number, a date and time, or a distance from now.

The command line, JSON records and Python programs are read by these rules.
Kafka has numbers only.
"""

from __future__ import annotations

import re
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.env.clock import MS_PER_S
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

Moment: TypeAlias = "int | str | datetime"
"""What ``time_ms`` takes."""

FORMS: Final = (
    "milliseconds since 1970-01-01; a date and time such as 2026-11-21T14:30, in UTC unless it"
    " names a zone; or a distance such as 90s, 30m, 1h, 2d or 1w: that long ago (+1h: from now)"
)
"""What ``time_ms`` takes as text, in words."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
_DISTANCE: Final = re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]{1,30})?(ms|[smhdw]))+")
_PART: Final = re.compile(r"([0-9.]+)(ms|[smhdw])")
_UNIT_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_INT64_MAX: Final = 2**63 - 1


def time_ms(given: Moment, now_ms: Callable[[], int] | None = None) -> int:
    """Return a point in time in ms since the epoch.

    Args:
        given: ms since the epoch; a ``datetime``, which without a zone is in local time, as
            everywhere in Python; or text: a number, an ISO 8601 date and time, in UTC unless it
            names a zone, or a distance from now: ``1h`` is an hour ago, ``+1h`` in an hour.
        now_ms: returns the current time in ms; None: distances are refused.

    Raises:
        InvalidArgument: it is none of these, or does not fit into 64 bits.
    """
    number = _number(given, now_ms)
    if not -_INT64_MAX <= number <= _INT64_MAX:
        named = f"{given}: " if isinstance(given, str) else ""
        raise InvalidArgument(f"{named}a time in ms has at most 64 bits")
    return number


def check_ms(name: str, given: object) -> None:
    """Raise InvalidArgument for what is not a number of milliseconds, which is given under a name.

    A wait of less than nothing is none: what is meant may be one without an end.
    """
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not is_number or not given >= 0:  # type: ignore[operator]  # mypy forgets that it is Real
        raise InvalidArgument(f"{name} is a number of milliseconds, 0 or more, not {given!r}")


def utc_text(ms: float) -> str | None:
    """Return ms since the epoch as ``2026-11-21 14:30:00``; None if no calendar has that."""
    from datetime import UTC, datetime  # noqa: PLC0415 - slow to import, and few calls need it

    try:
        return f"{datetime.fromtimestamp(ms // MS_PER_S, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return None


def _number(given: Moment, now_ms: Callable[[], int] | None) -> int:
    if isinstance(given, str):
        return _of_text(given, now_ms)
    if isinstance(given, bool):
        raise InvalidArgument(f"{given} is not a time")
    try:
        return index(given)  # type: ignore[arg-type]  # also NumPy's integers
    except TypeError:
        return _of_datetime(given)


def _of_datetime(given: object) -> int:
    from datetime import datetime  # noqa: PLC0415 - as above

    if not isinstance(given, datetime):
        what = type(given).__name__
        raise InvalidArgument(f"a time is an int (ms), a datetime or text, not {what}: {given!r}")
    try:
        return round(datetime.timestamp(given) * MS_PER_S)
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidArgument(f"{given} is not a valid time: {error}") from None


def _of_text(given: str, now_ms: Callable[[], int] | None) -> int:
    text = given.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DISTANCE.fullmatch(text):
        if now_ms is None:
            raise InvalidArgument(f"{given}: use a number or a date here, not a distance from now")
        parts = _PART.findall(text)
        distance = round(sum(float(number) * _UNIT_MS[unit] for number, unit in parts))
        return now_ms() + (distance if text.startswith("+") else -distance)
    from datetime import UTC, datetime  # noqa: PLC0415 - as above

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"{given}: not a valid time; use {FORMS}") from None
    return _of_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
