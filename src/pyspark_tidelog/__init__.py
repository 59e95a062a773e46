"""How Spark finds the data source ``tidelog``: it imports each top-level module ``pyspark_*``.

Spark gives up on all such modules when one fails to import, so this one cannot fail, and it loads
neither kernels nor Arrow.
"""

from __future__ import annotations

import warnings

try:
    from tidelog.spark.source import LogSource as DefaultSource
except ImportError as error:
    warnings.warn(f"Spark will not know the format tidelog: {error}", stacklevel=1)

__all__ = ["DefaultSource"]
