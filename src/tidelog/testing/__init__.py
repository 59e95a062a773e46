"""What tests of programs that use tidelog need: time, disk and data that do as they are told.

Must not be imported by the rest of tidelog. Names load when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.testing.crash_files import CrashFileSystem
    from tidelog.testing.faults import Operation, PowerCut
    from tidelog.testing.manual_time import ManualClock, ManualScheduler

__all__ = ["CrashFileSystem", "ManualClock", "ManualScheduler", "Operation", "PowerCut"]

_HOMES = {
    "CrashFileSystem": "crash_files",
    "ManualClock": "manual_time",
    "ManualScheduler": "manual_time",
    "Operation": "faults",
    "PowerCut": "faults",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
