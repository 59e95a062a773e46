"""The line on standard error that shows how far a long command is.

It is drawn on a terminal only, or, with ``--progress``, printed as whole lines elsewhere. Work that
is over within a second shows nothing.
"""

from __future__ import annotations

import math
import os
from collections import deque
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Final

from tidelog.cli import terminal
from tidelog.cli.shown import Shown
from tidelog.env.clock import MS_PER_S, NS_PER_MS, SYSTEM_CLOCK
from tidelog.explain.printable_text import counted, duration, format_bytes, printable
from tidelog.log.loading.load_watch import LoadWatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self, TextIO

    from tidelog.env.clock import Clock
    from tidelog.log.loading.load_watch import RecoveryProgress
    from tidelog.manager.log_manager import LogManager

SHOWN_AFTER_MS: Final = 1_000
"""How long a command works before the line appears."""
REDRAW_MS: Final = 100
LINE_EVERY_MS: Final = 10_000
"""How often a whole line is printed where the line cannot be redrawn."""
RATE_MS: Final = 10_000
"""The rate is that of this time up to now."""
_MIN_CELLS: Final = 8
_MAX_CELLS: Final = 24
_ERASE: Final = "\r\x1b[K"


BYTES: Final = ""
"""The unit of a task that counts bytes, with a rate; of others a noun in the singular."""


class ProgressLine:
    """The progress of one command. Any thread may report.

    Tasks may contain others; the innermost is shown. ``_lock`` guards what is drawn.

    Args:
        command: the name of the command, which begins whole lines.
        stream: standard error.
        clock: measures durations.
        shown: when to draw.
        columns: returns the width of the terminal.
    """

    def __init__(
        self,
        command: str,
        stream: TextIO,
        clock: Clock,
        shown: Shown = Shown.ON_TERMINAL,
        *,
        columns: Callable[[], int] = lambda: terminal.DEFAULT_WIDTH,
    ) -> None:
        is_terminal = shown is not Shown.NEVER and stream.isatty()
        self._command = command
        self._stream = stream
        self._columns = columns
        self._is_redrawn = is_terminal
        self._is_shown = is_terminal or shown is Shown.ALWAYS
        self._every_ms = REDRAW_MS if is_terminal else LINE_EVERY_MS
        self._clock = clock
        self._lock = RLock()
        self._tasks: list[Task] = []
        self._is_drawn = False
        first_ms = SHOWN_AFTER_MS if is_terminal else LINE_EVERY_MS
        self._due_ms = self.now_ms() + first_ms

    def now_ms(self) -> int:
        """Return milliseconds since an arbitrary moment."""
        return self._clock.monotonic_ns() // NS_PER_MS

    @contextmanager
    def task(
        self, what: str, total: int | None = None, unit: str = BYTES, *, at_once: bool = False
    ) -> Iterator[Task]:
        """Show the progress of the body.

        Args:
            what: what is being done, as in ``recovering t-0``.
            total: how much there is to do; None: unknown.
            unit: what ``total`` counts.
            at_once: show it before a second has passed, since its steps may take longer.
        """
        task = Task(self, what, total, unit, at_once=at_once)
        with self._lock:
            self._tasks.append(task)
        try:
            yield task
        finally:
            with self._lock:
                self.erase()
                self._tasks.remove(task)

    def reached(self, task: Task) -> None:
        """Draw a task that has come further, unless the last drawing is recent."""
        if not self._is_shown:
            return
        now_ms = self.now_ms()
        with self._lock:
            is_due = now_ms >= self._due_ms or (task.at_once and not task.is_drawn)
            if not is_due or self._tasks[-1] is not task:
                return
            self._due_ms = now_ms + self._every_ms
            task.is_drawn = self._is_drawn = True
            if self._is_redrawn:
                width = self._columns() - 1
                self._write(f"{_ERASE}{task.text(width)[:width]}")
            else:
                self._write(f"tidelog {self._command}: {task.text()}\n")

    def erase(self) -> None:
        """Erase the line, for other output; the next step draws it again."""
        with self._lock:
            if self._is_drawn and self._is_redrawn:
                self._write(_ERASE)
            self._is_drawn = False

    def _write(self, text: str) -> None:
        """Write it; show nothing more where that fails, as on a terminal that was closed."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._is_shown = self._is_redrawn = False

    @contextmanager
    def in_use(self) -> Iterator[Self]:
        """Make it the line that ``current_line`` returns, which messages erase."""
        _lines.append(self)
        terminal.before_messages.append(self.erase)
        try:
            yield self
        finally:
            terminal.before_messages.remove(self.erase)
            _lines.remove(self)


class Task:
    """Some work whose progress is shown; see ``ProgressLine.task``."""

    def __init__(
        self, line: ProgressLine, what: str, total: int | None, unit: str, *, at_once: bool
    ) -> None:
        self.at_once: Final = at_once
        self.is_drawn = False
        self._line = line
        self._what = printable(what)
        self._total = total
        self._unit = unit
        self._done = 0
        self._begun_ms = line.now_ms()
        self._steps = deque([(self._begun_ms, 0)])

    def show(
        self,
        done: int,
        *,
        total: int | None = None,
        what: str | None = None,
        unit: str | None = None,
    ) -> None:
        """Note how much is done; ``total``, ``what`` and ``unit`` replace what was known."""
        self._done = done
        if unit is not None:
            self._unit = unit
        if total is not None:
            self._total = total
        if what is not None:
            self._what = printable(what)
        self._line.reached(self)

    def add(self, count: int) -> None:
        """Note that so much more is done; any thread may."""
        self.show(self._done + count)

    def text(self, columns: int = 0) -> str:
        """Return the line, with a bar if that fits; called each time that it is drawn."""
        now_ms = self._line.now_ms()
        if self._total is None:
            return "  ".join((self._what, *self._amount(), duration(now_ms - self._begun_ms)))
        share = min(self._done / self._total, 1.0) if self._total else 1.0
        parts = [f"{share:.0%}", *self._amount()]
        per_second = self._per_second(now_ms)
        if per_second:
            if self._unit == BYTES:
                parts.append(f"{format_bytes(round(per_second))}/s")
            left = max(self._total - self._done, 0) / per_second
            parts.append(f"{duration(math.ceil(left) * MS_PER_S)} left")
        rest = "  ".join(parts)
        cells = min(columns - len(self._what) - len(rest) - 3, _MAX_CELLS)
        bar = "█" * round(share * cells)
        return "  ".join(
            [f"{self._what} {bar:░<{cells}}" if cells >= _MIN_CELLS else self._what, rest]
        )

    def _amount(self) -> list[str]:
        """Return how much is done, and of how much, as text."""
        if self._total is None:
            return [self._count(self._done)] if self._done else []
        if self._unit == BYTES:
            return [f"{format_bytes(self._done)} of {format_bytes(self._total)}"]
        return [f"{self._done:,} of {self._count(self._total)}"]

    def _count(self, amount: int) -> str:
        return format_bytes(amount) if self._unit == BYTES else counted(amount, self._unit)

    def _per_second(self, now_ms: int) -> float:
        """Return the rate of the last seconds; 0.0 before there is one."""
        self._steps.append((now_ms, self._done))
        while len(self._steps) > 2 and self._steps[1][0] <= now_ms - RATE_MS:
            self._steps.popleft()
        since_ms, before = self._steps[0]
        passed_ms = now_ms - since_ms
        return max(self._done - before, 0) * 1000 / passed_ms if passed_ms else 0.0


_lines: list[ProgressLine] = []


def current_line() -> ProgressLine:
    """Return the line of the command that runs; one that shows nothing outside of any."""
    if _lines:
        return _lines[-1]
    import io

    return ProgressLine("", io.StringIO(), SYSTEM_CLOCK, Shown.NEVER)


@contextmanager
def showing_progress(command: str, shown: Shown) -> Iterator[None]:
    """Show on standard error how far the body is, and that kernels are being compiled."""
    import sys

    from tidelog.kernels.runtime import gate

    line = ProgressLine(command, sys.stderr, SYSTEM_CLOCK, shown, columns=_columns)
    with line.in_use(), ExitStack() as compiling:

        def show_compiling(kernel: str | None) -> None:
            compiling.close()
            if kernel is not None:
                text = f"compiling kernels, once on this machine: {kernel}"
                compiling.enter_context(line.task(text, at_once=True)).show(0)

        before = gate.watch_compiling(show_compiling)
        try:
            yield
        finally:
            gate.watch_compiling(before)


def _columns() -> int:
    """Return the columns of the terminal of standard error."""
    import sys

    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or terminal.DEFAULT_WIDTH
    except (OSError, ValueError):
        return terminal.DEFAULT_WIDTH


class ShownWork(LoadWatcher):
    """Shows what opening a directory begins with: recoveries, and commits that were interrupted."""

    def __init__(self) -> None:
        self._what = ""
        self._task: Task | None = None
        self._shown = ExitStack()

    def progressed(self, progress: RecoveryProgress) -> None:
        """Show how much of a log is checked."""
        directory, done, total, _ = progress
        self.show(f"recovering {os.path.basename(directory)}", done, total)

    def applied(self, txn: str, done_bytes: int, total_bytes: int) -> None:
        """Show how much of a committed transaction is in the logs."""
        self.show(f"applying transaction {txn}", done_bytes, total_bytes)

    def show(self, what: str, done: int, total: int) -> None:
        """Show how many bytes of some work are done; once all are, it is over."""
        if self._task is None or what != self._what:
            self._shown.close()
            self._what = what
            self._task = self._shown.enter_context(current_line().task(what, total))
        self._task.show(done, total=total)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Show nothing any more."""
        self._shown.close()
        self._task = None


@contextmanager
def showing_load() -> Iterator[ShownLoad]:
    """Show how many logs of a service's directories are loaded, within the body."""
    with current_line().task("loading logs", 0, "log") as task:
        yield ShownLoad(task)


class ShownLoad:
    """Shows how much is loaded, whenever loading asks whether to continue."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._manager: LogManager | None = None

    def begin(self, manager: LogManager) -> None:
        """Take note of what loads the logs."""
        self._manager = manager

    def should_stop(self) -> bool:
        """Show how much is loaded; return False, to continue."""
        progress = None if self._manager is None else self._manager.progress
        if progress is not None:
            amounts = progress.done_of_all()
            logs = f"loading logs, {amounts.done_logs:,} of {amounts.all_logs:,}"
            if amounts.all_bytes:
                self._task.show(amounts.done_bytes, total=amounts.all_bytes, what=logs, unit=BYTES)
            else:
                self._task.show(amounts.done_logs, total=amounts.all_logs)
        return False
