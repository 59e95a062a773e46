"""How many tasks of the Spark jobs that a block starts have ended, while it waits for them."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.env.scheduler import start_threads
from tidelog.env.waiting import sleep_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark import SparkContext, SparkJobInfo, StatusTracker
    from pyspark.sql import SparkSession

JOB_GROUP: Final = "spark.jobGroup.id"
"""Property of a thread whose jobs form a group. Spark: ``SparkContext.SPARK_JOB_GROUP_ID``."""
JOB_DESCRIPTION: Final = "spark.job.description"
"""Property of a thread: the name of its jobs in Spark's pages."""
LOOK_MS: Final = 250
_EVENTS_MS: Final = 10


@contextmanager
def watch_tasks(
    spark: SparkSession, show: Callable[[int, int], object] | None, description: str
) -> Iterator[None]:
    """Call ``show`` with the number of tasks that have ended, and of all, again and again.

    It is called by another thread. The jobs are those that this thread starts in the block, which
    have the ``description`` in Spark's pages. Spark Connect has neither a status tracker nor
    descriptions: there ``show`` is never called.
    """
    context: SparkContext | None = getattr(spark, "_sc", None)
    if context is None:
        yield
    elif show is None:
        with _local_properties(context, {JOB_DESCRIPTION: description}):
            yield
    else:
        with job_group(context, f"tidelog {uuid.uuid4().hex}", show, description):
            yield


@contextmanager
def _local_properties(context: SparkContext, values: Mapping[str, str]) -> Iterator[None]:
    """Set properties of this thread's jobs; what was set before comes back after the block."""
    before = {name: context.getLocalProperty(name) for name in values}
    for name, value in values.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # None removes it


@contextmanager
def job_group(
    context: SparkContext, group: str, show: Callable[[int, int], object], description: str
) -> Iterator[None]:
    """Put the jobs that this thread starts in the block into a group, and watch the group.

    Another thread calls ``show`` with the number of its tasks that have ended, and of all that are
    known so far, and a last time when the block has ended well. The thread's own group and
    description come back after the block.
    """
    threads = start_threads(1, "tidelog-spark-progress")

    def look() -> None:
        show(*_tasks(context, group))

    threads.schedule("tidelog-spark-progress", look, period_ms=LOOK_MS)
    try:
        with _local_properties(context, {JOB_GROUP: group, JOB_DESCRIPTION: description}):
            yield
        # Without a last look, jobs shorter than the period would never be seen.
        _wait_for_events(context, group)
        threads.schedule("tidelog-spark-progress", look)
    finally:
        threads.shutdown()


def _wait_for_events(context: SparkContext, group: str) -> None:
    """Wait, up to a period, until Spark's tracker knows that the jobs of a group have ended.

    The tracker hears of an end by events, which can come later than the results.
    """
    for _ in range(LOOK_MS // _EVENTS_MS):
        if not any(job.status == "RUNNING" for job in _jobs(context.statusTracker(), group)):
            return
        sleep_ms(_EVENTS_MS)


def _jobs(tracker: StatusTracker, group: str) -> list[SparkJobInfo]:
    """Return the jobs of a group that the tracker knows."""
    found = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    return [job for job in found if job is not None]


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Return how many tasks of a group of jobs have ended, and how many there are."""
    tracker = context.statusTracker()
    stages = {stage for job in _jobs(tracker, group) for stage in job.stageIds}
    found = [info for stage in stages if (info := tracker.getStageInfo(stage)) is not None]
    return sum(info.numCompletedTasks for info in found), sum(info.numTasks for info in found)
