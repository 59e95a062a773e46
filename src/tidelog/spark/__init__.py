"""Spark reads and writes log directories. Must not know sockets of ours, or the command line.

Public door: ``session`` starts a Spark that fits, ``session_conf`` gives its settings, and
``find_java`` tells which Java it takes. Names load on first use, so importing costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.spark.java import Java, JavaNotFound, find_java
    from tidelog.spark.settings import session, session_conf

__all__ = ["Java", "JavaNotFound", "find_java", "session", "session_conf"]

_HOMES = {
    "Java": "java",
    "JavaNotFound": "java",
    "find_java": "java",
    "session": "settings",
    "session_conf": "settings",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the module of that name defines
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
