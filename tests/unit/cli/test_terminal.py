"""Output for people."""

from __future__ import annotations

import io
import sys

import pytest

from tidelog.cli.terminal import has_colour, screen_width
from tidelog.explain.printable_text import counted, format_bytes, format_time, printable


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


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (12_400_000, "12.4 MB"),
        (3 * 10**9, "3.0 GB"),
        (12_345 * 10**12, "12,345.0 TB"),
    ],
)
def test_sizes_are_human_readable(size: int, text: str) -> None:
    """They are in powers of 1,000, with one decimal."""
    assert text == format_bytes(size)


def test_without_a_terminal_the_width_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, also where the output has no descriptor."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    assert screen_width() == 80


class Terminal(io.StringIO):
    """A terminal, as far as a program can see."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize(
    ("output", "no_color", "terminal", "expected"),
    [
        (Terminal(), "", "xterm", True),
        (Terminal(), "1", "xterm", False),
        (Terminal(), "", "dumb", False),
        (io.StringIO(), "", "xterm", False),
    ],
)
def test_colours_are_for_terminals(
    output: io.StringIO,
    no_color: str,
    terminal: str,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For those that can, unless NO_COLOR is set to something."""
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", terminal)

    assert has_colour() == expected


@pytest.mark.parametrize(
    ("columns", "width"), [("95", 95), ("1000", 1000), ("1001", 80), ("x", 80), ("0", 80)]
)
def test_the_width_is_that_of_columns(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a thousand; what is not such a number does not count."""
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", columns)

    assert screen_width() == width


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 records"), (1, "1 record"), (2000, "2,000 records")]
)
def test_a_number_has_its_noun(count: int, text: str) -> None:
    """In the singular only for one."""
    assert counted(count, "record") == text


def test_two_of_a_batch_are_batches() -> None:
    """A noun that ends with a sibilant has its plural with ``es``."""
    assert (counted(1, "batch"), counted(2, "batch")) == ("1 batch", "2 batches")


def test_a_moment_is_a_date_in_utc() -> None:
    """Beyond the calendar it stays a number."""
    assert format_time(1_795_271_400_000) == "2026-11-21 14:30:00 UTC"
    assert format_time(-1) == "1969-12-31 23:59:59 UTC"
    assert format_time(10**17) == "100000000000000000 ms"
