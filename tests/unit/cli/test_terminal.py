"""Output for people."""

from __future__ import annotations

import io
import sys

import pytest

from tidelog.cli.terminal import counted, format_time, printable, screen_width


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("flights-0", "flights-0"),
        ("München ☃", "München ☃"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202etxt", r"\u202etxt"),
        ("\udcff", r"\udcff"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, printed: str) -> None:
    """Line breaks, control sequences, reordering marks and bytes that are not valid UTF-8."""
    assert printable(text) == printed


def test_without_a_terminal_the_width_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, also where the output has no descriptor."""
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    assert screen_width() == 80


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 records"), (1, "1 record"), (2000, "2,000 records")]
)
def test_a_number_has_its_noun(count: int, text: str) -> None:
    """In the singular only for one."""
    assert counted(count, "record") == text


def test_a_moment_is_a_date_in_utc() -> None:
    """Beyond the calendar it stays a number."""
    assert format_time(1_795_271_400_000) == "2026-11-21 14:30:00 UTC"
    assert format_time(-1) == "1969-12-31 23:59:59 UTC"
    assert format_time(10**17) == "100000000000000000 ms"
