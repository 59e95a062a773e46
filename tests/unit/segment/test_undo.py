"""Changes of several files that are made whole or undone."""

from __future__ import annotations

from errno import EIO
from typing import TYPE_CHECKING

import pytest

from tidelog.segment.undo import UndoFailed, undone_on_error

if TYPE_CHECKING:
    from collections.abc import Callable


def change(*undoing: Callable[[], None], error: BaseException | None = None) -> None:
    """Make a change that these calls undo, and fail then if there is an ``error``."""
    with undone_on_error("/data/t-0") as undo:
        for call in undoing:
            undo.callback(call)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [OSError(EIO, "bad"), KeyboardInterrupt(), MemoryError()])
def test_any_error_undoes_what_was_done_the_last_step_first(error: BaseException) -> None:
    """Ctrl-C in a program that continues must not leave half of the files renamed."""
    undone: list[str] = []

    with pytest.raises(type(error)):
        change(lambda: undone.append("first"), lambda: undone.append("second"), error=error)

    assert undone == ["second", "first"]


def test_what_cannot_be_undone_is_an_error_of_its_own() -> None:
    """It has the number of the second error and the first as its cause; other steps are undone."""
    undone: list[str] = []
    first = OSError(EIO, "bad")

    def fail() -> None:
        raise OSError(EIO, "worse")

    with pytest.raises(UndoFailed, match="could not be undone: worse") as raised:
        change(lambda: undone.append("first"), fail, error=first)

    assert (raised.value.errno, undone, raised.value.__cause__) == (EIO, ["first"], first)


def test_nothing_is_undone_without_an_error() -> None:
    """The calls are dropped."""
    undone: list[str] = []

    change(lambda: undone.append("first"))

    assert undone == []
