"""Checks every byte of a data directory, in parallel: one task for some partitions each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.codec.given_values import check_flags
from tidelog.spark.options.option_values import absolute_paths
from tidelog.spark.options.source_options import ALLOW_PARTIAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidelog.env.paths import Paths


def verify(
    spark: SparkSession, path: Paths, topics: Sequence[str] = (), *, allow_partial: bool = False
) -> DataFrame:
    """Return what a check of data directories finds, one finding per row, as ``tidelog verify``.

    The check runs when the DataFrame is used, and again each time; ``.cache()`` keeps its rows.

    Args:
        spark: the session; its workers must see the directory.
        path: the data directory, or a list of several that belong together.
        topics: only these; all, if none is named.
        allow_partial: check topics without the partitions that are in other data directories.

    A directory or topic that does not exist is an error of Spark's when the query is planned.
    """
    check_flags(allow_partial=allow_partial)
    reader = spark.read.format("tidelog").option("table", "findings")
    if topics:
        reader = reader.option("subscribe", ",".join(topics))
    if allow_partial:
        reader = reader.option(ALLOW_PARTIAL, "true")
    return reader.load(list(absolute_paths(path)))
