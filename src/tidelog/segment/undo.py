"""Changes of several files that are made whole or, if one of them fails, undone."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class UndoFailed(OSError):
    """A change of several files failed half-way, and so did the attempt to undo it.

    Memory and disk differ: the log must not be used until it is opened again. ``errno`` is that of
    the attempt; the first error is the cause.
    """

    def __init__(self, error: OSError, path: str) -> None:
        reason = f"a failed change could not be undone: {error.strerror}"
        super().__init__(error.errno, reason, path)


@contextmanager
def undone_on_error(path: str) -> Iterator[ExitStack]:
    """Let the body collect callbacks; if it fails they are called, the last one first.

    ``path`` is what the change is about. The body's error is raised, or UndoFailed if a callback
    raises OSError; the callbacks before it are called all the same. KeyboardInterrupt and
    MemoryError are errors of the body, too: a program may catch them and continue.
    """
    undo = ExitStack()
    try:
        yield undo
    except BaseException as error:
        try:
            undo.close()
        except OSError as undoing:
            raise UndoFailed(undoing, path) from error
        raise
