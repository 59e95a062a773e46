"""Says when the compiled kernels pay for themselves.

Owns one decision: load the kernels (up to some seconds when they are not cached) or do this piece
of work in plain Python. It is the ski-rental rule: plain code is used until it has done as much
work as would have paid for loading. Imports no kernel and no numba by itself, so a short command
never waits for a compiler.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LOADING_PAYS_BYTES: Final = 4 << 20
"""Bytes of plain work after which the kernels are loaded."""

KERNEL_MODULES: Final = (
    "crc",
    "scan",
    "decode",
    "gather",
    "validate",
    "stamp",
    "murmur",
    "headers",
    "close",
    "encode",
)
"""Every module with kernels, by its name under ``tidelog.kernels``."""


class Warmed(NamedTuple):
    """A kernel module and how long it took to load, or to compile."""

    name: str
    seconds: float


class _Gate:
    """The state of one process; ``forced`` is a test's wish."""

    def __init__(self) -> None:
        self.plain_bytes = 0
        self.forced: bool | None = None
        self.usable: bool | None = None if find_spec("numba") else False
        self.is_loaded = False

    def load(self) -> bool:
        """Import numba once; return whether it can be used."""
        if self.usable is None:
            self.usable = bool(import_module("tidelog.kernels.jit").HAVE_NUMBA)
        self.is_loaded = self.usable
        return self.usable


_gate: Final = _Gate()


def use_kernels(work_bytes: int) -> bool:
    """Say whether to do ``work_bytes`` of work with kernels; count it as plain work if not.

    True once kernels are loaded in this process, or when the plain work so far and this piece
    come to ``LOADING_PAYS_BYTES``. Always False without a working numba.
    """
    if _gate.forced is not None:
        return _gate.forced and _gate.load()
    if _gate.is_loaded:
        return True
    if _gate.usable is False:
        return False
    if _gate.plain_bytes + work_bytes >= LOADING_PAYS_BYTES:
        return _gate.load()
    _gate.plain_bytes += work_bytes
    return False


def force(choice: bool | None) -> None:  # noqa: FBT001 - the one thing the function takes
    """Make ``use_kernels`` say ``choice`` (True still needs numba); None: decide again."""
    _gate.forced = choice


def warm(monotonic_ns: Callable[[], int]) -> list[Warmed]:
    """Import every kernel module, compiling what is not cached; return names and seconds.

    The first one's time has that of numba itself in it. Empty without a working numba.
    """
    warmed: list[Warmed] = []
    started = monotonic_ns()
    if not _gate.usable and not _gate.load():
        return warmed
    for name in KERNEL_MODULES:
        import_module(f"tidelog.kernels.{name}")
        now = monotonic_ns()
        warmed.append(Warmed(name, (now - started) / 1e9))
        started = now
    _gate.is_loaded = True
    return warmed
