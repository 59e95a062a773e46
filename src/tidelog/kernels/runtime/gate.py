"""Decides when to use compiled kernels instead of plain Python.

Loading the kernels takes up to some seconds if they are not cached. This is the ski-rental problem:
plain code is used until it has done as much work as would have paid for loading. The module imports
no kernel and no numba itself, so a short command never waits for a compiler.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from threading import get_ident
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernels.runtime.freed_blocks import reuse_freed_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    CompileListener = Callable[[str | None], None]
    """Called with a kernel's name before it is compiled, since it is not cached; None after."""

LOADING_PAYS_BYTES: Final = 4 << 20
"""Bytes of work in plain code after which the kernels are loaded.

A byte of work is what plain code does in about 0.12 us: a copied byte is less, a record is 40.
"""

KERNEL_MODULES: Final = (
    "hashing.crc",
    "scan_kernel",
    "decode_kernel",
    "gather",
    "extract",
    "validate_kernel",
    "accept_kernel",
    "survey",
    "stamp_kernel",
    "hashing.murmur",
    "record_headers",
    "batch_headers",
    "encode_kernel",
    "compaction.key_walk",
    "compaction.key_batches",
    "compaction.key_rewrite",
    "compaction.key_merge",
    "json.record_lines",
)
"""Every module with kernels, by its name under ``tidelog.kernels``."""

_LOADED: Final = "tidelog.kernels.", "numba", "llvmlite"
"""How the names of modules begin that are imported to load kernels."""


class Gate:
    """The decision for one process; ``load`` imports numba and returns whether it is usable."""

    def __init__(self, load: Callable[[], bool]) -> None:
        self._load = load
        self._usable: bool | None = None
        self._plain_bytes = 0
        self._forced: bool | None = None
        self._asks: dict[int, Callable[[], None]] = {}
        self._is_loading = False
        self.is_whole = False
        """Whether every kernel is loaded: using one takes no time to load it."""

    def load(self) -> bool:
        """Load numba, once; return whether kernels can be used."""
        if self._usable is None:
            self._is_loading = True
            try:
                self._usable = self._load()
            finally:
                self._is_loading = False
        return self._usable

    def after_fork(self) -> None:
        """Use no kernels in a forked child if a thread of its parent was loading some.

        That thread holds locks of modules and of the compiler, which nobody releases in the child:
        it would wait for ever.
        """
        if self._is_loading or _is_any_half_loaded():
            self._usable = self.is_whole = self._is_loading = False

    def would_use(self, work_bytes: int) -> bool:
        """Decide about work that somebody else does and counts if kernels are not used."""
        if self._forced is not None:
            return self._forced and self.load()
        if self.is_whole:
            return True
        if self._usable is None and self._plain_bytes + work_bytes < LOADING_PAYS_BYTES:
            return False
        ask = self._asks.get(get_ident()) if self._asks else None
        if ask is None:
            return self.load()
        if self._usable is not False:
            ask()
        return False

    def ask_instead(self, ask: Callable[[], None]) -> Callable[[], object]:
        """Use no kernel on this thread before all are loaded; return what ends this.

        Where one would be loaded ``ask`` is called instead, each time.
        """
        thread = get_ident()
        self._asks[thread] = ask
        return lambda: self._asks.pop(thread, None)

    def use_kernels(self, work_bytes: int) -> bool:
        """Decide about a piece of work, and count it if it is to be done in plain Python."""
        if self.would_use(work_bytes):
            return True
        if self._forced is None:
            self._plain_bytes += work_bytes
        return False

    def force(self, choice: bool | None) -> None:  # noqa: FBT001 - the one thing it takes
        """Always decide this way from now on; None restores the rule."""
        self._forced = choice


def _load_numba() -> bool:
    """Import numba and a kernel; return whether they work here, and log the reason if not."""
    reason = _why_unusable()
    if reason is None:
        reuse_freed_blocks()
        return True
    import logging  # noqa: PLC0415 - needed only here

    logging.getLogger(__name__).warning("kernels-unavailable reason=%s", reason)
    return False


def _why_unusable() -> str | None:
    """Return why kernels cannot be used here; None if they can.

    The first kernel is the trial: it uses every part of numba and llvmlite that kernels use.
    """
    if find_spec("numba") is None:
        return "numba is not installed"
    jit = import_module("tidelog.kernels.runtime.jit")
    reason: str | None = jit.UNUSABLE
    if reason is not None:
        return reason
    try:
        import_module(f"tidelog.kernels.{KERNEL_MODULES[0]}")
    except Exception as error:  # noqa: BLE001 - whatever a release of numba has changed
        jit.give_up()
        return f"{type(error).__name__}: {error}"
    return None


def _is_any_half_loaded() -> bool:
    """Return whether some thread is importing a module that loading kernels imports."""
    specs = (
        module.__spec__ for name, module in list(sys.modules.items()) if name.startswith(_LOADED)
    )
    return any(getattr(spec, "_initializing", False) for spec in specs)


_GATE: Final = Gate(_load_numba)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_GATE.after_fork)
_listeners: Final[list[CompileListener]] = []


def watch_compiling(listener: CompileListener | None) -> CompileListener | None:
    """Replace what is notified of kernels that are being compiled; return what was before."""
    before = _listeners.pop() if _listeners else None
    if listener is not None:
        _listeners.append(listener)
    return before


def notify_compiling(kernel: str | None) -> None:
    """Notify the listener, if there is one."""
    for listener in _listeners:
        listener(kernel)


def use_kernels(work_bytes: int) -> bool:
    """Return whether to do ``work_bytes`` of work with kernels; if not, count it as plain work.

    True once kernels are loaded in this process, or when this piece and the plain work so far reach
    ``LOADING_PAYS_BYTES``. Always False without a working numba.
    """
    return _GATE.use_kernels(work_bytes)


def would_use(work_bytes: int) -> bool:
    """Return what ``use_kernels`` would, without counting; for work that others do and count."""
    return _GATE.would_use(work_bytes)


def expect(work_bytes: int) -> None:
    """Load the kernels now if work that is about to be done in small pieces pays for it."""
    _GATE.would_use(work_bytes)


def force(choice: bool | None) -> None:  # noqa: FBT001 - the one thing the function takes
    """Make ``use_kernels`` return ``choice`` (True still needs numba); None restores the rule."""
    _GATE.force(choice)


class Warmed(NamedTuple):
    """A kernel module, and the seconds it took to load or compile."""

    name: str
    seconds: float


def ask_instead(ask: Callable[[], None]) -> Callable[[], object]:
    """Never wait for the loading of kernels on this thread; return what ends this.

    Compiling them takes some 20 seconds where they are not cached, and an event loop would leave
    its clients unanswered for that time. ``ask`` is called, each time, where kernels pay: somebody
    is to ``load_all`` on another thread, and until that has ended all work here is in plain Python.
    """
    return _GATE.ask_instead(ask)


def load_all() -> Iterator[str]:
    """Load every kernel, compiling what is not cached; nothing without a working numba.

    Yields the name of each module before it is imported.
    """
    if not _GATE.load():
        return
    for name in KERNEL_MODULES:
        yield name
        import_module(f"tidelog.kernels.{name}")
    _GATE.is_whole = True


def warm(
    monotonic_ns: Callable[[], int], on_module: Callable[[str], None] = lambda _: None
) -> list[Warmed]:
    """Load every kernel, as ``load_all``; return names and seconds.

    The first time includes that of numba itself. ``on_module`` is called with each name before the
    module is imported.
    """
    names: list[str] = []
    starts = [monotonic_ns()]
    for name in load_all():
        if names:
            starts.append(monotonic_ns())
        names.append(name)
        on_module(name)
    times = pairwise([*starts, monotonic_ns()])
    return [Warmed(name, (end - start) / 1e9) for name, (start, end) in zip(names, times)]  # noqa: B905 - without numba there is no name
