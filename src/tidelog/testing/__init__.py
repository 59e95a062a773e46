"""What tests of programs that use tidelog need: time, disk and data that do as they are told.

Must not be imported by the rest of tidelog. Names load when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.testing.crash_files import CrashFileSystem
    from tidelog.testing.faults import Operation, PowerCut
    from tidelog.testing.manual_time import ManualClock, ManualScheduler

__all__ = ["CrashFileSystem", "ManualClock", "ManualScheduler", "Operation", "PowerCut"]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "CrashFileSystem": "tidelog.testing.crash_files",
        "ManualClock": "tidelog.testing.manual_time",
        "ManualScheduler": "tidelog.testing.manual_time",
        "Operation": "tidelog.testing.faults",
        "PowerCut": "tidelog.testing.faults",
    },
)
