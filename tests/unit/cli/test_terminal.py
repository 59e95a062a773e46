"""Output for people."""

from __future__ import annotations

import io
import sys

import pytest

from tidelog.cli.terminal import Progress, counted, format_time, printable, screen_width
from tidelog.testing import ManualClock


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


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *steps: int, total: int) -> str:
    """Return what is written during work with a step every 60 ms."""
    clock = ManualClock()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("copying", total, clock) as progress:
        for done in steps:
            clock.advance(60)
            progress.show(done)
    return stream.getvalue()


def test_progress_is_drawn_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each drawing replaces the last; at the end the line is cleared."""
    text = drawn(monkeypatch, Terminal(), 1, 2, 3, 4, total=4)

    shown = [line.rstrip("\x1b[K").strip() for line in text.split("\r") if "copying" in line]
    assert shown == [
        "copying ████████████░░░░░░░░░░░░  50%",
        "copying ████████████████████████ 100%",
    ]
    assert text.endswith("\r\x1b[K")


@pytest.mark.parametrize("total", [0, 2])
def test_progress_never_exceeds_100_percent(monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    """A file may grow while it is read."""
    assert "100%" in drawn(monkeypatch, Terminal(), 0, 5, total=total)


def test_off_a_terminal_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar would clutter files and other programs' logs."""
    assert drawn(monkeypatch, io.StringIO(), 1, 2, 3, 4, total=4) == ""


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
