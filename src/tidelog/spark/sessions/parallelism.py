"""How many tasks run at once, by which a read is split.

Spark 4.3 passes no setting to the processes that plan a Python data source, so the number goes
through the environment, which they inherit from the driver's Java.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PARALLELISM: Final = "SPARK_TIDELOG_PARALLELISM"
"""Environment variable with the number of tasks that run at once."""

_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")


def default_parallelism() -> int:
    """Return how many tasks run at once; where that is not known, the cores of this machine."""
    text = os.environ.get(PARALLELISM, "")
    return int(text) if text.isdecimal() and int(text) else os.cpu_count() or 1


def parallelism_of(settings: Mapping[str, str]) -> int | None:
    """Return the parallelism of a session with ``settings``; None if the cluster decides it.

    Spark: ``SparkContext.defaultParallelism``.
    """
    text = settings.get("spark.default.parallelism", "")
    if text.isdecimal() and int(text):
        return int(text)
    match = _LOCAL.fullmatch(settings["spark.master"])
    if match is None:
        return None
    if match[0] == "local":
        return 1
    return os.cpu_count() or 1 if match[1] == "*" else int(match[1])
