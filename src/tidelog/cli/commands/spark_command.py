"""``tidelog spark JOB``: run a job over a whole data directory on Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.cli.commands.spark_jobs import compact_job, mirror_job, repartition_job, verify_job
from tidelog.cli.options import Command, argument
from tidelog.errors import InvalidArgument, TidelogError

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.argument_parser import CommandParser


SESSION: Final = (
    argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="Spark's master; its workers must see DIR (default local[*], this machine)",
    ),
    argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the Spark session, such as spark.driver.memory=4g; repeatable",
    ),
)
"""What each job takes besides its own options."""


def _add_jobs(parser: CommandParser) -> None:
    jobs = parser.add_subparsers(dest="job", metavar="JOB", title="jobs", required=True)
    for job in (compact_job, mirror_job, repartition_job, verify_job):
        one = job.JOB._replace(parts=job.JOB.parts + SESSION).add_to(jobs)
        one.set_defaults(run_job=job.run, command=" ".join(one.prog.split()[1:]))


COMMAND: Final = Command(
    "spark",
    "run a job on Spark: compact, mirror, repartition or verify",
    (_add_jobs,),
)


def run(args: Namespace) -> int:
    """Start a session, run the job and return its exit code; the session is stopped at the end."""
    from tidelog.cli.arguments import key_value

    _check_directory(args)
    try:
        from tidelog.spark import session

        conf = {"spark.master": args.master} | dict(map(key_value, args.conf))
        spark = session(**conf)
    except ModuleNotFoundError as error:
        raise InvalidArgument(str(error)) from None
    from tidelog.spark.plain_errors import is_of_spark, text_in

    try:
        code: int = args.run_job(args, spark)
    except Exception as error:
        if is_of_spark(error):
            raise TidelogError(text_in(error)) from error
        raise
    finally:
        spark.stop()
    return code


def _check_directory(args: Namespace) -> None:
    """Fail for a missing directory or topic before Spark is started, which takes seconds."""
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.read_only_directory import open_directory_read_only

    topics = [args.topic] if hasattr(args, "topic") else args.topics
    if topics:
        allow_partial = getattr(args, "allow_partial", False)
        choose_partitions(SYSTEM_FILES, args.directories, topics, allow_partial=allow_partial)
    else:
        open_directory_read_only(*map(os.path.abspath, args.directories), fs=SYSTEM_FILES)
