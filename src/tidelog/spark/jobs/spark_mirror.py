"""Copies what is new of topics into another data directory, by Spark's tasks.

The driver holds the lock of the target, plans and commits; see ``embedded.spread_mirror``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidelog.codec.given_values import check_flags
from tidelog.embedded.doors import open_source
from tidelog.embedded.spread_mirror import mirror_spread
from tidelog.env.paths import absolute_path
from tidelog.spark.jobs.job_progress import watch_tasks
from tidelog.spark.jobs.job_tasks import run_tasks
from tidelog.spark.options.option_values import absolute_paths, local_path
from tidelog.spark.options.source_options import DEFAULT_SPLIT_BYTES, ReadOptions, TopicChoice
from tidelog.spark.read.read_plan import make_tasks
from tidelog.spark.sessions.parallelism import default_parallelism

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Sequence

    from pyspark.sql import SparkSession

    from tidelog import MirroredPartition
    from tidelog.embedded.spread_mirror import CopiedParts, MirrorJob
    from tidelog.env.paths import Paths
    from tidelog.readonly.log_range import LogRange
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


def mirror(
    spark: SparkSession,
    path: Paths,
    to_path: str,
    topics: Collection[str] = (),
    *,
    server_properties: str | os.PathLike[str] | None = None,
    allow_partial: bool = False,
    max_split_bytes: int = DEFAULT_SPLIT_BYTES,
    dry_run: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> list[MirroredPartition]:
    """Copy what is new of topics to another data directory, as ``tidelog.mirror``, in parallel.

    Batches are the same, byte for byte, at the same offsets. All of them are in the target when
    this returns, or nothing is; a job that failed can be repeated. The source is only read, beside
    its writer if it has one. The target is locked until this returns.

    Args:
        spark: the session; its workers must see both directories.
        path: the data directory to copy from, or a list of several that belong together.
        to_path: the data directory of the mirror; created if missing.
        topics: the topics to mirror; none: all, internal ones included.
        server_properties: the file of the broker that wrote the source, for settings of its topics.
        allow_partial: copy what is there of topics that are, in part, in other data directories.
        max_split_bytes: maximum number of bytes of a log that one task reads, at least 65536.
        dry_run: only find out what would be copied; nothing is locked or written.
        on_progress: called by another thread with the number of tasks that have ended, and of all.

    Raises:
        DirectoryLocked: a process writes to the target.
        OSError: ``server_properties`` cannot be read.
        InvalidArgument: the source is not a data directory, or is the target, in it or around
            it; ``max_split_bytes`` is too small, also for the number of tasks.

    Other errors are those of ``tidelog.mirror``; what tasks raise comes as an error of Spark's.
    """
    check_flags(dry_run=dry_run)
    source = open_source(absolute_paths(path), server_properties, allow_partial=allow_partial)
    target = absolute_path(local_path(to_path))
    workers = SparkMirrorWorkers(spark, source, max_split_bytes)
    with watch_tasks(spark, on_progress, description_of(source, target)):
        return mirror_spread(source, target, topics, workers, is_plan=dry_run)


def description_of(source: ReadOnlyDirectory, target: str) -> str:
    """Return what Spark's pages call the jobs of a mirror."""
    return f"tidelog mirror {source.name} to {target}"


class SparkMirrorWorkers:
    """The ``MirrorWorkers`` of a session."""

    def __init__(
        self,
        spark: SparkSession,
        source: ReadOnlyDirectory,
        max_split_bytes: int = DEFAULT_SPLIT_BYTES,
    ) -> None:
        self._spark: Final = spark
        everything = TopicChoice(pattern=re.compile(""))
        self._options: Final = ReadOptions(
            source.paths, everything, max_split_bytes=max_split_bytes
        )

    def divide(self, ranges: Sequence[LogRange]) -> list[list[tuple[str, int, int, int]]]:
        """Return tasks of about equal size, for all cores."""
        tasks = make_tasks(ranges, self._options, default_parallelism())
        return [[part[:4] for part in task] for task in tasks]

    def run(self, job: MirrorJob) -> list[CopiedParts]:
        """Run all tasks; errors are Spark's."""
        return run_tasks(self._spark, job)
