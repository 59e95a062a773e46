"""Values of the command line."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.arguments import (
    columns,
    directory_name,
    key_value,
    not_negative,
    offset_target,
    positive,
    time_ms,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("-1", -1),
        ("1795272026136", 1795272026136),
        ("1970-01-01", 0),
        ("2026-11-21T14:30", 1795271400000),
        ("2026-11-21 14:30:00.5", 1795271400500),
        ("2026-11-21T14:30+02:00", 1795264200000),
        ("2026-11-21T14:30Z", 1795271400000),
    ],
)
def test_a_time_is_milliseconds_or_a_date(text: str, ms: int) -> None:
    """In UTC unless it names another zone, whatever the machine's zone is."""
    assert time_ms(text) == ms


def test_a_setting_is_a_name_and_a_value() -> None:
    """The value may be empty or contain equal signs."""
    assert key_value("a=b=c") == ("a", "b=c")
    assert key_value("a=") == ("a", "")


def test_an_offset_is_given_by_name_or_by_time() -> None:
    """For ``offsets --at``."""
    assert offset_target("max-timestamp") == "max-timestamp"
    assert offset_target("1970-01-02") == 86_400_000


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (time_ms, "yesterday"),
        (time_ms, "2026-13-01"),
        (offset_target, "now"),
        (key_value, "a"),
        (key_value, "=b"),
        (not_negative, "-1"),
        (not_negative, "1.5"),
        (positive, "0"),
        (directory_name, ""),
    ],
)
def test_an_invalid_value_is_refused(read: Callable[[str], object], text: str) -> None:
    """The error begins with the value, so that the parser can put the option before it."""
    with pytest.raises(ArgumentTypeError, match=rf"^{re.escape(text)}: |^'': "):
        read(text)


@pytest.mark.parametrize("text", ["0", "1001", "100000000000"])
def test_the_width_of_a_drawing_is_bounded(text: str) -> None:
    """A line of a hundred billion columns would take all memory."""
    with pytest.raises(ArgumentTypeError, match="must be at"):
        columns(text)

    assert columns("1000") == 1000
