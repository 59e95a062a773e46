"""Watches the streams of a session: logs their lag, writes it as metrics, commits positions.

Spark 4.3 takes no metrics from a Python source, so what its Kafka source reports with each batch is
computed here, from the offsets in the progress.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from tidelog.codec.text import check_group
from tidelog.embedded.group_commits import commit_positions, directory_of_group
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, TidelogError
from tidelog.manager.metrics.metric import as_prometheus
from tidelog.spark.options.option_values import absolute_paths
from tidelog.spark.streams.stream_lag import StreamProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from tidelog.env.paths import Paths
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS: Final = 10_000
"""How long a commit of positions waits for the process that holds the directory."""

# Spark chooses the names of these methods.
# ruff: noqa: N802


class StreamMonitor(StreamingQueryListener):
    """Watches the streams of a session that read topics; see ``watch_streams``."""

    def __init__(
        self,
        path: Paths,
        *,
        metrics_file: str | None = None,
        groups: Mapping[str, str] | None = None,
        commit_timeout_ms: int = COMMIT_TIMEOUT_MS,
    ) -> None:
        self._paths = absolute_paths(path)
        self._name = ",".join(self._paths)
        self._metrics_file = metrics_file
        self._groups = dict(groups or {})
        self._commit_timeout_ms = commit_timeout_ms
        self._streams: dict[str, StreamProgress] = {}
        self._committed: dict[str, Mapping[TopicPartition, int]] = {}
        self._watched: SparkSession | None = None
        for group in self._groups.values():
            check_group(group)
        if len(set(self._groups.values())) < len(self._groups):
            raise InvalidArgument("two streams cannot commit to one group: name a group for each")

    @property
    def streams(self) -> dict[str, StreamProgress]:
        """What each stream has come to, by its id; without those that failed."""
        return dict(self._streams)

    def watch(self, spark: SparkSession) -> None:
        """Watch the streams of a session, until ``stop``."""
        spark.streams.addListener(self)
        self._watched = spark

    def stop(self) -> None:
        """Watch no more, and remove the file with metrics, which would be out of date."""
        watched, self._watched = self._watched, None
        if watched is not None:
            watched.streams.removeListener(self)
        if self._metrics_file is not None:
            with suppress(OSError):
                SYSTEM_FILES.delete(self._metrics_file)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the first batch has the first progress."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: nothing is new to the stream, so its lag is as before."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take note of a batch."""
        found = StreamProgress.of(event.progress)
        if found is not None:
            self.progressed(found)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget a stream that has failed: its lag grows, and nothing measures it any more.

        One that ended without an error has come to where it was to come, as a job's does.
        """
        if event.exception is not None and self._streams.pop(str(event.id), None) is not None:
            self._write_metrics()

    def progressed(self, found: StreamProgress) -> None:
        """Log a batch, write the metrics and commit the positions."""
        text = "stream-progress directory=%s query=%s batch=%d records=%d max_behind=%d behind=%d"
        behind = found.max_behind, sum(found.behind.values())
        _log.info(text, self._name, found.query, found.batch_id, found.rows, *behind)
        others = (one for one in self._streams.values() if one.query != found.query)
        self._streams = {one.query_id: one for one in (*others, found)}
        self._write_metrics()
        group = self._groups.get(found.query)
        if group is not None and self._committed.get(group) != found.ends:
            self._commit(group, found)

    def _write_metrics(self) -> None:
        if self._metrics_file is None:
            return
        metrics = [one for each in self._streams.values() for one in each.metrics(self._name)]
        temporary = f"{self._metrics_file}.tmp"
        try:
            SYSTEM_FILES.write(temporary, as_prometheus(metrics).encode())
            SYSTEM_FILES.rename(temporary, self._metrics_file)
        except OSError as error:
            _log.warning("metrics-not-written directory=%s reason=%s", self._metrics_file, error)
            with suppress(OSError):
                SYSTEM_FILES.delete(temporary)

    def _commit(self, group: str, found: StreamProgress) -> None:
        """Commit positions; if that fails, those of the next batch are newer."""
        how: Any = {"topic_ids": found.topic_ids, "timeout_ms": self._commit_timeout_ms}
        try:
            path = directory_of_group(self._paths, group)
            commit_positions(path, group, found.ends, **how)
        except (TidelogError, OSError) as error:
            text = "positions-not-committed directory=%s group=%s reason=%s"
            _log.warning(text, self._name, group, error)
        else:
            self._committed[group] = found.ends


def watch_streams(
    spark: SparkSession,
    path: Paths,
    *,
    metrics_file: str | None = None,
    groups: Mapping[str, str] | None = None,
) -> StreamMonitor:
    """Watch the streams of a session that read topics of data directories, until ``stop``.

    After each batch, a thread of the driver logs ``stream-progress``, with how many offsets the
    stream is behind the latest ones. What Spark's Kafka source reports as metrics is in
    ``monitor.streams``, also after a stream has ended without an error.

    Args:
        spark: the session.
        path: the data directory that the streams read, or a list of several that belong together.
        metrics_file: a file, which is replaced after each batch, in the text format of Prometheus.
        groups: by the name of a stream (``queryName``), the consumer group to which its positions
            are committed. They are for other tools to see: the stream itself continues from its
            checkpoint. Each commit is a transaction.

    Raises:
        InvalidArgument: the name of a group is not valid, or two streams have the same.
    """
    monitor = StreamMonitor(path, metrics_file=metrics_file, groups=groups)
    monitor.watch(spark)
    return monitor
