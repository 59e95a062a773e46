"""Imports on first use (PEP 562): the exports of a package, NumPy, and ``socket``.

NumPy takes longer to import than a command needs to read the ends of a few logs, and as long as a
quarter of all else that a broker loads before it answers. So modules that they load take ``np``
from here; so they do ``socket``, which few commands need. Compiled functions cannot: numba has to
know the module.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock
from importlib import import_module
from types import FunctionType, ModuleType

TYPE_CHECKING = False  # not from ``typing``, see ``tidelog.__main__``

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    import numpy as np

__all__ = ["lacking", "lazy_door", "np", "socket"]


_importing = RLock()
"""Held while a stand-in imports its module, on any thread, and while the process is forked.

A child that is forked meanwhile would wait for ever for the import to end: the thread that imports
is not there, and Python's lock of the module is held.
"""


def _before_fork() -> None:
    # NumPy is also imported without its stand-in, as by numba: this waits for the end of that.
    if "numpy" in sys.modules:
        import_module("numpy")
    _importing.acquire()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_importing.release,
        after_in_child=_importing.release,
    )


def lacking(error: ModuleNotFoundError, extra: str) -> str:
    """Return what to say of a package that is missing, and that an extra of tidelog installs."""
    return f"{error.name} is not installed: install tidelog with its extra, tidelog[{extra}]"


def lazy_door(
    package: str, homes: Mapping[str, str], extra: str | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package that exports the names in ``homes``.

    Each name maps to ``module:attribute``, to a module that defines it under the same name, or, as
    ``module:``, to the module itself. A function that is exported under another name gets that
    name. A ModuleNotFoundError names the ``extra`` that is missing.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, colon, attribute = homes[name].partition(":")
        try:
            loaded = import_module(module)
        except ModuleNotFoundError as error:
            if extra is None:
                raise
            raise ModuleNotFoundError(lacking(error, extra), name=error.name) from error
        if colon and not attribute:
            return loaded
        found: object = getattr(loaded, attribute or name)
        if attribute and isinstance(found, FunctionType):
            # All three: ``help`` shows the name, and pickle looks for it in the module.
            found.__module__, found.__name__, found.__qualname__ = package, name, name
        return found

    def names() -> list[str]:
        return sorted(homes)

    return load, names


def _lazy_module(name: str) -> ModuleType:
    """Return a stand-in for a module, which is imported when a name in it is first used."""
    stand_in = ModuleType(name)

    def load(attribute: str) -> object:
        with _importing:
            found: object = getattr(import_module(name), attribute)
        # Kept, so that a second use costs no more than that of the module itself.
        setattr(stand_in, attribute, found)
        return found

    stand_in.__getattr__ = load  # type: ignore[method-assign]  # PEP 562: looked up in the module
    return stand_in


if not TYPE_CHECKING:
    np = _lazy_module("numpy")
    socket = _lazy_module("socket")
