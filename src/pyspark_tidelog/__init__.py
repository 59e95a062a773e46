"""Register the data source ``tidelog``: Spark imports every top-level ``pyspark_*`` module.

If one of these modules fails to import, Spark skips them all, so this one must never fail. It
loads neither kernels nor Arrow.
"""

from __future__ import annotations

import warnings

try:
    from tidelog.spark.source import LogSource as DefaultSource
except ImportError as error:
    warnings.warn(f"format tidelog is not available in Spark: {error}", stacklevel=1)

__all__ = ["DefaultSource"]
