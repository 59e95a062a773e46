"""For the tests of programs that use tidelog: a clock and a disk that they control, and damage.

``tidelog.open`` takes the clock as ``clock`` and the disk as ``files``. No other room imports this
one. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.records.builder import build_batch
    from tidelog.testing.crash_files import CrashFileSystem
    from tidelog.testing.damaged_batch import damage_batch
    from tidelog.testing.faults import Operation, PowerCut
    from tidelog.testing.kafka_broker import KafkaBroker
    from tidelog.testing.manual_time import ManualClock, ManualScheduler

__all__ = [
    "CrashFileSystem",
    "KafkaBroker",
    "ManualClock",
    "ManualScheduler",
    "Operation",
    "PowerCut",
    "build_batch",
    "damage_batch",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "CrashFileSystem": "tidelog.testing.crash_files",
        "KafkaBroker": "tidelog.testing.kafka_broker",
        "ManualClock": "tidelog.testing.manual_time",
        "ManualScheduler": "tidelog.testing.manual_time",
        "Operation": "tidelog.testing.faults",
        "PowerCut": "tidelog.testing.faults",
        "build_batch": "tidelog.records.builder",
        "damage_batch": "tidelog.testing.damaged_batch",
    },
)
