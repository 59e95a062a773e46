"""Values of the command line."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.arguments import (
    deletion_end,
    directory_name,
    either,
    key_value,
    time_ms,
    whole,
)
from tidelog.cli.terminal import MAX_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_setting_is_a_name_and_a_value() -> None:
    """The value may be empty or contain equal signs."""
    assert key_value("a=b=c") == ("a", "b=c")
    assert key_value("a=") == ("a", "")


def test_a_word_stands_for_a_value() -> None:
    """It stands for itself, or for what is given; anything else is read."""
    target = either(time_ms, "max-timestamp", all=None)

    assert target("max-timestamp") == "max-timestamp"
    assert target("all") is None
    assert target("1970-01-02") == 86_400_000


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (time_ms, "yesterday"),
        (time_ms, "2026-13-01"),
        (either(time_ms, "latest"), "now"),
        (key_value, "a"),
        (key_value, "=b"),
        (whole(), "-1"),
        (whole(), "1.5"),
        (whole(), "1_0"),
        (whole(), " 10"),
        (whole(), "\u0661\u0660"),
        (deletion_end, "1_0"),
        (whole(), str(2**63)),
        (whole(1), "0"),
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
        whole(1, MAX_COLUMNS)(text)

    assert whole(1, MAX_COLUMNS)("1000") == 1000
