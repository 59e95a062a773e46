"""Checks every byte of a data directory, in parallel: one task for some partitions each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def verify(spark: SparkSession, path: str, topics: Sequence[str] = ()) -> DataFrame:
    """Return what a check of a data directory finds, one finding per row, as ``tidelog verify``.

    The check runs when the DataFrame is used, and again each time; ``.cache()`` keeps its rows.

    Args:
        spark: the session; its workers must see the directory.
        path: the data directory.
        topics: only these; all, if none is named.

    A directory or topic that does not exist is an error of Spark's when the query is planned.
    """
    reader = spark.read.format("tidelog").option("table", "findings")
    if topics:
        reader = reader.option("subscribe", ",".join(topics))
    return reader.load(path)
