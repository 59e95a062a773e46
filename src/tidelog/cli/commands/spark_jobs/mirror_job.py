"""``tidelog spark mirror``: copy what is new of topics to another data directory, in parallel."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.cli.commands.topics.mirror_command import COMMAND, ONCE, print_mirrored, source_of

if TYPE_CHECKING:
    from argparse import Namespace

    from pyspark.sql import SparkSession


JOB: Final = COMMAND._replace(
    parts=ONCE,
    epilog="Does what tidelog mirror does, with many tasks. The target is locked until the job"
    " ends;\n"
    "the source is read beside its writer. After a failure, run the same command again.",
    printed_events=None,
)


def run(args: Namespace, spark: SparkSession) -> int:
    """Mirror the topics, or print what that would copy."""
    from tidelog.cli.operations import quiet
    from tidelog.cli.progress import current_line
    from tidelog.embedded.spread_mirror import mirror_spread
    from tidelog.spark.jobs.job_progress import watch_tasks
    from tidelog.spark.jobs.spark_mirror import SparkMirrorWorkers, description_of

    source, target = source_of(args), os.path.abspath(args.target)
    what = "planning to mirror" if args.dry_run else "mirroring"
    description = description_of(source, target)
    with (
        quiet(args.dry_run),
        current_line().task(f"{what} {source.name}", unit="task") as task,
        watch_tasks(spark, lambda ended, tasks: task.show(ended, total=tasks or None), description),
    ):
        workers = SparkMirrorWorkers(spark, source)
        done = mirror_spread(source, target, args.topics, workers, is_plan=args.dry_run)
    print_mirrored(args, done)
    return 0
