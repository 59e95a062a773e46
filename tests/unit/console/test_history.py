"""Lines through the numbers of the last minutes: what is drawn, and how much is kept."""

from __future__ import annotations

from tidelog.console.history import HEIGHT, WIDTH, History, Sparkline
from tidelog.testing.manual_time import ManualClock

STEP_MS = 5000


def note_all(
    history: History, clock: ManualClock, *values: float | None, is_counter: bool = False
) -> Sparkline | None:
    """Note the values of one number, a step apart; return the last line."""
    line = None
    for value in values:
        line = history.note("n", value, is_counter=is_counter)
        clock.advance(STEP_MS)
    return line


def points_of(line: Sparkline | None) -> list[tuple[float, float]]:
    assert line is not None
    pairs = [one.split(",") for one in line.points.split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_a_line_goes_through_all_values() -> None:
    """From the left edge to the right one, the largest at the top."""
    clock = ManualClock()
    line = note_all(History(clock), clock, 0, 10, 5)

    assert points_of(line) == [(0, HEIGHT - 1), (WIDTH / 2, 1), (WIDTH, HEIGHT / 2)]
    assert line is not None
    assert line.text == "0 to 10 in the last 10 s"


def test_the_line_of_a_counter_is_its_growth() -> None:
    """Per second; a counter that fell counts as one that has not grown."""
    clock = ManualClock()
    line = note_all(History(clock), clock, 1000, 1010, 1030, 7, is_counter=True)

    assert line is not None
    assert line.text == "0 to 4 per second in the last 10 s"
    assert [y for _, y in points_of(line)] == [HEIGHT / 2, 1, HEIGHT - 1]


def test_one_value_and_none_make_no_line() -> None:
    """Nor does what is not known; the line continues once it is."""
    clock = ManualClock()
    history = History(clock)

    assert note_all(history, clock, None, 3, None) is None
    assert points_of(note_all(history, clock, 3)) == [(0, HEIGHT / 2), (WIDTH, HEIGHT / 2)]


def test_values_that_come_close_together_replace_each_other() -> None:
    """Many who look at one page see the line of one."""
    clock = ManualClock()
    history = History(clock)
    for number in range(100):
        line = history.note("n", number)
        clock.advance(100)

    assert len(points_of(line)) <= 4
    assert line is not None
    assert line.text == "0 to 99 in the last 9 s"


def test_what_is_older_than_ten_minutes_goes() -> None:
    """So does all of a clock that was set back."""
    clock = ManualClock()
    history = History(clock)
    line = note_all(history, clock, *range(1000))

    assert line is not None
    assert line.text == "879 to 999 in the last 10 min"
    clock.set_time_of_day(clock.now_ms() - 3_600_000)
    assert history.note("n", 1) is None


def test_what_was_not_shown_for_longest_goes_first() -> None:
    """However many numbers there are, a bounded number of them is kept."""
    clock = ManualClock()
    history = History(clock)
    history.note("rare", 1)
    history.note("often", 1)
    clock.advance(STEP_MS)
    for number in range(600):
        history.note(number, 1)
        if number % 100 == 0:
            history.note("often", 1)

    clock.advance(STEP_MS)
    assert history.note("often", 1) is not None
    assert history.note("rare", 1) is None
