"""The stream reader for Spark 4.2 and later, which limit the batches of a Python source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.read.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    from tidelog.spark.read.stream_offsets import Json

# Spark chooses the names of these methods.
# ruff: noqa: N802


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream whose batches the options may limit."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return one limit for Spark to pass to ``latestOffset``; the plan applies all of them."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    @plain_errors()
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Return the end of the batch that begins at ``start``."""
        return self._plan.latest(start, is_limited=not isinstance(limit, ReadAllAvailable))

    @plain_errors()
    def reportLatestOffset(self) -> Json | None:
        """Return the end of the available offsets, which shows the lag in the query's progress."""
        return self._plan.report()

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """End the query at the offsets that are available now."""
        self._plan.bound()
