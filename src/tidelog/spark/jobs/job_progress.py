"""How many tasks of the Spark jobs that a block starts have ended, while it waits for them."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.env.scheduler import start_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JOB_GROUP: Final = "spark.jobGroup.id"
"""Property of a thread whose jobs form a group. Spark: ``SparkContext.SPARK_JOB_GROUP_ID``."""
JOB_DESCRIPTION: Final = "spark.job.description"
"""Property of a thread: the name of its jobs in Spark's pages."""
LOOK_MS: Final = 250


@contextmanager
def watch_tasks(spark: SparkSession, show: Callable[[int, int], object] | None) -> Iterator[None]:
    """Call ``show`` with the number of tasks that have ended, and of all, again and again.

    It is called by another thread. The jobs are those that this thread starts in the block. With
    Spark Connect, which has no status tracker, ``show`` is never called.
    """
    context: SparkContext | None = getattr(spark, "_sc", None)
    if show is None or context is None:
        yield
        return
    with job_group(context, f"tidelog {uuid.uuid4().hex}", show):
        yield


@contextmanager
def job_group(
    context: SparkContext,
    group: str,
    show: Callable[[int, int], object],
    description: str | None = None,
) -> Iterator[None]:
    """Put the jobs that this thread starts in the block into a group, and watch the group.

    Another thread calls ``show`` with the number of its tasks that have ended, and of all that are
    known so far. The thread's own group and ``description`` come back after the block.
    """
    before = {name: context.getLocalProperty(name) for name in (JOB_GROUP, JOB_DESCRIPTION)}
    context.setLocalProperty(JOB_GROUP, group)
    if description is not None:
        context.setLocalProperty(JOB_DESCRIPTION, description)
    threads = start_threads(1, "tidelog-spark-progress")
    threads.schedule(
        "tidelog-spark-progress", lambda: show(*_tasks(context, group)), period_ms=LOOK_MS
    )
    try:
        yield
    finally:
        threads.shutdown()
        for name, value in before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None removes it


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Return how many tasks of a group of jobs have ended, and how many there are."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    found = [info for stage in stages if (info := tracker.getStageInfo(stage)) is not None]
    return sum(info.numCompletedTasks for info in found), sum(info.numTasks for info in found)
