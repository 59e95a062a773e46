"""Reprs of what a program holds: one line of bounded length, from memory alone.

A debugger, a log line and a notebook ask for them at any time: of an object that is closed, whose
``__init__`` has failed, or that a forked child has inherited. So a repr reads no file, waits for no
lock, and raises nothing of these.
"""

from __future__ import annotations

from reprlib import Repr
from typing import TYPE_CHECKING, Final

from tidelog.errors import ForkedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

_SHOWN_BYTES: Final = 64
_SHOWN_CHARACTERS: Final = 256
_SHOWN_MEMBERS: Final = 6
_SHOWN_DEPTH: Final = 4
_SHOWN_NAMES: Final = 8


class _Bounded(Repr):
    """Python's own way to shorten a repr, which also knows bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = _SHOWN_DEPTH
        self.maxtuple = self.maxlist = self.maxdict = _SHOWN_MEMBERS
        self.maxstring = self.maxother = _SHOWN_CHARACTERS

    def repr_bytes(self, value: bytes, _level: int) -> str:
        """Return the first bytes, and how many there are where that is not all."""
        if len(value) <= _SHOWN_BYTES:
            return repr(value)
        return f"{value[:_SHOWN_BYTES]!r}... ({len(value):,} bytes)"


shortened: Final = _Bounded().repr
"""Returns the repr of a value, the middle or the end of what is long left out."""


def one_line(one: object, text: Callable[[], str]) -> str:
    """Return the repr of an object: its class, and what ``text`` reads from its attributes."""
    kind = type(one).__name__
    try:
        return f"<{kind} {text()}>"
    except ForkedProcess as error:
        return f"<{kind} of process {error.pid}>"
    except AttributeError:
        return f"<{kind}, not made>"  # ``__init__`` has failed, or has not ended yet


class Told:
    """The base of what has a repr of one line: its class, and what ``_told`` says of it."""

    __slots__ = ()

    def _told(self) -> str:
        """Return what there is to say of the object, from its attributes alone."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return one_line(self, self._told)


class Drawing:
    """What draws an object for notebooks; copied and pickled it is None.

    It holds what is open in this process.
    """

    def __init__(self, html: Callable[[], str]) -> None:
        self.html: Final = html

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _no_drawing, ()


def _no_drawing() -> None:
    """Return what a drawing is in another process."""


class Drawn(Told):
    """The base of what a notebook shows with a picture, if ``drawn_by`` has said who draws it.

    Rooms below those that draw cannot import them. Without a drawing a notebook shows the repr.
    """

    __slots__ = ()

    _drawing: Drawing | None = None

    def drawn_by(self, html: Callable[[], str]) -> Self:
        """Let ``html`` return what notebooks show; return this object."""
        object.__setattr__(self, "_drawing", Drawing(html))  # topics are frozen
        return self

    def _repr_html_(self) -> str | None:
        return None if self._drawing is None else self._drawing.html()


def record_line(record: tuple[object, ...], fields: tuple[str, ...]) -> str:
    """Return the repr of a record, as that of a named tuple, with long values shortened."""
    parts = (f"{name}={shortened(value)}" for name, value in zip(fields, record, strict=True))
    return f"{type(record).__name__}({', '.join(parts)})"


def first_names(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are: ``a, b, and 3 more``."""
    more = len(names) - _SHOWN_NAMES
    shown = list(names[:_SHOWN_NAMES]) + ([f"and {more:,} more"] if more > 0 else [])
    return ", ".join(shown)


def open_or_closed(*, is_open: bool) -> str:
    """Return the word for a state."""
    return "open" if is_open else "closed"
