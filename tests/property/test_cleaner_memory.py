"""The memory that a cleaning takes."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import TYPE_CHECKING

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.throttle import CleanerIo
from tidelog.config.log_config import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels.runtime import gate
from tidelog.log.log import Log
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from pathlib import Path

MAP_BYTES = 4 << 20
PIECE_BYTES = 64 << 10


def test_a_cleaning_stays_within_its_memory(tmp_path: Path) -> None:
    """The offset map takes its share, everything else a few times the size of a piece."""
    gate.force(True)
    scheduler = InlineScheduler()
    with Log.open(
        str(tmp_path / "t-0"),
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        scheduler=scheduler,
        rng=Random(0),
        config=LogConfig(cleanup_policy=("compact",), segment_bytes=1 << 20),
    ) as log:
        for number in range(150):
            keys = (b"%d" % (number * 1000 + n) for n in range(1000))
            log.append_as_leader(build_batch([(1, key, b"value" * 3, ()) for key in keys]))
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        end = log.segments.active.base_offset

        def clean(map_bytes: int) -> int:
            cleaner = Cleaner(
                CleanerSettings(map_bytes, 0.9),
                clock=SYSTEM_CLOCK,
                scheduler=scheduler,
                rng=Random(0),
                io=CleanerIo(PIECE_BYTES, lambda: None),
            )
            return cleaner.clean(log, OffsetsToClean(0, end), 1).end_offset

        clean(2400)  # loads the kernels
        tracemalloc.start()
        reached = clean(MAP_BYTES)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    gate.force(None)
    scheduler.close()  # deletes, and so closes, the replaced segments

    assert reached == end
    assert MAP_BYTES / 2 < peak_bytes < MAP_BYTES + 16 * PIECE_BYTES
