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
    "hashing.crc",
    "scan",
    "decode",
    "gather",
    "extract",
    "validate",
    "accept",
    "survey",
    "stamp",
    "hashing.murmur",
    "record_headers",
    "batch_headers",
    "encode",
    "compaction.key_walk",
    "compaction.key_batches",
    "compaction.key_rewrite",
    "json.record_lines",
)
"""Every module with kernels, by its name under ``tidelog.kernels``."""


class Gate:
    """The decision for one process; ``load`` imports numba and says whether it can be used."""

    def __init__(self, load: Callable[[], bool]) -> None:
        self._load = load
        self._usable: bool | None = None
        self._plain_bytes = 0
        self._forced: bool | None = None

    def load(self) -> bool:
        """Load numba, once; return whether kernels can be used."""
        if self._usable is None:
            self._usable = self._load()
        return self._usable

    def would_use(self, work_bytes: int) -> bool:
        """Decide about a piece of work that, if not by kernels, is done by others, who count it."""
        if self._forced is not None:
            return self._forced and self.load()
        if self._usable is None and self._plain_bytes + work_bytes < LOADING_PAYS_BYTES:
            return False
        return self.load()

    def use_kernels(self, work_bytes: int) -> bool:
        """Decide about a piece of work, and count it if it is to be done in plain Python."""
        if self.would_use(work_bytes):
            return True
        if self._forced is None:
            self._plain_bytes += work_bytes
        return False

    def force(self, choice: bool | None) -> None:  # noqa: FBT001 - the one thing it takes
        """Decide so from now on; None: by the rule again."""
        self._forced = choice


def _load_numba() -> bool:
    """Import numba and say whether it works here."""
    if find_spec("numba") is None:
        return False
    return bool(import_module("tidelog.kernels.runtime.jit").HAVE_NUMBA)


_GATE: Final = Gate(_load_numba)


def use_kernels(work_bytes: int) -> bool:
    """Say whether to do ``work_bytes`` of work with kernels; count it as plain work if not.

    True once kernels are loaded in this process, or when the plain work so far and this piece
    come to ``LOADING_PAYS_BYTES``. Always False without a working numba.
    """
    return _GATE.use_kernels(work_bytes)


def would_use(work_bytes: int) -> bool:
    """Say what ``use_kernels`` would, and count nothing: if not, others ask it for that work."""
    return _GATE.would_use(work_bytes)


def force(choice: bool | None) -> None:  # noqa: FBT001 - the one thing the function takes
    """Make ``use_kernels`` say ``choice`` (True still needs numba); None: decide again."""
    _GATE.force(choice)


class Warmed(NamedTuple):
    """A kernel module and how long it took to load, or to compile."""

    name: str
    seconds: float


def warm(monotonic_ns: Callable[[], int]) -> list[Warmed]:
    """Import every kernel module, compiling what is not cached; return names and seconds.

    The first one's time has that of numba itself in it. Empty without a working numba.
    """
    warmed: list[Warmed] = []
    started = monotonic_ns()
    if not _GATE.load():
        return warmed
    for name in KERNEL_MODULES:
        import_module(f"tidelog.kernels.{name}")
        now = monotonic_ns()
        warmed.append(Warmed(name, (now - started) / 1e9))
        started = now
    return warmed
