"""Points in time as people give them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from tidelog.env.moments import time_ms
from tidelog.errors import InvalidArgument

HOUR_MS = 3_600_000
NOW_MS = 1_795_271_400_000


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (0, 0),
        (-1, -1),
        (np.int64(5), 5),
        ("1795271400000", NOW_MS),
        ("-1", -1),
        ("1970-01-01", 0),
        ("2026-11-21T14:30", NOW_MS),
        (" 2026-11-21 14:30:00.5 ", NOW_MS + 500),
        ("2026-11-21T14:30+02:00", NOW_MS - 2 * HOUR_MS),
        ("2026-11-21T14:30Z", NOW_MS),
        (datetime(2026, 11, 21, 14, 30, tzinfo=UTC), NOW_MS),
        (datetime(2026, 11, 21, 14, 30, tzinfo=timezone(timedelta(hours=2))), NOW_MS - 2 * HOUR_MS),
    ],
    ids=str,
)
def test_a_time_is_a_number_or_a_date(given: Any, ms: int) -> None:
    """In UTC unless it names a zone."""
    assert time_ms(given) == ms


def test_a_datetime_without_a_zone_is_local() -> None:
    """As everywhere in Python, so that ``datetime.now()`` is now; text stays in UTC."""
    code = (
        "from datetime import datetime; from tidelog.env.moments import time_ms;"
        "print(time_ms(datetime(2026, 11, 21, 15, 30)), time_ms('2026-11-21T15:30'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"TZ": "CET-1"}, capture_output=True, check=True
    )

    assert done.stdout.split() == [b"%d" % NOW_MS, b"%d" % (NOW_MS + HOUR_MS)]


@pytest.mark.parametrize(
    ("text", "distance_ms"),
    [
        ("1h", -HOUR_MS),
        ("-1h", -HOUR_MS),
        ("+1h", HOUR_MS),
        ("90s", -90_000),
        ("250ms", -250),
        ("30m", -HOUR_MS // 2),
        ("1.5h", -HOUR_MS * 3 // 2),
        ("1d12h", -36 * HOUR_MS),
        ("1w", -7 * 24 * HOUR_MS),
    ],
)
def test_a_distance_counts_from_now(text: str, distance_ms: int) -> None:
    """Back, unless it has a plus sign; where nothing says what time it is, it is refused."""
    assert time_ms(text, lambda: NOW_MS) == NOW_MS + distance_ms
    with pytest.raises(InvalidArgument, match="use a number or a date"):
        time_ms(text)


@pytest.mark.parametrize(
    "given",
    [
        *("", "noon", "1 hour", "1y", "h", "2026-13-01", "²", "9" * 20, "9" * 5000),
        *(
            "1" * 400 + "d",
            f"{10**29}d",
            True,
            1.5,
            None,
            b"1",
            timedelta(hours=1),
            np.datetime64(0, "ms"),
        ),
        *(2**63, 1 << 50_000, datetime.min),  # noqa: DTZ901 - it is in no zone
    ],
    ids=lambda given: type(given).__name__,
)
def test_anything_else_is_a_typed_error(given: Any) -> None:
    """Also a number, a date or a distance that no timestamp can hold."""
    with pytest.raises(InvalidArgument):
        time_ms(given, lambda: NOW_MS)
