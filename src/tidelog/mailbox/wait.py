"""What a process wants done in a data directory that another may hold: here, or by its holder.

It is tried here first, which needs the directory's lock. Otherwise a letter is left for the holder,
and both are waited for: the answer, and the lock. A time-out withdraws the letter unless it was
claimed; from then on only an answer ends the wait, or a sign that none will come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from tidelog.env.clock import NS_PER_MS
from tidelog.errors import DirectoryLocked
from tidelog.log.directory_guard import is_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.errors import TidelogError
    from tidelog.mailbox.letter import Letter

T = TypeVar("T")
L = TypeVar("L", bound="Letter")


class Desk(NamedTuple):
    """What the process that asks has: disk, time, random numbers, the names of other processes.

    ``program_of`` names the program of a process, empty if unknown. ``ring`` asks the holder of a
    directory to look at once, and returns whether it has, within a number of ms. ``mark`` returns
    the mark of this process, by which others see that it has ended.
    """

    fs: FileSystem
    clock: Clock
    rng: Random
    sleep_ms: Callable[[int], None]
    program_of: Callable[[int], str] = lambda _: ""
    ring: Callable[[str, int], bool] = lambda *_: False
    mark: Callable[[], str] = lambda: ""


class Wait(ABC, Generic[L, T]):
    """One letter and what is done about it; ``ask`` is called once.

    ``busy`` is the last error of the lock, ``poll_ms`` the time between two looks.
    """

    poll_ms: int

    def __init__(self, desk: Desk, letter: L, timeout_ms: int) -> None:
        self.desk: Final = desk
        self.letter: Final = letter
        self.timeout_ms: Final = timeout_ms
        self.busy = DirectoryLocked(letter.data_dir)
        self.is_left = False
        """Whether the holder may see the letter, or has seen it; False once it is durably gone."""
        self._begun_ns: int | None = None

    def waited_ms(self) -> int:
        """Return the time since the lock was found taken."""
        now_ns = self.desk.clock.monotonic_ns()
        if self._begun_ns is None:
            self._begun_ns = now_ns
        return (now_ns - self._begun_ns) // NS_PER_MS

    def ask(self) -> T:
        """Return what was done here, or what the holder answered."""
        try:
            return self._wait()
        except BaseException as error:  # Ctrl-C and SIGTERM as well
            self.give_up(error)
            raise

    def _wait(self) -> T:
        while True:
            done = self.answer() if self.is_left else None
            if done is not None:
                return done
            try:
                return self.do_here()
            except DirectoryLocked as busy:
                self.check_holder(busy)
                self.busy = busy
            is_late = self.waited_ms() >= self.timeout_ms
            if is_late and (not self.is_left or self.withdraw()):
                raise self.timed_out()
            if not self.is_left:
                self.leave()
                if self.desk.ring(self.letter.data_dir, self.poll_ms):
                    continue
            elif self.is_hopeless():
                done = self.answer()  # it may have come since the last look
                if done is not None:
                    return done
                raise self.unknown()
            self.desk.sleep_ms(self.poll_ms)

    def leave(self) -> None:
        """Leave the letter for the holder, durably. Raises OSError."""
        deadline_ms = self.desk.clock.now_ms() + self.timeout_ms - self.waited_ms()
        self.letter.prepare(self.content(deadline_ms))
        # Before it is there: an interrupt may come right after, and has to withdraw it.
        self.is_left = True
        try:
            self.letter.place()
        except OSError as error:
            self.is_left = is_interrupt(error)
            raise
        # A power cut must not take a letter that the holder acts on: its claim could not be seen.
        self.desk.fs.sync_directory(self.letter.data_dir)

    def withdraw(self) -> bool:
        """Take the letter back, durably, unless it was claimed; return whether that was in time."""
        is_in_time = self.letter.withdraw()
        self.is_left &= not is_in_time
        return is_in_time

    def give_up(self, error: BaseException) -> None:
        """Withdraw after an error of this process, or report that it is too late for that."""
        with suppress(OSError):
            if not self.is_left or self.withdraw():
                return
        self.report_left(error)

    # What each kind says

    @abstractmethod
    def do_here(self) -> T:
        """Do it in this process; raise DirectoryLocked while another holds the directory."""

    @abstractmethod
    def check_holder(self, busy: DirectoryLocked) -> None:
        """Raise the error of a holder that is not to be waited for."""

    @abstractmethod
    def content(self, deadline_ms: int) -> bytes:
        """Return the content of the letter."""

    @abstractmethod
    def answer(self) -> T | None:
        """Return what the holder has done, None if it has not answered; raise its refusal."""

    @abstractmethod
    def is_hopeless(self) -> bool:
        """Return whether a letter that was claimed is not waited for any longer."""

    @abstractmethod
    def timed_out(self) -> TidelogError:
        """Return the error of a letter that was withdrawn."""

    @abstractmethod
    def unknown(self) -> TidelogError:
        """Return the error of a letter that was claimed and not answered."""

    @abstractmethod
    def report_left(self, error: BaseException) -> None:
        """Report that the holder may do what was asked, though ``error`` ends the wait."""
