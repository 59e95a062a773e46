"""Registers the data source ``tidelog``: Spark imports every top-level module named ``pyspark_*``.

If one of them fails to import, Spark drops all of them, so this one warns instead. It is imported
in every session, so it loads neither kernels nor Arrow.
"""

from __future__ import annotations

import warnings

try:
    from tidelog.spark.source import LogSource as DefaultSource
except ImportError as error:
    warnings.warn(f"the Spark format tidelog is not available: {error}", stacklevel=1)

__all__ = ["DefaultSource"]
