"""Interrupts: an exception at a line of our code, as out of a handler of a signal.

CPython runs handlers of signals between two instructions, where it looks for them: after a call,
at the entry of a function, and where a loop jumps back. A trace function can raise at each line. Of
those, two kinds are left out, since nothing is looked for there, and only a trace function can
raise between the body and its end: the exit of a ``with`` whose body has ended, and the entry of
``finally``.

The end of a ``with`` over a condition is Python code, too, where an interrupt keeps the lock.
"""

from __future__ import annotations

import dis
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import tidelog

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

OURS: Final = f"{Path(tidelog.__file__).parent}/"
NOT_OURS: Final = f"{OURS}testing/"
_CONDITION_ENDS: Final = threading.Condition.__exit__.__code__
_NONES: Final = 3
_LOOKS: Final = ("CALL", "RESUME", "JUMP_BACKWARD", "SEND", "YIELD", "FOR_ITER")
"""Beginnings of the names of instructions after which handlers may run."""


class Site(NamedTuple):
    """A line of our code, as it comes the ``nth`` time, from 0 on."""

    file: str
    line: int
    nth: int = 0

    @property
    def ends_condition(self) -> bool:
        """Whether it is the end of a ``with`` over a condition."""
        return self.file == _CONDITION_ENDS.co_filename

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" ({self.nth + 1})" if self.nth else "")


@cache
def uninterrupted(code: CodeType) -> frozenset[int]:
    """Return the offsets of instructions that no handler of a signal runs right before.

    Those after a line in which nothing is looked for are among them: an interrupt comes before that
    line, or not at all.
    """
    entries = getattr(dis.Bytecode(code), "exception_entries")  # noqa: B009 - typeshed lacks it
    found = {entry.end for entry in entries}
    steps = list(dis.get_instructions(code))
    looks = True
    for at, step in enumerate(steps):
        if step.starts_line is not None or step.is_jump_target:
            if not looks and not step.is_jump_target:
                found.add(step.offset)
            looks = looks and step.starts_line is None
        looks = looks or step.is_jump_target or step.opname.startswith(_LOOKS)
        nones = steps[at : at + _NONES]
        if [one.opname for one in nones] == ["LOAD_CONST"] * _NONES and not any(
            one.argval for one in nones
        ):
            found.add(step.offset)
    return frozenset(found)


class Tracer:
    """Counts the lines of our code that a call executes; raises ``error`` at one."""

    def __init__(
        self, at: Site | None = None, error: type[BaseException] = KeyboardInterrupt
    ) -> None:
        self.counts: dict[tuple[str, int], int] = {}
        self.is_raised = False
        self._at = at
        self._error = error

    def run(self, work: Callable[[], object]) -> None:
        """Call ``work`` and trace its lines on this thread."""
        sys.settrace(self._enter)
        try:
            work()
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        if code is _CONDITION_ENDS and frame.f_back is not None:
            code = frame.f_back.f_code
        is_ours = code.co_filename.startswith(OURS) and not code.co_filename.startswith(NOT_OURS)
        # What a finalizer raises is printed and dropped by Python.
        return self._line if is_ours and code.co_name != "__del__" else None

    def _line(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line" and frame.f_lasti not in uninterrupted(frame.f_code):
            key = frame.f_code.co_filename.removeprefix(OURS), frame.f_lineno
            nth = self.counts[key] = self.counts.get(key, -1) + 1
            at = self._at
            if at is not None and not self.is_raised and (*key, nth) == at:
                self.is_raised = True
                sys.settrace(None)
                raise self._error
        return self._line


def sites_of(work: Callable[[], object]) -> list[Site]:
    """Return where ``work`` can be interrupted: each line, as it comes first and last."""
    tracer = Tracer()
    tracer.run(work)
    return [
        Site(*key, nth) for key, last in tracer.counts.items() for nth in dict.fromkeys((0, last))
    ]


def on_another_thread(work: Callable[[], object], *, timeout_s: float = 10) -> str:
    """Call ``work`` on a thread; return "", its error, or that it hangs."""
    told = ["hangs"]

    def tell() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is the result
            told[0] = f"{type(error).__name__}: {error}"
        else:
            told[0] = ""

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return told[0]
