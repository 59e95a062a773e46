"""Around each task of ours in a worker of Spark: what reads, writes and jobs have in common."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Worker:
    """How many modules were loaded when this process has frozen its objects."""

    modules = 0


@contextmanager
def worker_task() -> Iterator[None]:
    """Run a task; errors are plain, and the worker is prepared for the next one."""
    try:
        with plain_errors():
            yield
    finally:
        _freeze_loaded_objects()


def _freeze_loaded_objects() -> None:
    """Exempt the objects loaded so far from garbage collection, after tasks that load modules.

    Spark's worker collects garbage after every task; traversing numba's and Arrow's objects each
    time would make a task of one row take 33 ms instead of 4.
    """
    if len(sys.modules) != _Worker.modules:
        _Worker.modules = len(sys.modules)
        gc.freeze()
