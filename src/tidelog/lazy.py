"""Lazy package exports (PEP 562): a name is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_door(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package that exports the names in ``homes``.

    Each name maps to ``module:attribute``, to a module that defines it under the same name, or, as
    ``module:``, to the module itself.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, colon, attribute = homes[name].partition(":")
        loaded = import_module(module)
        return loaded if colon and not attribute else getattr(loaded, attribute or name)

    def names() -> list[str]:
        return sorted(homes)

    return load, names
