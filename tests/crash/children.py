"""Calls in a forked child, which may hang or break anything and changes nothing here but files."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HUNG: Final = "it hung"
_PIECE: Final = 1 << 16


def in_child(work: Callable[[], Any], *, timeout_s: float = 200) -> Any:
    """Return what ``work`` returns in a child; the traceback of its error, or ``HUNG``."""
    ours, its = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        os.close(ours)
        _tell(work, its)
        os._exit(0)
    os.close(its)
    try:
        told = _read(ours, time.monotonic() + timeout_s)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)
    if told is None:
        return HUNG
    return pickle.loads(told) if told else "it died"


def _tell(work: Callable[[], Any], pipe: int) -> None:
    try:
        told = work()
    except BaseException:  # noqa: BLE001 - it is the result
        told = traceback.format_exc()
    with os.fdopen(pipe, "wb") as file:
        pickle.dump(told, file)


def _read(pipe: int, end_s: float) -> bytes | None:
    """Return all that comes, None if it does not end in time."""
    pieces: list[bytes] = []
    while select.select([pipe], [], [], max(end_s - time.monotonic(), 0))[0]:
        piece = os.read(pipe, _PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return None
