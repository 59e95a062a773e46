"""The line that shows how far a long command is."""

from __future__ import annotations

import io
from errno import EIO

import pytest

from tidelog.cli.progress import ProgressLine
from tidelog.cli.shown import Shown
from tidelog.cli.terminal import print_message
from tidelog.testing import ManualClock

MB = 1_000_000


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class Hangup(Terminal):
    """A terminal that was closed."""

    def write(self, _text: str) -> int:
        """Fail as such a terminal does."""
        raise OSError(EIO, "Input/output error")


class Screen:
    """A progress line of a command named ``do``, on a clock that the test advances."""

    def __init__(self, stream: io.StringIO, shown: Shown = Shown.ON_TERMINAL) -> None:
        self.clock = ManualClock()
        self.stream = stream
        self.line = ProgressLine("do", stream, self.clock, shown, columns=lambda: 100)

    def texts(self) -> list[str]:
        """Return what was drawn, in order, without the erasures."""
        parts = self.stream.getvalue().replace("\x1b[K", "").split("\r")
        return [part for part in parts if part]


@pytest.fixture
def screen() -> Screen:
    """A line on a terminal."""
    return Screen(Terminal())


def test_what_takes_less_than_a_second_shows_nothing(screen: Screen) -> None:
    """A line that flashes up and disappears only disturbs."""
    with screen.line.task("copying", 4) as task:
        screen.clock.advance(900)
        task.show(2)

    assert screen.texts() == []


def test_the_line_has_share_amount_rate_and_time_left(screen: Screen) -> None:
    """Of what is done at 10 MB/s, 20 MB are 2 seconds."""
    with screen.line.task("copying t-0", 40 * MB) as task:
        screen.clock.advance(2_000)
        task.show(20 * MB)

    assert screen.texts() == [
        "copying t-0 ████████████░░░░░░░░░░░░  50%  20.0 MB of 40.0 MB  10.0 MB/s  2 s left"
    ]


def test_the_line_is_drawn_ten_times_a_second(screen: Screen) -> None:
    """Each drawing replaces the last, however often a step is reported."""
    with screen.line.task("copying", 100) as task:
        screen.clock.advance(1_000)
        for done in range(50):
            screen.clock.advance(10)
            task.show(done)

    assert 4 <= len(screen.texts()) <= 5


def test_the_line_is_erased_at_the_end(screen: Screen) -> None:
    """What the command prints then starts on an empty line."""
    with screen.line.task("copying", 4) as task:
        screen.clock.advance(1_500)
        task.show(2)

    assert screen.stream.getvalue().endswith("\r\x1b[K")


def test_a_terminal_that_was_closed_does_not_end_the_work() -> None:
    """Steps are reported in the middle of a change; after the first failure none is drawn."""
    screen = Screen(Hangup())
    with screen.line.task("copying", 4) as task:
        for done in range(4):
            screen.clock.advance(1_500)
            task.show(done)

    assert screen.texts() == []


def test_a_message_starts_on_an_empty_line(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its text would stand behind half of a line of progress."""
    monkeypatch.setattr("sys.stderr", screen.stream)
    with screen.line.in_use(), screen.line.task("copying", 4) as task:
        screen.clock.advance(1_500)
        task.show(2)
        print_message("do", "a warning")

    assert "\r\x1b[Ktidelog do: a warning\n" in screen.stream.getvalue()


@pytest.mark.parametrize("total", [0, 2])
def test_progress_never_exceeds_100_percent(screen: Screen, total: int) -> None:
    """A file may grow while it is read."""
    with screen.line.task("copying", total) as task:
        screen.clock.advance(1_500)
        task.show(5)

    assert "100%" in screen.texts()[0]


def test_the_rate_is_that_of_the_last_ten_seconds(screen: Screen) -> None:
    """After a stall, or from a cache to the disk, an average since the start misleads."""
    with screen.line.task("copying", 1_000 * MB) as task:
        screen.clock.advance(1_000)
        task.show(400 * MB)
        for second in range(1, 31):
            screen.clock.advance(1_000)
            task.show((400 + second) * MB)

    assert "  1.0 MB/s  9 min 30 s left" in screen.texts()[-1]


def test_without_a_total_the_line_shows_how_long_it_takes(screen: Screen) -> None:
    """Waiting for a service, say: nobody knows for how long."""
    with screen.line.task("waiting for process 7") as task:
        screen.clock.advance(61_000)
        task.show(0)

    assert screen.texts() == ["waiting for process 7  1 min 1 s"]


def test_things_are_counted_as_things(screen: Screen) -> None:
    """Partitions have no megabytes."""
    with screen.line.task("reading", 2_000, "partition") as task:
        screen.clock.advance(2_000)
        task.show(1_000, what="reading t-999")

    expected = "reading t-999 ████████████░░░░░░░░░░░░  50%  1,000 of 2,000 partitions  2 s left"
    assert screen.texts() == [expected]


def test_the_innermost_task_is_shown(screen: Screen) -> None:
    """A recovery within an append; then the append again."""
    with screen.line.task("appending", 10) as outer:
        screen.clock.advance(2_000)
        with screen.line.task("recovering t-0", 10) as inner:
            inner.show(5)
            screen.clock.advance(200)
            outer.show(5)
        screen.clock.advance(200)
        outer.show(6)

    assert [text.split()[0] for text in screen.texts()] == ["recovering", "appending"]


def test_a_step_that_takes_long_is_named_before_it_begins(screen: Screen) -> None:
    """While a kernel is compiled nothing else can be drawn."""
    with screen.line.task("compiling kernels", at_once=True) as task:
        task.show(0)

    assert screen.texts() == ["compiling kernels  0 s"]


def test_a_long_name_never_wraps_the_line() -> None:
    """A line that wraps cannot be erased."""
    screen = Screen(Terminal())
    with screen.line.task("recovering " + "x" * 249, 10) as task:
        screen.clock.advance(2_000)
        task.show(5)

    assert max(map(len, screen.texts())) < 100


def test_off_a_terminal_nothing_is_drawn() -> None:
    """A line would clutter files and other programs' logs."""
    screen = Screen(io.StringIO())
    with screen.line.task("copying", 4) as task:
        screen.clock.advance(60_000)
        task.show(2)

    assert screen.stream.getvalue() == ""


def test_off_a_terminal_lines_are_printed_on_request() -> None:
    """A whole line every ten seconds, for a log."""
    screen = Screen(io.StringIO(), Shown.ALWAYS)
    with screen.line.task("copying", 100 * MB) as task:
        for second in range(1, 26):
            screen.clock.advance(1_000)
            task.show(second * MB)

    assert screen.stream.getvalue().splitlines() == [
        "tidelog do: copying  10%  10.0 MB of 100.0 MB  1.0 MB/s  1 min 30 s left",
        "tidelog do: copying  20%  20.0 MB of 100.0 MB  1.0 MB/s  1 min 20 s left",
    ]


def test_quiet_shows_nothing_on_a_terminal() -> None:
    """As ``--quiet`` asks."""
    screen = Screen(Terminal(), Shown.NEVER)
    with screen.line.task("copying", 4) as task:
        screen.clock.advance(60_000)
        task.show(2)

    assert screen.stream.getvalue() == ""


def test_a_name_cannot_send_escape_sequences(screen: Screen) -> None:
    """Directories are named by others."""
    with screen.line.task("reading \x1b[2J", 4) as task:
        screen.clock.advance(2_000)
        task.show(2)

    assert "\\x1b[2J" in screen.texts()[0]
