"""Test support for programs that use tidelog: a controllable clock, disk and data.

The rest of tidelog must not import it. Names are loaded on first use; only the strategies
(``batches``, ``records``, ``stored_batches``, ``seeds``) need the ``hypothesis`` package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.records.builder import build_batch
    from tidelog.testing.crash_files import CrashFileSystem
    from tidelog.testing.faults import Operation, PowerCut
    from tidelog.testing.manual_time import ManualClock, ManualScheduler
    from tidelog.testing.strategies import batches, records, seeds, stored_batches

__all__ = [
    "CrashFileSystem",
    "ManualClock",
    "ManualScheduler",
    "Operation",
    "PowerCut",
    "batches",
    "build_batch",
    "records",
    "seeds",
    "stored_batches",
]

_HOMES = {
    "CrashFileSystem": "tidelog.testing.crash_files",
    "ManualClock": "tidelog.testing.manual_time",
    "ManualScheduler": "tidelog.testing.manual_time",
    "Operation": "tidelog.testing.faults",
    "PowerCut": "tidelog.testing.faults",
    "batches": "tidelog.testing.strategies",
    "build_batch": "tidelog.records.builder",
    "records": "tidelog.testing.strategies",
    "seeds": "tidelog.testing.strategies",
    "stored_batches": "tidelog.testing.strategies",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
