"""Interrupts of Python that compiled code calls back.

ctypes prints what such a callback raises, and drops it: a Ctrl-C would be lost. LLVM calls back for
each kernel that is compiled or loaded.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import get_ident, main_thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sys import UnraisableHookArgs


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Run the body; then raise what has interrupted a callback in it.

    On the main thread only, which is the one that Python's handlers of signals run on: hooks that
    several threads replace would be put back in the wrong order.
    """
    main = main_thread().ident
    if get_ident() != main:
        yield
        return
    caught: list[BaseException] = []
    before = sys.unraisablehook

    def hook(dropped: UnraisableHookArgs, /) -> None:
        error = dropped.exc_value
        if error is None or isinstance(error, Exception) or get_ident() != main:
            before(dropped)
        else:
            caught.append(error)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
    if caught:
        raise caught[0]
